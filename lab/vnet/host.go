package vnet

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/holdfast-sdn/holdfast/lab/vswitch"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

const (
	arpEvery = time.Second // requests are repeated until an answer comes
	arpTries = 3
)

// host is a station that counts the answers to its pings.
type host struct {
	*vswitch.Host
	name  string
	ended chan struct{}
	done  sync.WaitGroup

	mu       sync.Mutex // guards the fields below
	neighbor map[[4]byte]of13.MAC
	heard    chan struct{}        // closed, and made anew, when something was received
	next     uint16               // the number of the next ping
	waiting  map[uint16]time.Time // pings without an answer yet, since when
	counts
}

// counts are those of the pings of a host since the last reset.
type counts struct {
	sent, answered, repeated int
	longest                  time.Duration // until an answer
}

func newHost(no int) *host {
	h := &host{Host: vswitch.NewHost(of13.MAC{2, 0, 0, 0, 0, byte(no)}, [4]byte{10, 0, 0, byte(no)}),
		name: "h" + strconv.Itoa(no), ended: make(chan struct{}), neighbor: map[[4]byte]of13.MAC{},
		heard: make(chan struct{}), waiting: map[uint16]time.Time{}}
	h.done.Go(h.receive)
	return h
}

func (h *host) close() {
	close(h.ended)
	h.done.Wait()
}

func (h *host) receive() {
	for {
		select {
		case <-h.ended:
			return
		case frame := <-h.Received():
			h.mu.Lock()
			if echo, is := vswitch.ParseEcho(frame); is && echo.Reply && echo.Dst == h.IPv4 {
				h.answer(echo.Seq)
			} else if mac, ip, is := parseARPReply(frame); is {
				h.neighbor[ip] = mac
			}
			close(h.heard)
			h.heard = make(chan struct{})
			h.mu.Unlock()
		}
	}
}

// answer counts the answer to a ping. Its caller holds mu.
func (h *host) answer(seq uint16) {
	since, waits := h.waiting[seq]
	if !waits {
		h.repeated++
		return
	}
	delete(h.waiting, seq)
	h.answered++
	h.longest = max(h.longest, time.Since(since))
}

// resolve finds the MAC of an address, by ARP if it is not known yet.
func (h *host) resolve(ctx context.Context, ip [4]byte) (of13.MAC, error) {
	for range arpTries {
		if mac, known := h.await(ctx, 0, ip); known {
			return mac, nil
		}
		h.Resolve(ip)
		if mac, known := h.await(ctx, arpEvery, ip); known {
			return mac, nil
		}
		if ctx.Err() != nil {
			return of13.MAC{}, ctx.Err()
		}
	}
	return of13.MAC{}, fmt.Errorf("%s asked %d times by ARP for %d.%d.%d.%d, and has no answer", h.name, arpTries,
		ip[0], ip[1], ip[2], ip[3])
}

// await waits until a neighbor is known.
func (h *host) await(ctx context.Context, limit time.Duration, ip [4]byte) (mac of13.MAC, known bool) {
	h.until(ctx, limit, func() bool { mac, known = h.neighbor[ip]; return known })
	return mac, known
}

// until waits until so holds, which it calls with mu locked.
func (h *host) until(ctx context.Context, limit time.Duration, so func() bool) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		h.mu.Lock()
		ok, heard := so(), h.heard
		h.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-heard:
		}
	}
}

// ping sends one echo request.
func (h *host) ping(to *host, mac of13.MAC) {
	h.mu.Lock()
	seq := h.next
	h.next++
	h.sent++
	h.waiting[seq] = time.Now()
	h.mu.Unlock()
	h.Ping(mac, to.IPv4, seq)
}

// pings sends echo requests to another host, one each interval, until ctx ends or there were so many; 0 is no bound.
func (h *host) pings(ctx context.Context, to *host, count int, interval time.Duration) error {
	mac, err := h.resolve(ctx, to.IPv4)
	if err != nil {
		return err
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for n := 1; ; n++ {
		h.ping(to, mac)
		if n == count {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// lose counts a ping that could not be sent, since it has no MAC to go to, as lost.
func (h *host) lose() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sent++
}

// settle waits until all pings are answered, for so long at most, and returns what was counted since the last call.
func (h *host) settle(ctx context.Context, limit time.Duration) counts {
	h.until(ctx, limit, func() bool { return len(h.waiting) == 0 })
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.counts
	h.counts = counts{}
	clear(h.waiting)
	return c
}

// plus adds what another host counted.
func (c counts) plus(other counts) counts {
	return counts{c.sent + other.sent, c.answered + other.answered, c.repeated + other.repeated,
		max(c.longest, other.longest)}
}

func (c counts) String() string {
	text := fmt.Sprintf("%d sent, %d answered, %d lost", c.sent, c.answered, c.sent-c.answered)
	if c.repeated > 0 {
		text += fmt.Sprintf(", %d repeated", c.repeated)
	}
	if c.answered > 0 {
		text += fmt.Sprintf("; slowest answer %.1f ms", c.longest.Seconds()*1e3)
	}
	return text
}

// parseARPReply reads who answers, and which address he has.
func parseARPReply(frame []byte) (mac of13.MAC, ip [4]byte, is bool) {
	const header, whole = "\x08\x06\x00\x01\x08\x00\x06\x04\x00\x02", 42
	if len(frame) < whole || string(frame[12:22]) != header {
		return mac, ip, false
	}
	return of13.MAC(frame[22:28]), [4]byte(frame[28:32]), true
}

// onlyEnded is nil if err says no more than that a context has ended.
func onlyEnded(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
