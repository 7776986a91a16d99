package controller

import (
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// counter floods each packet, and counts all of them in one cell: so it works in one group, for the switches of all.
func counter() []ledger.Application {
	a := app.New("counter")
	count := app.NewTable[string, uint64](a, "count")
	need := func(app.PacketIn) app.Cells { return app.Need(count.Cell("all")) }
	flood := of13.Actions(nil).Output(of13.PortFlood, 0)
	app.Handle(a, need, func(tx *app.Tx, in app.PacketIn) error {
		n, _ := count.Get(tx, "all")
		count.Put(tx, "all", n+1)
		tx.PacketOut(in.Switch, of13.PacketOut{BufferID: in.BufferID, InPort: in.InPort, Actions: flood})
		return nil
	})
	return []ledger.Application{a}
}

// An event of a switch in one group, handled in another, commands the switch, whether or not the controllers have
// replicas of both groups.
func TestFramesBetweenGroups(t *testing.T) {
	for _, replicas := range []int{3, 1} {
		s := startTestCluster(&testCluster{t: t, apps: counter, several: true, replicas: replicas})
		r := s.run(6, 300*time.Millisecond)
		if r.Unanswered != 0 || r.Total.Answered != r.Total.Sent || r.Total.Sent == 0 {
			t.Errorf("%d replicas: %d packet-ins, %d answered, %d not", replicas, r.Total.Sent, r.Total.Answered,
				r.Unanswered)
		}
	}
}
