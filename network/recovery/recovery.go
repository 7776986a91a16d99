package recovery

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/network/liveness"
	"github.com/holdfast-sdn/holdfast/network/paths"
	"github.com/holdfast-sdn/holdfast/network/topology"
)

// Name is the name of the application, which owns its tables.
const Name = "recovery"

// Cookie is the cookie of the entries that send packets to the tables of package protect, and of no others.
const Cookie uint64 = 0x686672636f76 // "hfrcov"

// Config says how to protect.
type Config struct {
	Disjoint              paths.Disjoint
	HoldDown              time.Duration // that a link has to be up before it is used again
	Reconcile             time.Duration // in which each switch is checked once
	RemoveForeign         bool          // entries and groups that belong to no application
	MaxEntries, MaxGroups int           // of one switch
	// Table is the first of the three tables that it uses. Entries of other applications in lower tables decide first
	// which packets go on to it.
	Table uint8
}

// How long changes are collected before a plan is made.
const (
	hostQuiet      = 20 * time.Millisecond
	lossQuiet      = 100 * time.Millisecond
	discoveryQuiet = 500 * time.Millisecond

	mostWait      = time.Second     // until no more changes come
	mostDiscovery = 5 * time.Second // while new switches and links are found
	// for switches that have come back to be repaired, before the next plan is made without them
	patience = 2 * time.Second
)

const (
	maxJobs  = 16  // switches with an outstanding answer
	maxPart  = 400 // messages to a switch in one transaction
	answerIn = 10 * time.Second
	maxRetry = time.Minute
	minTurn  = 10 * time.Millisecond

	// foundIn is how long topology has to find a link again after its switch is back.
	foundIn = 2*topology.Interval + topology.Settle
)

// Names of timers; those that end with a blank are followed by a switch or a port.
const (
	timerPlan  = "plan"
	timerRound = "round"
	timerTurn  = "turn"
	timerHold  = "hold "
	timerFound = "found "
	timerRetry = "retry "
	timerShade = "shade "
	timerLate  = "late "
)

// all is the one cell of each table: a plan needs all of them.
const all = 0

// Cells of the plan tables.
const (
	installed uint32 = iota
	target
)

type recovery struct {
	config Config

	state    app.Table[uint32, state]
	switches app.Map[uint32, app.Switch, switchRow]
	links    app.Map[uint32, app.PortOf, link] // at both ends
	hosts    app.Map[uint32, app.MAC, place]
	addrs    app.Map[uint32, app.MAC, []netip.Addr] // of hosts, as topology last reported
	unheard  app.Map[uint32, app.MAC, bool]         // hosts that were not heard since their switch was down

	planSwitches app.Map[uint32, app.Switch, uint16]
	planLinks    app.Map[uint32, app.PortOf, place]
	planHosts    app.Map[uint32, app.MAC, place]

	todo  app.Map[uint32, app.Switch, todo] // switches that are up and may not hold what they should
	jobs  app.Map[uint32, app.Switch, job]  // switches with an outstanding answer
	cells app.Cells

	// Derived from the tables.
	plans  []*compiled // the last two
	rounds transition
	checks map[app.Switch]liveCheck
}

// state is the part of which there is only one.
type state struct {
	_                 struct{} `cbor:",toarray"`
	Installed, Target planID   // equal while no change is in progress
	Round, Next       int      // the current round; the switch of it that is next
	RoundBegan        int64    // 0: not yet
	PauseEnds         int64    // of the pause after the round; 0: the round is not over
	Change            changeRow

	// when the first change not yet in a plan came, when a plan is made, and when at the latest
	First, Due, Latest int64
	Why                string
	More               int // changes beside Why

	Problem string     // why no plan of the current network could be made
	Last    changeRow  // the last that was finished
	Turn    app.Switch // checked last
	TurnAt  int64      // when the next check is
	Unheard int        // how many hosts are unheard
}

// planID identifies a plan. It is random, and 0 for the empty plan.
type planID struct {
	_     struct{} `cbor:",toarray"`
	ID    uint64
	Avoid paths.Disjoint
}

// place is the short encoding of a port.
type place struct {
	_      struct{} `cbor:",toarray"`
	Switch app.Switch
	Port   app.Port
}

func placeOf(p app.PortOf) place     { return place{Switch: p.Switch, Port: p.Port} }
func (p place) portOf() app.PortOf   { return app.PortOf{Switch: p.Switch, Port: p.Port} }
func portName(p app.PortOf) string   { return paths.End(p).String() }
func hostName(mac app.MAC) string    { return "host " + mac.String() }
func switchName(s app.Switch) string { return "switch " + s.String() }

// New returns the application. It needs topology and liveness, before it in the list of applications.
func New(c Config) *app.App {
	a := app.New(Name).Whole()
	r := tablesOf(a)
	r.config, r.checks = c, map[app.Switch]liveCheck{}
	r.cells = app.Need(r.state.Cell(all), r.switches.Cell(all), r.links.Cell(all), r.hosts.Cell(all), r.addrs.Cell(all),
		r.unheard.Cell(all), r.todo.Cell(all), r.jobs.Cell(all),
		r.planSwitches.Cell(installed), r.planLinks.Cell(installed), r.planHosts.Cell(installed),
		r.planSwitches.Cell(target), r.planLinks.Cell(target), r.planHosts.Cell(target))
	app.Handle(a, needs[app.SwitchUp](r), within(r, (*visit).switchUp))
	app.Handle(a, needs[app.SwitchDown](r), within(r, (*visit).switchDown))
	app.Handle(a, needs[app.SwitchForgotten](r), within(r, (*visit).switchForgotten))
	app.Handle(a, needs[app.PortStatus](r), within(r, (*visit).portStatus))
	app.Handle(a, needs[app.Reply](r), within(r, (*visit).reply))
	app.Handle(a, needs[app.BarrierReply](r), within(r, (*visit).barrierReply))
	app.Handle(a, needs[app.Refused](r), within(r, (*visit).refused))
	app.Handle(a, needs[app.Timer](r), within(r, (*visit).timer))
	app.HandleEmitted(a, needs[topology.LinkUp](r), within(r, (*visit).linkUp))
	app.HandleEmitted(a, needs[topology.LinkDown](r), within(r, (*visit).linkDown))
	app.HandleEmitted(a, needs[liveness.Echo](r), within(r, (*visit).echo))
	app.HandleEmitted(a, needs[topology.HostSeen](r), within(r, (*visit).hostSeen))
	app.HandleEmitted(a, needs[topology.HostGone](r), within(r, (*visit).hostGone))
	return a
}

// tablesOf declares the tables of the application.
func tablesOf(a *app.App) *recovery {
	return &recovery{
		state:        app.NewTable[uint32, state](a, "state"),
		switches:     app.NewMap[uint32, app.Switch, switchRow](a, "switches"),
		links:        app.NewMap[uint32, app.PortOf, link](a, "links"),
		hosts:        app.NewMap[uint32, app.MAC, place](a, "hosts"),
		addrs:        app.NewMap[uint32, app.MAC, []netip.Addr](a, "addresses"),
		unheard:      app.NewMap[uint32, app.MAC, bool](a, "unheard"),
		planSwitches: app.NewMap[uint32, app.Switch, uint16](a, "plan_switches"),
		planLinks:    app.NewMap[uint32, app.PortOf, place](a, "plan_links"),
		planHosts:    app.NewMap[uint32, app.MAC, place](a, "plan_hosts"),
		todo:         app.NewMap[uint32, app.Switch, todo](a, "todo"),
		jobs:         app.NewMap[uint32, app.Switch, job](a, "jobs"),
	}
}

func needs[M any](r *recovery) func(M) app.Cells { return func(M) app.Cells { return r.cells } }

// visit is one run of a handler.
type visit struct {
	*recovery
	tx  *app.Tx
	st  state
	now int64
	err error // of timers
}

// within makes a handler: changes of st are written at its end, after the work that follows from them.
func within[M any](r *recovery, run func(*visit, M) error) func(*app.Tx, M) error {
	return func(tx *app.Tx, m M) error {
		v := &visit{recovery: r, tx: tx, now: tx.Now().UnixNano()}
		v.st, _ = r.state.Get(tx, all)
		if err := run(v, m); err != nil {
			return err
		}
		if err := errors.Join(v.goOn(), v.err); err != nil {
			return err
		}
		r.state.Put(tx, all, v.st)
		return nil
	}
}

// goOn does what can be done now: the transition, then checks, then the next plan.
func (v *visit) goOn() error {
	if v.changing() {
		if err := v.advance(); err != nil || v.changing() {
			return err
		}
		if err := v.startChecks(); err != nil {
			return err
		}
		if v.st.First != 0 {
			// in another transaction, since this one is large enough
			v.set(timerPlan, time.Duration(max(0, v.st.Due-v.now)))
		}
		return nil
	}
	if err := v.startChecks(); err != nil {
		return err
	}
	if v.st.First == 0 || v.now < v.st.Due {
		return nil
	}
	if wait := v.st.Due + int64(patience) - v.now; wait > 0 && v.hasNewcomers() {
		v.set(timerPlan, time.Duration(wait))
		return nil
	}
	return v.begin()
}

// changing reports whether switches are moving from one plan to the next.
func (v *visit) changing() bool { return v.st.Installed.ID != v.st.Target.ID }

// changed records that the plan no longer matches the network.
func (v *visit) changed(quiet time.Duration, why string) {
	s := &v.st
	if s.First == 0 {
		s.First, s.Due, s.Latest, s.Why, s.More = v.now, 0, 0, why, 0
	} else {
		s.More++
	}
	most := mostWait
	if quiet == discoveryQuiet {
		most = mostDiscovery
	}
	s.Latest = max(s.Latest, s.First+int64(most))
	s.Due = min(max(s.Due, v.now+int64(quiet)), s.Latest)
	v.set(timerPlan, time.Duration(s.Due-v.now))
}

func (v *visit) set(timer string, after time.Duration) {
	v.err = errors.Join(v.err, v.tx.SetTimer(timer, after, nil))
}

func (v *visit) timer(m app.Timer) error {
	switch m.Name {
	case timerPlan, timerRound:
		return nil // goOn checks whether they are due
	case timerTurn:
		return v.turn()
	}
	kind, of, _ := strings.Cut(m.Name, " ")
	if kind+" " == timerHold {
		v.changed(hostQuiet, "link at "+of+" has held")
		return nil
	}
	of, _, _ = strings.Cut(of, ":") // of a port, its switch
	id, err := strconv.ParseUint(of, 16, 64)
	if err != nil {
		return fmt.Errorf("timer %q names no switch: %w", m.Name, err)
	}
	switch s := app.Switch(id); kind + " " {
	case timerFound:
		v.stillUnheard(s)
	case timerShade:
		v.shadeAll(s)
	case timerLate:
		if _, busy := v.jobs.Get(v.tx, all, s); busy {
			v.fail(s, fmt.Sprintf("no answer in %v", answerIn), "")
		}
	}
	return nil // timerRetry: goOn finds what to do again
}
