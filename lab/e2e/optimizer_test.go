package e2e

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/api"
	"github.com/holdfast-sdn/holdfast/controller"
	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/lab/cluster"
)

// meters is a cluster with the optimizer, and with the application meter, which has an actor for each switch.
type meters struct{ *streamCluster }

// firstGroup is where all actors of meter begin.
const firstGroup = 1

// threshold is what a move must save in each of two windows of 200 ms, in messages per second. It is more than what
// comes before an actor is pinned: its switch, a flow, a packet and the answer.
const threshold = 14

// TestOptimizer: while packets are answered, the actors of an application come to the groups of their switches, and
// fewer messages go from one group to another. Those that are pinned stay until they are released, also if the leader
// of the system group is killed in between: the next one goes on. holdfast actors, matrix and placement say so. No
// packet is lost, repeated or reordered.
func TestOptimizer(t *testing.T) {
	modes := []mode{withAgents}
	if everything { // the optimizer does not see whether switches have agents
		modes = append(modes, stock)
	}
	inModes(t, modes, func(t *testing.T, m mode) {
		s := meters{m.startGroups(t, 6, cluster.Config{Apps: []string{"meter"}, Sections: fmt.Sprintf("placement: {optimize: "+
			"true, window_ms: 200, windows: 2, threshold: %d, cooldown_ms: 60000, load: 50000}\n", threshold)})}
		for i := range s.switches {
			s.packet(i, i, "first")
			s.arrive(i)
		}
		var far []int // switches in other groups than their actors
		for i, g := range s.groups {
			if g != firstGroup {
				far = append(far, i)
				s.pin(i, true)
			}
		}
		if len(far) != 4 {
			t.Fatalf("the switches are in the groups %v", s.groups)
		}
		stop := s.load()
		s.stay(far)
		s.crossings(far)

		soon, late := far[:3], far[3:]
		for _, i := range soon {
			s.pin(i, false)
		}
		s.come(soon, late)
		s.crossings(late)

		s.check(s.Controllers()[s.leaderOf(0)].Kill())
		s.stay(late)
		s.pin(late[0], false)
		s.come(late, nil)
		stop()
		if r := s.exactStreams(); r.Moves != len(far) {
			t.Errorf("actors have moved %d times, want %d", r.Moves, len(far))
		}
	})
}

// load has each switch send a packet, again and again when all have the answers, until stop is called.
func (s meters) load() (stop func()) {
	end := make(chan struct{})
	var sending sync.WaitGroup
	sending.Go(func() {
		for n := 0; ; n++ {
			for i := range s.switches {
				s.packet(i, i, fmt.Sprint("packet ", n))
			}
			for i, sw := range s.switches {
				if err := sw.wait(1 + s.sent[i]); err != nil {
					s.t.Error(err)
					return
				}
			}
			select {
			case <-end:
				return
			case <-time.After(2 * time.Millisecond):
			}
		}
	})
	stop = sync.OnceFunc(func() { close(end); sending.Wait() })
	s.t.Cleanup(stop)
	return stop
}

// actor is the name of the actor of a switch.
func (s meters) actor(i int) string { return fmt.Sprintf("application meter at %d", i+1) }

// pin pins the actor of a switch to the first group, or releases it.
func (s meters) pin(i int, pinned bool) {
	s.t.Helper()
	args, state := []string{"pin", "meter", "--number", fmt.Sprint(i + 1)}, "pinned"
	if !pinned {
		args, state = append(args, "--release"), "not pinned"
	}
	text := s.command(args...)
	if want := fmt.Sprintf("%s lives in group %d, and is %s\n", s.actor(i), firstGroup, state); text != want {
		s.t.Errorf("holdfast pin says %q, want %q", text, want)
	}
}

// shown is what a command prints, decoded from --json, and as text.
func shown[T any](s meters, command string) (v T, text string) {
	s.t.Helper()
	s.check(json.Unmarshal([]byte(s.command(command, "--json")), &v))
	return v, s.command(command)
}

// optimized waits until the optimizer says something, and checks which share of the messages goes between groups then:
// that of the switches which are far from their actors.
func (s meters) optimized(what string, far []int, ok func(controller.Placement) bool) (controller.Placement, string) {
	s.t.Helper()
	want := float64(len(far)) / float64(len(s.switches))
	await.Until(s.t, what, func() (yes bool) {
		var p controller.Placement
		get(s.testCluster, s.leader(), api.ClusterClient.GetPlacement, &p)
		return ok(p) && p.Local > 0 && math.Abs(p.Crossing/(p.Local+p.Crossing)-want) < 0.05
	})
	return shown[controller.Placement](s, "placement")
}

// stay waits until the optimizer has looked at enough windows to move those that are pinned, and checks that it has
// not.
func (s meters) stay(pinned []int) {
	s.t.Helper()
	p, text := s.optimized("the optimizer to look", pinned, func(p controller.Placement) bool { return p.Looked >= 4 })
	if !p.Optimizes || p.Tried > 0 || len(p.Moved) > 0 || len(p.Candidates) > 0 ||
		!strings.Contains(text, "went between groups (") || strings.Contains(text, "MOVED") {
		s.t.Errorf("with pinned actors the optimizer says %+v\n%s", p, text)
	}
	s.live(pinned)
}

// come waits until the optimizer has moved the actors of switches to these, and checks that others have not moved.
func (s meters) come(list, pinned []int) {
	s.t.Helper()
	p, text := s.optimized("the actors to come", pinned, func(p controller.Placement) bool {
		return len(p.Moved) >= len(list)
	})
	for _, i := range list {
		at := slices.IndexFunc(p.Moved, func(m controller.PlacementMove) bool { return m.Actor == s.actor(i) })
		if at < 0 || p.Moved[at].From != firstGroup || p.Moved[at].To != s.groups[i] || p.Moved[at].Saves < threshold ||
			p.Moved[at].Error != "" {
			s.t.Errorf("the actor of switch %d has not come to group %d: %+v", i+1, s.groups[i], p)
		}
		s.matches(text, `meter at %d +%d +%d .* moved\n`, i+1, firstGroup, s.groups[i])
	}
	if p.Tried != len(list) || p.Failed > 0 {
		s.t.Errorf("%d moves, %d of which failed, want those of %v\n%s", p.Tried, p.Failed, list, text)
	}
	s.live(pinned)
}

// live waits until the actors are shown where their switches are, but for those that are pinned. The controller that
// answers may hear of a move a little later than the leader.
func (s meters) live(pinned []int) {
	s.t.Helper()
	await.Until(s.t, "the actors to be shown in their groups", func() bool {
		a, text := shown[controller.Actors](s, "actors")
		for i, group := range s.groups {
			stays := ""
			if slices.Contains(pinned, i) {
				group, stays = firstGroup, "pinned"
			}
			at := slices.IndexFunc(a.Actors, func(v controller.ActorView) bool { return v.Actor == s.actor(i) })
			if at < 0 || a.Actors[at].Group != group || a.Actors[at].Stays != stays {
				return false
			}
			s.matches(text, `meter at %d +%d +c\d +%s `, i+1, group, cmp.Or(stays, "-"))
		}
		return true
	})
}

func (s meters) matches(text, format string, args ...any) {
	s.t.Helper()
	if !regexp.MustCompile(fmt.Sprintf(format, args...)).MatchString(text) {
		s.t.Errorf("no line matches "+format+" in\n%s", append(args, text)...)
	}
}

// crossings waits until, of some hundred messages that the controllers exchange, that share goes from one to another
// which optimized expects. It is not so while a group is led by another controller than its first.
func (s meters) crossings(far []int) {
	s.t.Helper()
	const enough = 300
	before, _ := shown[controller.Matrix](s, "matrix")
	want := float64(len(far)) / float64(len(s.switches))
	await.Until(s.t, fmt.Sprintf("a share of %.2f of the messages to go between controllers", want), func() bool {
		within, between := 0, 0
		var m controller.Matrix
		get(s.testCluster, s.leader(), api.ClusterClient.GetMatrix, &m)
		for _, c := range m.Cells {
			if n := int(c.Messages - messages(before, c.From, c.To)); c.From == c.To {
				within += n
			} else {
				between += n
			}
		}
		if within+between < enough {
			return false
		}
		before = m
		return math.Abs(float64(between)/float64(within+between)-want) < 0.05
	})
	_, text := shown[controller.Matrix](s, "matrix")
	s.matches(text, `PACKET_IN +switches +meter +\d+`)
}
