// Package audit writes what the logs of all groups hold to a file, a record a line, so that somebody else can compare
// it with what switches said and did. It does not compare, takes no part in the protocol, and costs more than the
// ledger itself.
package audit

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/digest"
	"github.com/holdfast-sdn/holdfast/internal/sink"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// Record is one event that was processed, one command that was issued, one failure of an application, or one item or
// acknowledgement of a stream between groups, or one end of a move. Every controller has the same records for the same
// index.
type Record struct {
	Group    uint64              `json:"group,omitzero"`
	Index    uint64              `json:"index"`    // of the entry in the log of the group
	Position int                 `json:"position"` // of the record in the entry
	Kind     Kind                `json:"kind"`
	Switch   openflow.DatapathID `json:"switch,omitempty"`
	Epoch    uint64              `json:"epoch,omitempty"` // of an event
	Seq      uint64              `json:"seq,omitempty"`
	Type     string              `json:"type,omitempty"`   // of the message, such as PACKET_IN
	Digest   string              `json:"digest,omitempty"` // see Digest
	App      string              `json:"app,omitempty"`
	Error    string              `json:"error,omitempty"`
	Stream   string              `json:"stream,omitempty"` // between groups: from which actor to which
	Actor    string              `json:"actor,omitempty"`  // that moves
}

// Kind of a Record.
type Kind string

// The kinds.
const (
	Event   Kind = "event"
	Command Kind = "command"
	Failure Kind = "failure"

	Sent     Kind = "sent"     // the next item of a stream; without Seq
	Received Kind = "received" // item Seq of a stream
	Taken    Kind = "taken"    // the sender forgets the items up to Seq

	Departed Kind = "departed" // the actor leaves the group; with version Seq it lives in another
	Arrived  Kind = "arrived"  // the actor lives in the group, with version Seq
)

// File is an audit file that is being written, a Record a line. A nil File does nothing. Safe for concurrent use.
type File struct {
	mu   sync.Mutex // the loops of several groups write
	f    *os.File
	w    *bufio.Writer
	sink *sink.Sink // nil for a regular file, which does not block
}

// Of a pipe that nobody reads, or another file that blocks, at most twice maxWaiting bytes are kept for its reader:
// what does not fit is dropped, and counted in its place. Close waits for the reader for patience.
const (
	maxWaiting = 16 << 20
	patience   = time.Second
)

// Open appends to the file at path, which it makes if need be.
func Open(path string) (*File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open audit file: %w", err)
	}
	a := &File{f: f}
	to := io.Writer(f)
	if sink.Blocks(f) {
		a.sink = sink.New(f, maxWaiting)
		to = a.sink
	}
	a.w = bufio.NewWriterSize(to, 64<<10)
	return a, nil
}

// Close ends the file.
func (a *File) Close() error {
	if a == nil {
		return nil
	}
	err := a.w.Flush()
	if a.sink != nil {
		err = cmp.Or(err, a.sink.Close(patience)) // it is closed in any case
	}
	if err != nil {
		err = fmt.Errorf("write audit file %s: %w", a.f.Name(), err)
	}
	return errors.Join(err, a.f.Close())
}

// Append adds the records of a committed entry of a group.
func (a *File) Append(group, index uint64, entry []byte) error {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	enc, n := json.NewEncoder(a.w), 0
	_, err := ledger.Walk(entry, func(r *ledger.Record) error {
		n++
		out := Record{Group: group, Index: index, Position: n, Switch: r.Switch, Epoch: r.Epoch, Seq: r.Seq}
		switch r.Op {
		case ledger.OpSeen:
			out.Kind, out.Type, out.Digest = Event, of13.TypeName(r.Type), format(r.Digest)
			return enc.Encode(out)
		case ledger.OpEvent:
			out.Kind = Event
		case ledger.OpCommand:
			out.Kind = Command
		case ledger.OpFailure:
			out.Kind, out.App, out.Error = Failure, r.App, r.Name
			return enc.Encode(out)
		case ledger.OpDepart:
			out.Kind, out.Actor, out.Seq = Departed, r.Actor.String(), r.Assignment.Version
			return enc.Encode(out)
		case ledger.OpSend, ledger.OpReceive, ledger.OpTaken:
			if a, at, last := ledger.Arrival(r.Bytes); last && r.Op == ledger.OpReceive {
				arrived := out
				arrived.Kind, arrived.Actor, arrived.Seq = Arrived, a.String(), at.Version
				if err := enc.Encode(arrived); err != nil {
					return err
				}
				n++
				out.Position++
			}
			return enc.Encode(item(out, r))
		default:
			return nil
		}
		out.Type, out.Digest = typeName(r.Bytes), Digest(r.Bytes)
		return enc.Encode(out)
	})
	if err == nil {
		err = a.w.Flush()
	}
	if err != nil {
		return fmt.Errorf("write audit file %s: %w", a.f.Name(), err)
	}
	return nil
}

// item completes the record of an item or acknowledgement of a stream.
func item(out Record, r *ledger.Record) Record {
	out.Stream = r.Link.String()
	switch r.Op {
	case ledger.OpSend:
		out.Kind, out.Seq = Sent, 0
	case ledger.OpReceive:
		out.Kind = Received
	default:
		out.Kind = Taken
		return out
	}
	out.Digest = Digest(r.Bytes)
	return out
}

func typeName(msg []byte) string {
	if t, ours := experimenter.Is(msg); ours {
		return t.String()
	}
	if len(msg) < openflow.HeaderLen {
		return ""
	}
	return of13.TypeName(msg[1])
}

// Digest returns a short name for the content of a message: what the log has of an event, where it does not have the
// message. Its xid does not count, nor where a switch keeps the packet of a PACKET_IN.
func Digest(msg []byte) string { return format(digest.Of(msg)) }

func format(digest uint64) string { return fmt.Sprintf("%016x", digest) }
