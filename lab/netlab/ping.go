package netlab

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Echo is the result of one ping.
type Echo struct {
	Sent    time.Time
	RTT     time.Duration // of the first reply; 0 if there was none
	Replies int           // 0: lost; more than 1: something on the way repeats
}

// MaxPings bounds one run: the sequence number has 16 bits.
const MaxPings = 1<<16 - 1

// Ping sends count echo requests to an address, one every interval, whether or not the former ones
// are answered, and waits for late replies up to wait after the last. When ctx ends first, it
// returns what it has. A request that could not be sent is a lost one.
func (h *Host) Ping(ctx context.Context, to netip.Addr, count int, interval, wait time.Duration) ([]Echo, error) {
	if count < 1 || count > MaxPings || interval <= 0 {
		return nil, fmt.Errorf("ping from %s: count %d is not in 1…%d or interval %v not positive", h.Name, count,
			MaxPings, interval)
	}
	conn, err := h.icmp()
	if err != nil {
		return nil, fmt.Errorf("ping from %s: %w", h.Name, err)
	}
	p := &pinger{conn: conn, to: &net.IPAddr{IP: to.AsSlice()}, echoes: make([]Echo, 0, count),
		complete: make(chan struct{})}
	// Many runs may share a namespace and a process: the socket's number tells them apart.
	if p.id, err = socketID(conn); err != nil {
		conn.Close()
		return nil, fmt.Errorf("ping from %s: %w", h.Name, err)
	}
	received := make(chan struct{})
	go func() { p.receive(count); close(received) }()
	if p.send(ctx, count, interval) {
		select {
		case <-p.complete:
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
	conn.Close()
	<-received
	return p.echoes, nil
}

type pinger struct {
	conn     net.PacketConn
	to       net.Addr
	id       uint16
	complete chan struct{} // closed when every request is answered

	mu     sync.Mutex // guards echoes
	echoes []Echo     // by sequence number
}

// send sends all requests, and reports whether it sent all. The schedule is absolute: a late request does not delay
// those after it.
func (p *pinger) send(ctx context.Context, count int, interval time.Duration) bool {
	first := time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for seq := range count {
		select {
		case <-ctx.Done():
			return false
		case <-timer.C:
		}
		p.mu.Lock()
		p.echoes = append(p.echoes, Echo{Sent: time.Now()})
		p.mu.Unlock()
		p.conn.WriteTo(echoRequest(p.id, uint16(seq)), p.to) // an error is a lost request
		timer.Reset(time.Until(first.Add(time.Duration(seq+1) * interval)))
	}
	return true
}

// receive notes replies until the socket is closed.
func (p *pinger) receive(count int) {
	buf := make([]byte, 2048)
	for missing := count; ; {
		n, _, err := p.conn.ReadFrom(buf)
		now := time.Now()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // of an earlier request: "host unreachable" and its like
			continue
		}
		seq, ok := echoReply(buf[:n], p.id)
		if !ok {
			continue
		}
		p.mu.Lock()
		if int(seq) < len(p.echoes) {
			e := &p.echoes[seq]
			if e.Replies++; e.Replies == 1 {
				e.RTT = now.Sub(e.Sent)
				if missing--; missing == 0 {
					close(p.complete)
				}
			}
		}
		p.mu.Unlock()
	}
}

func (h *Host) icmp() (net.PacketConn, error) {
	fd := -1
	err := h.Do(func() (err error) {
		fd, err = unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.IPPROTO_ICMP)
		return err
	})
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "icmp")
	defer f.Close() // FilePacketConn has its own copy
	return net.FilePacketConn(f)
}

// socketID returns a number that most probably no other open socket has: the lower bits of its inode.
func socketID(conn net.PacketConn) (uint16, error) {
	raw, err := conn.(*net.IPConn).SyscallConn()
	if err != nil {
		return 0, err
	}
	var stat unix.Stat_t
	var statErr error
	err = raw.Control(func(fd uintptr) { statErr = unix.Fstat(int(fd), &stat) })
	return uint16(stat.Ino), errors.Join(err, statErr)
}

// Types of RFC 792.
const (
	icmpEchoReply   = 0
	icmpEchoRequest = 8
)

func echoRequest(id, seq uint16) []byte {
	m := make([]byte, 64)
	m[0] = icmpEchoRequest
	binary.BigEndian.PutUint16(m[4:], id)
	binary.BigEndian.PutUint16(m[6:], seq)
	sum := uint32(m[0])<<8 + uint32(id) + uint32(seq) // all other words are 0
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	binary.BigEndian.PutUint16(m[2:], ^uint16(sum))
	return m
}

func echoReply(m []byte, id uint16) (seq uint16, ok bool) {
	if len(m) < 8 || m[0] != icmpEchoReply || binary.BigEndian.Uint16(m[4:]) != id {
		return 0, false
	}
	return binary.BigEndian.Uint16(m[6:]), true
}
