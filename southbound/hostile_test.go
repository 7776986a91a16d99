package southbound

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/lab/hostile"
	"github.com/holdfast-sdn/holdfast/openflow"
)

// attack lets n switches of one host attack, until the end of the test.
func attack(t *testing.T, addr string, n int, s hostile.Switch) {
	ctx, cancel := context.WithCancel(context.Background())
	var attackers sync.WaitGroup
	for i := range n {
		s := s
		s.Datapath, s.From = uint64(1000+i), "127.0.0.66"
		attackers.Go(func() { _ = s.Attack(ctx, addr) })
	}
	t.Cleanup(func() { cancel(); attackers.Wait() })
}

// held returns the bytes that all sessions hold, and the number of those that hold something.
func (b *bed) held() (bytes, sessions int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.sessions {
		if n := s.HeldBytes(); n > 0 {
			bytes, sessions = bytes+n, sessions+1
		}
	}
	return bytes, sessions
}

// honest connects a switch that sends n packets, and waits until this standby holds them.
func (b *bed) honest(t *testing.T, id openflow.DatapathID, n int) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		_ = hostile.Switch{Datapath: uint64(id), Packets: n, Size: 100}.Attack(ctx, b.addr) // it does no harm
	})
	t.Cleanup(func() { cancel(); done.Wait() })
	await.Until(t, "the honest switch to be served", func() bool { s := b.session(id); return s != nil && s.Held() == n })
}

// TestHeldShares: switches that send more to a standby than all may lose it, and not the switch that sends little.
func TestHeldShares(t *testing.T) {
	const bound = 2 << 20
	b := (&bed{t: t}).start(Config{HeldBytes: bound})
	attack(t, b.addr, 16, hostile.Switch{Packets: 1000, Size: 1000}) // 16 MB
	b.honest(t, 7, 50)
	await.Until(t, "all to have sent", func() bool {
		bytes, sessions := b.held()
		if bytes > 2*bound {
			t.Fatalf("%d bytes are held, at most %d are possible", bytes, 2*bound)
		}
		return sessions == 17 && bytes > bound/2
	})
	if n := b.session(7).Held(); n != 50 {
		t.Errorf("%d events of the honest switch are held", n)
	}
}

// TestHandshakeShares: switches that send events in place of an answer are disconnected, those with most first.
func TestHandshakeShares(t *testing.T) {
	b := (&bed{t: t}).start(Config{HeldBytes: 1 << 20})
	attack(t, b.addr, 16, hostile.Switch{Early: 500, Size: 1000})
	await.Until(t, "the log to say so", func() bool { return strings.Contains(b.log.String(), "more than its share") })
	b.honest(t, 7, 50)
}

// TestSessionShares: a host that takes all sessions keeps no other one out.
func TestSessionShares(t *testing.T) {
	b := (&bed{t: t}).start(Config{MaxSessions: 8})
	b.honest(t, 5, 3)
	attack(t, b.addr, 20, hostile.Switch{})
	await.Until(t, "all sessions to be taken", func() bool {
		return strings.Contains(b.log.String(), "no host has more than this one")
	})
	b.honest(t, 6, 3)
	b.honest(t, 7, 3)
	if b.session(5).Held() != 3 {
		t.Error("the switch that was there before is not served any more")
	}
}
