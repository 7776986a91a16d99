package controller

import (
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/lab/load"
	"github.com/holdfast-sdn/holdfast/lab/relay"
)

// Nothing passes any more between an agent and the leader of its switch. The leader reaches the switch through a
// follower long before the connection would be closed for silence, and nothing is lost or repeated. With one group, the
// leader uses its own connection again when the network is repaired. With several, the switch moves to the group of
// another leader.
func TestLostChannelUnderLoad(t *testing.T) {
	for _, several := range []bool{false, true} {
		name := map[bool]string{false: "one group", true: "several groups"}[several]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testLostChannel(t, several)
		})
	}
}

func testLostChannel(t *testing.T, several bool) {
	relays := map[uint64]*relay.Relay{}
	s := &testCluster{t: t, apps: hubs, several: several, timeout: 3 * time.Second,
		election: time.Second} // so that the leader goes on, also on a busy machine
	s.route = func(id uint64, address string) string {
		relays[id] = relay.Start(s.listen("127.0.0.1:0"), address)
		t.Cleanup(relays[id].Close)
		return relays[id].Addr()
	}
	startTestCluster(s)
	// master waits until a controller is the master of the switch, and ok, and returns it.
	master := func(what string, ok func(id uint64, sw SwitchStatus) bool) (master uint64) {
		t.Helper()
		await.Until(t, what, func() bool {
			for id, c := range s.controllers {
				st, err := c.Status(t.Context())
				if err == nil && len(st.Switches) == 1 && st.Switches[0].Role == "master" && ok(id, st.Switches[0]) {
					master = id
					return true
				}
			}
			return false
		})
		return master
	}
	if several {
		s.placed(3, 1, 2, 3)
	}
	ended := make(chan load.Result, 1)
	go func() {
		r, err := load.Run(t.Context(), load.Config{Switches: 1, Window: 1, MACsPerSwitch: 3,
			Duration: 10 * time.Second,
			Drain:    20 * time.Second, Dial: load.At(s.agent.String())})
		if err != nil {
			t.Error(err)
		}
		ended <- r
	}()
	first := master("a master", func(_ uint64, sw SwitchStatus) bool { return sw.CommandsDone > 100 && sw.Via == "" })
	time.Sleep(pathDelay) // so that a follower may be a proxy
	relays[first].Set(relay.Silent)
	began := time.Now()
	master("a proxy", func(id uint64, sw SwitchStatus) bool { return id == first && sw.Via != "" })
	if d := time.Since(began); d > 3*time.Second { // on a busy machine; it is 0.3 s
		t.Errorf("a proxy was used after %v", d)
	} else {
		t.Logf("a proxy was used after %v", d)
	}
	if several {
		master("another leader", func(id uint64, sw SwitchStatus) bool { return id != first && sw.Via == "" })
	}
	relays[first].Set(relay.Faults{})
	if !several {
		master("its own session", func(id uint64, sw SwitchStatus) bool { return id == first && sw.Via == "" })
	}
	r := await.End(t, "the load", ended)
	// The switch also receives the table-miss entry, and the flood of its announcement.
	if r.Unanswered != 0 || r.Total.Sent == 0 || r.Total.Answered != r.Total.Sent || r.Total.Unexpected != 2 {
		t.Errorf("%d packet-ins, %d answered, %d not, %d messages that answer nothing, 2 expected", r.Total.Sent,
			r.Total.Answered, r.Unanswered, r.Total.Unexpected)
	}
}
