package shells

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-sdn/holdfast/controller/directory"
	"github.com/holdfast-sdn/holdfast/lab/history"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/southbound"
)

// simulation is the network of one run.
type simulation struct {
	sc          Scenario
	rand        *rand.Rand // of the goroutine that runs the scenario
	net         *network
	controllers []*controllerNode
	agents      []*agentNode
	switches    []*switchNode
	began       time.Time
	tasks       sync.WaitGroup // goroutines of the simulation itself
	ctx         context.Context

	mu        sync.Mutex // guards the fields below; held for checks only
	h         *history.History
	groups    []*history.Group
	assigned  directory.View // what the log of the system group says of switches, if there are several groups
	learned   uint64         // index of its last entry
	violation string
	notes     []string // the last of what happened
}

const keepNotes = 60

// newSimulation makes a network that has not begun. The goroutine that calls it must be in a bubble.
func newSimulation(ctx context.Context, sc Scenario) *simulation {
	s := &simulation{sc: sc, rand: rand.New(rand.NewPCG(sc.Seed, 4)), net: newNetwork(sc.Seed), began: time.Now(),
		ctx: ctx}
	s.h = history.New(s.failed)
	s.addGroups()
	members := map[uint64]string{}
	var addresses []string
	for id := uint64(1); id <= uint64(sc.Controllers); id++ {
		name := "c" + strconv.FormatUint(id, 10)
		members[id] = name + ":7000"
		addresses = append(addresses, name+":6653")
		s.controllers = append(s.controllers, &controllerNode{s: s, at: &place{name: name}, id: id, members: members,
			disk: newDisk(sc.Seed<<8 + id)})
	}
	for id := 1; id <= sc.Switches; id++ {
		sw := &switchNode{s: s, at: &place{name: "s" + strconv.Itoa(id)}, id: openflow.DatapathID(id),
			dials:  sc.Known(id, addresses),
			legacy: sc.Peer(id) == southbound.Legacy, ports: 1 + sc.Switches, cables: map[int]far{}}
		if sc.Peer(id) == southbound.Agent {
			name := "a" + strconv.Itoa(id)
			a := &agentNode{s: s, at: &place{name: name}, controllers: sw.dials, sw: sw}
			sw.agent, sw.dials = a, []string{name + ":6633"}
			s.agents = append(s.agents, a)
		}
		if id > 1 { // the network is a tree
			up := s.switches[s.rand.IntN(len(s.switches))]
			up.cables[id], sw.cables[2] = far{sw, 2}, far{up, id}
		}
		s.switches = append(s.switches, sw)
	}
	return s
}

func (s *simulation) limits() ledger.Limits { return ledger.Limits{QueueCommands: s.sc.QueueCommands} }

// failed ends the run. s.mu is held.
func (s *simulation) failed(format string, args ...any) {
	if s.violation == "" {
		s.violation = fmt.Sprintf("at %v: ", time.Since(s.began)) + fmt.Sprintf(format, args...)
	}
}

func (s *simulation) fail(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed(format, args...)
}

// over reports whether something is wrong.
func (s *simulation) over() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.violation != ""
}

func (s *simulation) note(who, format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.notes) == keepNotes {
		s.notes = s.notes[1:]
	}
	s.notes = append(s.notes, fmt.Sprintf("%12.6f s  %-4s %s", time.Since(s.began).Seconds(), who,
		fmt.Sprintf(format, args...)))
}

// see lets a process that is alive tell the history something.
func (s *simulation) see(p *process, tell func(h *history.History)) {
	s.net.mu.Lock()
	dead := p.dead
	s.net.mu.Unlock()
	if dead {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	tell(s.h)
}

// patience is less than it takes until a peer that says nothing is given up.
const patience = 4 * time.Second

// patient checks why a read from a connection has failed: nobody may be given up who was heard just now.
func (s *simulation) patient(c *conn, err error) {
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return
	}
	s.net.mu.Lock()
	since, known, dead := time.Since(c.heard), !c.heard.IsZero(), c.p.dead
	s.net.mu.Unlock()
	if known && !dead && since < patience {
		s.fail("%s gives up %v, of which it has heard %v ago", c.p.at.name, c.remote, since)
	}
}

// logger takes what a process logs to the notes, and hands on each record, with the group that it is about.
func (s *simulation) logger(p *process, seen func(group uint64, r slog.Record)) *slog.Logger {
	return slog.New(handler{s: s, p: p, seen: seen})
}

type handler struct {
	s     *simulation
	p     *process
	group uint64
	seen  func(group uint64, r slog.Record)
}

// Enabled implements slog.Handler.
func (h handler) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }

// Handle implements slog.Handler.
func (h handler) Handle(_ context.Context, r slog.Record) error {
	if h.seen != nil {
		h.seen(h.group, r)
	}
	var b strings.Builder
	if h.group > 0 {
		fmt.Fprintf(&b, "group %d: ", h.group)
	}
	b.WriteString(r.Message)
	r.Attrs(func(a slog.Attr) bool {
		fmt.Fprintf(&b, " %s=%v", a.Key, a.Value)
		return true
	})
	h.s.note(h.p.at.name, "%s", b.String())
	return nil
}

// WithAttrs implements slog.Handler.
func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	for _, a := range attrs {
		if a.Key == "group" {
			h.group = a.Value.Uint64()
		}
	}
	return h
}

// WithGroup implements slog.Handler.
func (h handler) WithGroup(string) slog.Handler { return h }
