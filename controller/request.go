package controller

import (
	"bytes"
	"encoding/binary"
)

// A request is an input of an application that a controller makes (ledger.Core.Request). A follower sends it to the
// leader, in a payload:
//
//	requestPayload u8 | length of the name uvarint | name of the application | request
//
// Requests may be lost, so whoever makes one looks for its effect in the log, and repeats it.

// requestPayload is the first byte of such a payload. The kinds of package proxy are below it.
const requestPayload = 0x80

// maxRequests bounds the requests that wait for room in the ledger. Further ones are dropped.
const maxRequests = 4096

type request struct {
	app  string
	data []byte
}

// Ask passes a request to an application of this group: here, or to the leader. data is not changed afterwards.
func (c *Core) Ask(app string, data []byte) {
	switch {
	case c.role.Leading:
		if len(c.requests) < maxRequests {
			c.requests = append(c.requests, request{app, data})
		}
	case c.role.Leader != 0:
		c.outside.SendPayload(c.role.Leader, appendRequest(nil, app, data)) // else it is lost
	}
}

func appendRequest(dst []byte, app string, data []byte) []byte {
	dst = binary.AppendUvarint(append(dst, requestPayload), uint64(len(app)))
	return append(append(dst, app...), data...)
}

// asked takes a request of another controller, or from 0 of another group of this one. One that is damaged, or arrives
// from another controller at one that does not lead, is dropped.
func (c *Core) asked(from uint64, payload []byte) {
	size, n := binary.Uvarint(payload)
	if n <= 0 || size > uint64(len(payload)-n) || from != 0 && !c.role.Leading {
		return
	}
	payload = payload[n:]
	c.Ask(string(payload[:size]), bytes.Clone(payload[size:]))
}

// executeRequests executes waiting requests while the ledger has room.
func (c *Core) executeRequests() {
	for len(c.requests) > 0 && !c.draining && c.room() {
		c.ledger.Request(c.requests[0].app, c.requests[0].data) // false: another release has made it
		c.requests[0] = request{}
		if c.requests = c.requests[1:]; len(c.requests) == 0 {
			c.requests = nil
		}
	}
}
