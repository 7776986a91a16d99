package outage

import (
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-sdn/holdfast/lab/netlab"
)

const (
	etherType = 0x88b5 // local experimental, IEEE 802
	frameSize = 60

	// receiveBuffer is what the receiving socket may hold: a second of frames, if we are kept waiting.
	receiveBuffer = 16 << 20
)

// stream is frames from one host to another, each with its number.
type stream struct {
	out, in *os.File
	from    net.HardwareAddr
	to      net.HardwareAddr
	began   time.Time
	ended   chan struct{}
	running sync.WaitGroup

	mu      sync.Mutex // guards the fields below
	rec     record
	longest time.Duration // that the sender was late
}

// startStream sends a frame every interval until close.
func startStream(from, to *netlab.Host, interval time.Duration) (*stream, error) {
	s := &stream{from: from.MAC, to: to.MAC, began: time.Now(), ended: make(chan struct{})}
	var err error
	if s.out, err = from.Raw(); err != nil {
		return nil, err
	}
	if s.in, err = to.Raw(); err == nil {
		err = setReceiveBuffer(s.in)
	}
	if err != nil {
		s.out.Close()
		if s.in != nil {
			s.in.Close()
		}
		return nil, err
	}
	s.running.Go(func() { s.send(interval) })
	s.running.Go(s.receive)
	return s, nil
}

func setReceiveBuffer(f *os.File) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	if e := raw.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, receiveBuffer)
	}); e != nil {
		return e
	}
	if err != nil {
		return fmt.Errorf("buffer of the receiving host: %w", err)
	}
	return nil
}

// send paces the frames with the kernel's clock, because a sleep of the Go runtime takes a millisecond or more. Late
// frames are sent at once.
func (s *stream) send(interval time.Duration) {
	frame := make([]byte, frameSize)
	copy(frame, s.to)
	copy(frame[6:], s.from)
	binary.BigEndian.PutUint16(frame[12:], etherType)
	for next := time.Now(); ; next = next.Add(interval) {
		if wait := time.Until(next); wait > 0 {
			pause := unix.NsecToTimespec(wait.Nanoseconds())
			_ = unix.Nanosleep(&pause, nil) // after a signal it is only early
		}
		select {
		case <-s.ended:
			return
		default:
		}
		s.mu.Lock()
		s.longest = max(s.longest, time.Since(next))
		n := s.rec.send(s.now())
		s.mu.Unlock()
		binary.BigEndian.PutUint32(frame[14:], uint32(n))
		_, _ = s.out.Write(frame) // an error is a lost frame
	}
}

func (s *stream) receive() {
	for buf := make([]byte, 2048); ; {
		k, err := s.in.Read(buf)
		if err != nil {
			return
		}
		if k < 18 || binary.BigEndian.Uint16(buf[12:]) != etherType {
			continue
		}
		n := binary.BigEndian.Uint32(buf[14:])
		s.mu.Lock()
		s.rec.receive(int(n))
		s.mu.Unlock()
	}
}

// now is the time since the stream began.
func (s *stream) now() time.Duration { return time.Since(s.began) }

// forget drops the record, and returns how many of its frames were lost.
func (s *stream) forget() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rec.forget(s.now())
}

// outage returns the interruption since a time of now, if it is over.
func (s *stream) outage(since time.Duration) (sample Sample, over bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rec.full() {
		return Sample{}, false, fmt.Errorf("%d frames were sent since frames came last", maxFrames)
	}
	sample, over = s.rec.outage(since, s.now())
	return sample, over, nil
}

// late returns how long the sender has been late at worst since it was last asked.
func (s *stream) late() (longest time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	longest, s.longest = s.longest, 0
	return longest
}

// lost reports whether a frame was lost since a time of now.
func (s *stream) lost(since time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rec.lost(since, s.now())
}

func (s *stream) close() {
	close(s.ended)
	s.in.Close()
	s.running.Wait()
	s.out.Close()
}
