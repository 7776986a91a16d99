package e2e

import (
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/lab/cluster"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// frameFrom is a packet-in of a frame from one host to another. Host n is at port n.
func frameFrom(from, to byte) *of13.PacketIn {
	data := []byte{2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, from, 0x88, 0xb5, 'h', 'i'}
	return &of13.PacketIn{BufferID: of13.NoBuffer, TotalLen: uint16(len(data)),
		Match: of13.Match(nil).WithInPort(of13.Port(from)), Data: data}
}

// TestMinority kills a follower, and stops the other. The leader goes on to forward the frames of known hosts, and says
// that it has no majority. When the others are back, each event is processed once, and no command is lost or repeated.
func TestMinority(t *testing.T) {
	t.Parallel()
	s := startCluster(t, cluster.Config{Agents: 1, Apps: []string{"learning"}})
	s.connect()
	sw := s.switches[0].(*fakeSwitch)
	arrive := func(n int) {
		t.Helper()
		if err := sw.wait(n); err != nil {
			t.Fatalf("%v\n%s", err, s.Logs())
		}
	}
	sw.event(frameFrom(1, 2))
	sw.event(frameFrom(2, 1))
	arrive(4) // the flow for unknown packets, a flood, a flow and its packet
	s.inSync()
	leader, down := s.leader(), s.followers()
	s.check(down[0].Kill())
	s.check(down[1].Signal(syscall.SIGSTOP))
	await.Until(t, "the leader to step down", func() bool { // until then the other may not have stopped
		st, err := leader.Status(s.ctx)
		return err == nil && st.Role == "no leader"
	})
	sw.event(frameFrom(1, 2)) // known
	sw.event(frameFrom(1, 9)) // unknown
	arrive(7)
	var ports []of13.Port
	for _, c := range sw.executed()[4:] {
		var out of13.PacketOut
		if c[1] == of13.TypePacketOut && out.Decode(c) == nil {
			for a := range out.Actions.All() {
				ports = append(ports, a.Port)
			}
		}
	}
	if len(ports) != 2 || ports[0] != 2 || ports[1] != of13.PortFlood || s.tally.BestEffort() != 3 {
		t.Errorf("frames leave at ports %v, by %d commands without a sequence", ports, s.tally.BestEffort())
	}
	for args, says := range map[string][]string{
		"status": {leader.Name + " led the group when it lost the majority", "2 events so far",
			"has known no leader since", "no controller leads: a majority"},
		"status --json": {`"stale": {`, `"degraded_events": 2`},
		"member list":   {"no controller leads", leader.Name},
		"actors":        {"no controller leads group 0"},
	} {
		out, err := s.Command(s.ctx, strings.Fields(args)...)
		if err != nil {
			out += err.Error() // status fails
		}
		for _, text := range says {
			if !strings.Contains(out, text) {
				t.Errorf("holdfast %s does not say %q:\n%s", args, text, out)
			}
		}
	}
	s.check(down[0].Restart())
	s.check(down[1].Signal(syscall.SIGCONT))
	arrive(10)
	s.exact()
	if n := s.tally.BestEffort(); n != 3 {
		t.Errorf("%d commands without a sequence", n)
	}
}
