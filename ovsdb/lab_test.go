package ovsdb

import (
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/lab/netlab"
)

// Two Open vSwitches watch the link between them: it comes up, goes down when it is cut silently while it looks fine,
// and comes up again; and what was set is removed.
func TestOpenVSwitches(t *testing.T) {
	lab := netlab.ForTest(t)
	var ends [2]*netlab.Switch
	var clients [2]*Client
	for i, name := range []string{"s1", "s2"} {
		s, err := lab.AddSwitch(name, uint64(0x11+i))
		if err != nil {
			t.Fatal(err)
		}
		ends[i] = s
		clients[i] = run(t, Config{Remote: s.Database()})
	}
	link, err := lab.Connect(ends[0], ends[1])
	if err != nil {
		t.Fatal(err)
	}
	both := func(what string, good func(i Interface) bool) {
		t.Helper()
		for n, c := range clients {
			await(t, c, what, func(v View, err error) bool {
				i, ok := v.Port(ends[n].DatapathID, 1)
				return ok && good(i)
			})
		}
	}
	both("port 1 has a link", func(i Interface) bool { return i.LinkUp && i.BFD == BFDStatus{} })
	for n, c := range clients {
		v, err := c.View()
		if err != nil {
			t.Fatal(err)
		}
		i, _ := v.Port(ends[n].DatapathID, 1)
		if err := c.SetBFD(t.Context(), i, BFD{MinTx: 50 * time.Millisecond, MinRx: 50 * time.Millisecond,
			Multiplier: 5}); err != nil {
			t.Fatal(err)
		}
	}
	up := func(i Interface) bool {
		return i.Ours && i.BFD.State == "up" && i.BFD.RemoteState == "up" && i.BFD.Forwarding
	}
	both("BFD is up", up)
	if err := link.CutSilently(); err != nil {
		t.Fatal(err)
	}
	both("BFD is down over a link that looks fine", func(i Interface) bool {
		return i.BFD.State == "down" && !i.BFD.Forwarding && i.BFD.Diagnostic != "" && i.LinkUp
	})
	if err := link.Restore(); err != nil {
		t.Fatal(err)
	}
	both("BFD is up again", func(i Interface) bool { return up(i) && i.BFD.Flaps > 0 })
	for n, c := range clients {
		i, _ := await(t, c, "is connected", connected).Port(ends[n].DatapathID, 1)
		if err := c.ClearBFD(t.Context(), i); err != nil {
			t.Fatal(err)
		}
	}
	both("BFD is gone", func(i Interface) bool { return !i.Ours && i.BFD == BFDStatus{} })
}
