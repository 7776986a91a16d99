package calm

import (
	"encoding/binary"
	"os"
	"sync"
	"time"

	"github.com/holdfast-sdn/holdfast/lab/netlab"
)

const (
	etherType = 0x88b5 // local experimental, IEEE 802
	frameSize = 60
	headerLen = 14
)

// streams are frames from each host to another one, numbered. It records when each was sent, and whether it arrived:
// nine bytes for each frame.
type streams struct {
	hosts   []*netlab.Host
	sockets []*os.File
	began   time.Time
	ended   chan struct{}
	running sync.WaitGroup

	mu      sync.Mutex // guards the fields below
	sentAt  [][]time.Duration
	arrived [][]bool
}

// startStreams sends until close. The sockets are the caller's.
func startStreams(hosts []*netlab.Host, sockets []*os.File) *streams {
	s := &streams{hosts: hosts, sockets: sockets, began: time.Now(), ended: make(chan struct{}),
		sentAt: make([][]time.Duration, len(hosts)), arrived: make([][]bool, len(hosts))}
	s.running.Go(s.send)
	for _, f := range sockets {
		s.running.Go(func() { s.receive(f) })
	}
	return s
}

func (s *streams) close() {
	close(s.ended)
	for _, f := range s.sockets {
		f.SetReadDeadline(time.Now())
	}
	s.running.Wait()
}

func (s *streams) now() time.Duration { return time.Since(s.began) }

// partner is the host that host i sends to: in another row and column.
func (s *streams) partner(i int) *netlab.Host { return s.hosts[(i+side+1)%len(s.hosts)] }

func (s *streams) send() {
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		select {
		case <-t.C:
		case <-s.ended:
			return
		}
		for i, f := range s.sockets {
			frame := s.frame(i, etherType)
			s.mu.Lock()
			binary.BigEndian.PutUint16(frame[headerLen:], uint16(i))
			binary.BigEndian.PutUint32(frame[headerLen+2:], uint32(len(s.sentAt[i])))
			s.sentAt[i], s.arrived[i] = append(s.sentAt[i], s.now()), append(s.arrived[i], false)
			s.mu.Unlock()
			_, _ = f.Write(frame) // an error is a lost frame
		}
	}
}

// frame returns an empty frame from host i to its partner.
func (s *streams) frame(i int, typ uint16) []byte {
	frame := make([]byte, frameSize)
	copy(frame, s.partner(i).MAC)
	copy(frame[6:], s.hosts[i].MAC)
	binary.BigEndian.PutUint16(frame[12:], typ)
	return frame
}

// introduce has each host say where it is, by an ARP request for itself.
func (s *streams) introduce() {
	for i, f := range s.sockets {
		frame := s.frame(i, 0x0806)
		copy(frame, []byte{255, 255, 255, 255, 255, 255})
		addr := s.hosts[i].Addr.Addr().As4()
		arp := append(frame[:headerLen:headerLen], 0, 1, 8, 0, 6, 4, 0, 1)
		arp = append(append(arp, s.hosts[i].MAC...), addr[:]...)
		arp = append(append(arp, 0, 0, 0, 0, 0, 0), addr[:]...)
		copy(frame, arp)
		_, _ = f.Write(frame)
	}
}

func (s *streams) receive(f *os.File) {
	for buf := make([]byte, 2048); ; {
		k, err := f.Read(buf)
		if err != nil {
			return
		}
		if k < headerLen+6 || binary.BigEndian.Uint16(buf[12:]) != etherType {
			continue
		}
		i, n := int(binary.BigEndian.Uint16(buf[headerLen:])), int(binary.BigEndian.Uint32(buf[headerLen+2:]))
		s.mu.Lock()
		if i < len(s.arrived) && n < len(s.arrived[i]) {
			s.arrived[i][n] = true
		}
		s.mu.Unlock()
	}
}

// tally returns how many frames were sent in a span of time, and when those that have not arrived were.
func (s *streams) tally(from, to time.Duration) (sent int, lost []time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, all := range s.sentAt {
		for n, at := range all {
			if at < from || at >= to {
				continue
			}
			sent++
			if !s.arrived[i][n] {
				lost = append(lost, at)
			}
		}
	}
	return sent, lost
}
