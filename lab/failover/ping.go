package failover

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// Host is a host of the network. Its pings are numbered frames of an EtherType for local experiments (IEEE 802), which
// no kernel answers. No two packets are equal.
type Host struct {
	mac  of13.MAC
	send func(frame []byte) error

	mu       sync.Mutex // guards the fields below
	seq      uint64
	waiting  map[uint64]time.Time // pings sent and not answered
	replies  []time.Time
	requests map[request]bool // pings of others that were answered
	repeated int              // frames that were received again: a switch was told twice to send them
	replied  func(took time.Duration)
	err      error
}

type request struct {
	from of13.MAC
	seq  uint64
}

const (
	etherType   = 0x88b5
	frameLen    = 60
	kindRequest = 1
	kindReply   = 2
)

func newHost(n int, send func(frame []byte) error) *Host {
	return &Host{mac: of13.MAC{0x02, 0, 0, 0, 0, byte(n)}, send: send, waiting: map[uint64]time.Time{},
		requests: map[request]bool{}}
}

func frame(dst, src of13.MAC, kind byte, seq uint64) []byte {
	f := make([]byte, frameLen)
	copy(f, dst[:])
	copy(f[6:], src[:])
	binary.BigEndian.PutUint16(f[12:], etherType)
	f[14] = kind
	binary.BigEndian.PutUint64(f[15:], seq)
	return f
}

// receive is called with every frame that reaches the host.
func (h *Host) receive(f []byte) {
	if len(f) < frameLen || binary.BigEndian.Uint16(f[12:]) != etherType || of13.MAC(f[:6]) != h.mac {
		return // flooded, and for another host
	}
	seq := binary.BigEndian.Uint64(f[15:])
	if f[14] == kindRequest {
		err := h.send(frame(of13.MAC(f[6:12]), h.mac, kindReply, seq))
		h.mu.Lock()
		defer h.mu.Unlock()
		h.fail(err)
		r := request{of13.MAC(f[6:12]), seq}
		if h.requests[r] {
			h.repeated++
		}
		h.requests[r] = true
		return
	}
	h.mu.Lock()
	sent, ok := h.waiting[seq]
	replied := h.replied
	if ok {
		delete(h.waiting, seq)
		h.replies = append(h.replies, time.Now())
	} else {
		h.repeated++
	}
	h.mu.Unlock()
	if ok && replied != nil {
		replied(time.Since(sent))
	}
}

// onReply makes f be called with each reply from now on.
func (h *Host) onReply(f func(took time.Duration)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.replied = f
}

func (h *Host) fail(err error) {
	if h.err == nil && err != nil {
		h.err = fmt.Errorf("host %s: send: %w", h.mac, err)
	}
}

// pingUntil sends a ping to peer at each interval until ctx ends, unless the host is to rest, or maxWaiting are
// unanswered. It begins after the given time.
func (h *Host) pingUntil(ctx context.Context, peer *Host, after, interval time.Duration, rest *atomic.Bool) {
	select {
	case <-ctx.Done():
		return
	case <-time.After(after):
	}
	t := time.NewTicker(interval)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			if !rest.Load() {
				h.ping(peer)
			}
		}
	}
}

// maxWaiting bounds the unanswered pings of a host.
const maxWaiting = 1000

func (h *Host) ping(peer *Host) { h.sendNext(frame(peer.mac, h.mac, kindRequest, 0)) }

// probe sends a packet that comes back as the reply to itself, if the application of NewBurst runs, as the last of a
// number of commands.
func (h *Host) probe(commands byte) {
	f := frame(h.mac, h.mac, kindReply, 0)
	f[burstAt] = commands
	h.sendNext(f)
}

// sendNext sends a frame, with the next number, whose reply is waited for.
func (h *Host) sendNext(f []byte) {
	h.mu.Lock()
	if len(h.waiting) >= maxWaiting {
		h.mu.Unlock()
		return
	}
	h.seq++
	binary.BigEndian.PutUint64(f[15:], h.seq)
	h.waiting[h.seq] = time.Now()
	h.mu.Unlock()
	if err := h.send(f); err != nil {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.fail(err)
	}
}

// counts returns the numbers of pings sent and answered, and of frames received more than once.
func (h *Host) counts() (sent, answered, repeated int, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return int(h.seq), len(h.replies), h.repeated, h.err
}

// longestSilence returns the longest time between two answers that overlaps [from, to].
func (h *Host) longestSilence(from, to time.Time) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	var longest time.Duration
	for i := 1; i < len(h.replies); i++ {
		if h.replies[i].After(from) && h.replies[i-1].Before(to) {
			longest = max(longest, h.replies[i].Sub(h.replies[i-1]))
		}
	}
	return longest
}
