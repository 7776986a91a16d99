package southbound

import (
	"sync"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
)

func TestProbe(t *testing.T) {
	for _, tc := range []struct {
		p            Probe
		alive, known bool
	}{
		{Probe{}, false, false},
		{Probe{Busy: true}, false, false},
		{Probe{Heard: true}, true, true},
		{Probe{Late: true}, false, true},
		{Probe{Late: true, Busy: true}, true, true},
		{Probe{Late: true, Heard: true}, true, true},
		{Probe{Gone: true, Busy: true, Heard: true}, false, true},
	} {
		if alive, known := tc.p.Alive(); alive != tc.alive || known != tc.known {
			t.Errorf("%+v: alive %v, known %v", tc.p, alive, known)
		}
	}
}

// A legacy switch that waits for a leader is not read, so its end is not seen. If it connects again, that replaces it.
func TestUnclaimedSwitchConnectsAgain(t *testing.T) {
	b := (&bed{t: t}).start(Config{ProbeTimeout: 50 * time.Millisecond})
	first := b.legacy(7)
	await.Until(t, "attached", func() bool { return b.session(7) != nil })
	first.Close()
	b.legacy(7)
	b.want(t, "attached 7 legacy, detached 7, attached 7 legacy")
}

func TestDuplicateIsRefusedWhileTheFirstLives(t *testing.T) {
	b := (&bed{t: t}).start(Config{})
	first := b.agent(7, 100)
	await.Until(t, "attached", func() bool { return b.session(7) != nil })
	stop := make(chan struct{})
	var alive sync.WaitGroup
	alive.Go(func() {
		for {
			msg, err := first.in.Next()
			if err != nil {
				return
			}
			if msg[1] == openflow.TypeEchoRequest {
				first.say(raw(4, 3, 0))
			}
		}
	})
	second := b.agent(7, 200)
	r, err := experimenter.ParseRefuse(second.expect(openflow.TypeExperimenter))
	if err != nil || r.Reason != experimenter.ReasonDuplicateDatapath {
		t.Fatalf("%+v, %v", r, err)
	}
	second.Close()
	b.legacy(7).closed()
	if lines := b.log.Lines("give each switch its own"); len(lines) != 1 {
		t.Fatalf("%s", lines)
	}
	b.want(t, "attached 7 agent")
	close(stop)
	first.Close()
	alive.Wait()
}

func TestHalfDeadSessionIsReplaced(t *testing.T) {
	b := (&bed{t: t}).start(Config{ProbeTimeout: 100 * time.Millisecond})
	b.agent(7, 100) // does not answer any more
	await.Until(t, "attached", func() bool { return b.session(7) != nil })
	b.agent(7, 100)
	b.want(t, "attached 7 agent, detached 7, attached 7 agent")
}
