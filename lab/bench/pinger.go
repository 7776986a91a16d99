package bench

import (
	"encoding/binary"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-sdn/holdfast/lab/exchange"
	"github.com/holdfast-sdn/holdfast/lab/netlab"
)

const (
	pingEvery   = 2 * time.Millisecond
	pingPatient = 5 * time.Second // how long the last answers may take
	pingSize    = 60              // bytes of a frame
	pingHeader  = 14              // of Ethernet
)

// pinger sends numbered frames from a host to another one, which sends each back. It records when each was sent and
// answered: 24 bytes a frame.
type pinger struct {
	near, far *os.File
	toFar     []byte // header of the frames
	began     time.Time
	stop      chan struct{} // nothing more is sent
	sending   sync.WaitGroup
	running   sync.WaitGroup

	mu       sync.Mutex // guards the fields below
	sent     []time.Duration
	answered []time.Duration // zero: not yet
	repeated int
}

// startPinger makes both hosts known, and sends until finish or close.
func startPinger(near, far *netlab.Host) (*pinger, error) {
	p := &pinger{began: time.Now(), stop: make(chan struct{})}
	var err error
	if p.near, err = near.Raw(); err != nil {
		return nil, err
	}
	if p.far, err = far.Raw(); err != nil {
		p.near.Close()
		return nil, err
	}
	p.toFar = pingFrame(near.MAC, far.MAC)
	for f, mac := range map[*os.File][]byte{p.near: near.MAC, p.far: far.MAC} {
		if _, err := f.Write(pingFrame(mac, mac)); err != nil {
			p.near.Close()
			p.far.Close()
			return nil, err
		}
	}
	p.sending.Go(p.send)
	p.running.Go(func() { p.receive(p.near, p.answer) })
	p.running.Go(func() { p.receive(p.far, p.reflect) })
	return p, nil
}

// pingFrame returns a frame with the number 0, which is of no ping.
func pingFrame(from, to []byte) []byte {
	frame := make([]byte, pingSize)
	copy(frame, to)
	copy(frame[6:], from)
	binary.BigEndian.PutUint16(frame[12:], exchange.EtherType)
	return frame
}

func (p *pinger) now() time.Duration { return time.Since(p.began) }

// send ends with stop.
func (p *pinger) send() {
	t := time.NewTicker(pingEvery)
	defer t.Stop()
	for {
		select {
		case <-t.C:
		case <-p.stop:
			return
		}
		frame := slices.Clone(p.toFar)
		p.mu.Lock()
		p.sent, p.answered = append(p.sent, p.now()), append(p.answered, 0)
		binary.BigEndian.PutUint64(frame[pingHeader:], uint64(len(p.sent)))
		p.mu.Unlock()
		_, _ = p.near.Write(frame) // an error is a lost frame
	}
}

// receive ends when the file is closed.
func (p *pinger) receive(f *os.File, do func(frame []byte, number uint64)) {
	buf := make([]byte, 2048)
	for {
		n, err := f.Read(buf)
		if err != nil {
			return
		}
		frame := buf[:n]
		if n >= pingHeader+8 && binary.BigEndian.Uint16(frame[12:]) == exchange.EtherType {
			if number := binary.BigEndian.Uint64(frame[pingHeader:]); number > 0 {
				do(frame, number)
			}
		}
	}
}

func (p *pinger) answer(_ []byte, number uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case number > uint64(len(p.sent)): // of another host
	case p.answered[number-1] > 0:
		p.repeated++
	default:
		p.answered[number-1] = p.now()
	}
}

// reflect sends a frame back.
func (p *pinger) reflect(frame []byte, _ uint64) {
	back := pingFrame(frame[:6], frame[6:12])
	copy(back[pingHeader:], frame[pingHeader:pingHeader+8])
	_, _ = p.far.Write(back)
}

// latency is the median round trip of what was sent since then, in ms.
func (p *pinger) latency(since time.Duration) float64 {
	ms, _ := p.within(since, p.now())
	return ms
}

// within is the median round trip of what was sent in a time, in ms.
func (p *pinger) within(from, to time.Duration) (ms float64, answered bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var trips []float64
	for i, at := range p.sent {
		if at >= from && at < to && p.answered[i] > 0 {
			trips = append(trips, millis(p.answered[i]-at))
		}
	}
	return quantile(trips, 0.5), len(trips) > 0
}

// gap is the longest time without an answer since then, in ms.
func (p *pinger) gap(since time.Duration) float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	arrived := slices.Sorted(slices.Values(p.answered))
	last, longest := since, time.Duration(0)
	for _, at := range arrived {
		if at > since {
			longest, last = max(longest, at-last), at
		}
	}
	return millis(max(longest, p.now()-last))
}

// finish sends nothing more, waits for answers, and returns how many frames were not answered, and how many were
// answered again.
func (p *pinger) finish() (lost, repeated int) {
	p.end()
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		p.mu.Lock()
		lost, repeated = 0, p.repeated
		for _, at := range p.answered {
			if at == 0 {
				lost++
			}
		}
		p.mu.Unlock()
		if lost == 0 || time.Since(began) > pingPatient {
			return lost, repeated
		}
	}
}

func (p *pinger) end() {
	select {
	case <-p.stop:
	default:
		close(p.stop)
	}
	p.sending.Wait()
}

// close ends everything.
func (p *pinger) close() {
	p.end()
	p.near.Close()
	p.far.Close()
	p.running.Wait()
}
