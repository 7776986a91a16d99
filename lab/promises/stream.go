package promises

import (
	"bytes"
	"context"
	"encoding/binary"
	"sync"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"github.com/holdfast-sdn/holdfast/lab/vswitch"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// stream is numbered datagrams of UDP from one host to another, and what has become of them.
type stream struct {
	from, to *vswitch.Host
	frame    []byte // with room for the number; owned by run
	every    time.Duration
	burst    int                     // frames each time
	right    func(frame []byte) bool // whether one that has arrived is as it should be; nil: any is

	mu    sync.Mutex // guards what follows
	sent  []time.Time
	times []uint8 // that each has arrived
	wrong int     // that arrived elsewhere, or were not right
}

// Where a frame has its mark, and behind that the number of the stream and its own.
const markAt = 14 + 20 + 8

var mark = []byte("promise")

const streamAt, numberAt, leastSize = markAt + 7, markAt + 8, markAt + 16

// add adds a stream of frames of a size to an Ethernet address, which is that of to, or of a router.
func (w *network) add(from, to *vswitch.Host, mac of13.MAC, port uint16, size int) *stream {
	s := &stream{from: from, to: to, every: 5 * time.Millisecond, burst: 1}
	b := gopacket.NewSerializeBuffer()
	payload := make(gopacket.Payload, max(size, leastSize)-markAt)
	copy(payload, mark)
	payload[streamAt-markAt] = byte(len(w.streams))
	ip := &layers.IPv4{Version: 4, TTL: ttl, Protocol: layers.IPProtocolUDP, SrcIP: from.IPv4[:], DstIP: to.IPv4[:]}
	udp := &layers.UDP{SrcPort: 9, DstPort: layers.UDPPort(port)}
	err := udp.SetNetworkLayerForChecksum(ip)
	if err == nil {
		err = gopacket.SerializeLayers(b, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true},
			&layers.Ethernet{SrcMAC: from.MAC[:], DstMAC: mac[:], EthernetType: layers.EthernetTypeIPv4}, ip, udp,
			payload)
	}
	if err != nil {
		panic(err) // the fields are those of hosts
	}
	s.frame = b.Bytes()
	copy(s.frame[markAt-2:], []byte{0, 0}) // UDP without a checksum, since the number changes
	w.streams = append(w.streams, s)
	return s
}

// ttl is that of datagrams when they are sent.
const ttl = 64

// parse reads the numbers of a stream and of its frame.
func parse(frame []byte) (id byte, n uint64, ok bool) {
	if len(frame) < leastSize || !bytes.Equal(frame[markAt:streamAt], mark) {
		return 0, 0, false
	}
	return frame[streamAt], binary.BigEndian.Uint64(frame[numberAt:]), true
}

func (s *stream) run(ctx context.Context) {
	tick := time.NewTicker(s.every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			for range s.burst {
				s.mu.Lock()
				binary.BigEndian.PutUint64(s.frame[numberAt:], uint64(len(s.sent)))
				s.sent, s.times = append(s.sent, now), append(s.times, 0)
				s.mu.Unlock()
				s.from.Send(s.frame)
			}
		}
	}
}

func (s *stream) arrive(at *vswitch.Host, n uint64, frame []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at != s.to || n >= uint64(len(s.times)) || s.right != nil && !s.right(frame) {
		s.wrong++
		return
	}
	s.times[n] = min(s.times[n], 254) + 1
}

// next returns the number of the next frame.
func (s *stream) next() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sent)
}

// flows reports whether a frame has arrived that was sent since.
func (s *stream) flows(since int) bool { return s.count(since, s.next()).arrived > 0 }

// count is what has become of some frames of a stream.
type count struct {
	sent, arrived, repeated, wrong int
	outage                         time.Duration // the longest time in which only frames were sent that did not arrive
}

// lost returns how many frames have not arrived.
func (c count) lost() int { return c.sent - c.arrived }

// count counts the frames from one to another.
func (s *stream) count(since, before int) (c count) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.wrong = s.wrong
	began := time.Time{}
	for n := since; n < before; n++ {
		c.sent++
		switch {
		case s.times[n] > 0:
			c.arrived++
			c.repeated += int(s.times[n]) - 1
			if !began.IsZero() {
				c.outage = max(c.outage, s.sent[n].Sub(began))
			}
			began = time.Time{}
		case began.IsZero():
			began = s.sent[n]
		}
	}
	if !began.IsZero() {
		c.outage = max(c.outage, s.sent[before-1].Sub(began))
	}
	return c
}

// add adds the counts of two streams.
func (c count) add(d count) count {
	return count{c.sent + d.sent, c.arrived + d.arrived, c.repeated + d.repeated, c.wrong + d.wrong,
		max(c.outage, d.outage)}
}
