package e2e

import (
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/lab/cluster"
	"github.com/holdfast-sdn/holdfast/lab/vswitch"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// TestValiant runs the application with unordered packet-ins in a ring of switches. Hosts reach each other, also
// when a link is cut and after the death of the leader. No links or hosts are forgotten.
func TestValiant(t *testing.T) {
	notInShort(t)
	t.Parallel()
	s := startCluster(t, cluster.Config{Agents: 1, Apps: []string{"valiant"}})
	ring, links := s.ring(4, 3)
	alice := vswitch.NewHost(of13.MAC{2, 0, 0, 0, 0, 1}, [4]byte{10, 0, 0, 1})
	bob := vswitch.NewHost(of13.MAC{2, 0, 0, 0, 0, 2}, [4]byte{10, 0, 0, 2})
	vswitch.Connect(ring[0].Port(3), alice)
	vswitch.Connect(ring[2].Port(3), bob)

	seq := uint16(0)
	reach := func(when string) {
		t.Helper()
		for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
			seq++
			alice.Resolve(bob.IPv4) // so that topology learns of both
			alice.Ping(bob.MAC, bob.IPv4, seq)
			wait := time.After(200 * time.Millisecond)
			for waiting := true; waiting; {
				select {
				case f := <-alice.Received():
					if e, ok := vswitch.ParseEcho(f); ok && e.Reply && e.Seq == seq {
						return
					}
				case <-wait:
					waiting = false
				}
			}
		}
		t.Fatalf("%s alice does not reach bob", when)
	}
	reach("at first")
	links[0].SetUp(false)
	reach("with a link cut")
	links[0].SetUp(true)
	s.check(s.leader().Kill())
	links[3].SetUp(false)
	reach("without the leader, and with another link cut,")
	// While flows are replaced, a frame may meet old and new ones, and loop for a while.
	looped := func() (n uint64) {
		for _, l := range links {
			n += l.Looped()
		}
		return n
	}
	for tries := 0; ; tries++ {
		before := looped()
		reach("at last")
		if looped() == before {
			return
		}
		if tries == 10 {
			t.Fatalf("%d frames went round and round, and more come", looped())
		}
	}
}
