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

// Name is that of the application, and of the tables' owner.
const Name = "recovery"

// Cookie is that of the entries that lead packets to the tables of package protect, and of no others.
const Cookie uint64 = 0x686672636f76 // "hfrcov"

// Config says how to protect.
type Config struct {
	Disjoint              paths.Disjoint
	HoldDown              time.Duration // that a link has to be up before it is used again
	Reconcile             time.Duration // in which each switch is looked at once
	RemoveForeign         bool          // entries and groups that are nobody's here
	MaxEntries, MaxGroups int           // of one switch
}

// How long changes gather before a plan is made of them.
const (
	hostQuiet      = 20 * time.Millisecond
	lossQuiet      = 100 * time.Millisecond
	discoveryQuiet = 500 * time.Millisecond

	mostWait      = time.Second     // for quiet
	mostDiscovery = 5 * time.Second // while new switches and links are found
	// for switches that have come back to be made right, before the next plan goes without them
	patience = 2 * time.Second
)

const (
	maxJobs  = 16  // switches that owe an answer
	maxPart  = 400 // messages to a switch in one transaction
	answerIn = 10 * time.Second
	maxRetry = time.Minute
	minTurn  = 10 * time.Millisecond

	// foundIn is how long a link of a switch that is back has to be found again.
	foundIn = 2*topology.Interval + topology.Settle
)

// Names of timers; of those with a blank a switch or a port follows.
const (
	timerPlan  = "plan"
	timerTurn  = "turn"
	timerHold  = "hold "
	timerFound = "found "
	timerRetry = "retry "
	timerShade = "shade "
	timerLate  = "late "
)

// all is the one cell of each table: a plan needs everything.
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
	addrs    app.Map[uint32, app.MAC, []netip.Addr] // of hosts, as topology said last

	planSwitches app.Map[uint32, app.Switch, uint16]
	planLinks    app.Map[uint32, app.PortOf, place]
	planHosts    app.Map[uint32, app.MAC, place]

	todo  app.Map[uint32, app.Switch, todo] // switches that are up and not known to hold what they should
	jobs  app.Map[uint32, app.Switch, job]  // switches that owe an answer
	cells app.Cells

	// What follows from the tables.
	plans  []*compiled // the last two
	rounds transition
	checks map[app.Switch]liveCheck
}

// state is what there is one of.
type state struct {
	_                 struct{} `cbor:",toarray"`
	Installed, Target planID   // equal while nothing is being changed
	Round, Next       int      // of the rounds from one to the other; the switch of it that has not been sent its part
	Change            changeRow

	// when the first change came that no plan has, when a plan is made of it, and when at the latest
	First, Due, Latest int64
	Why                string
	More               int // changes beside Why

	Problem string     // why there is no plan of all that is known
	Last    changeRow  // the last that was finished
	Turn    app.Switch // looked at last
	TurnAt  int64      // when the next is
}

// planID names a plan. The number is drawn by chance, and 0 for the empty plan.
type planID struct {
	_     struct{} `cbor:",toarray"`
	ID    uint64
	Avoid paths.Disjoint
}

// place is a port in few bytes.
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
	a := app.New(Name)
	r := tablesOf(a)
	r.config, r.checks = c, map[app.Switch]liveCheck{}
	r.cells = app.Need(r.state.Cell(all), r.switches.Cell(all), r.links.Cell(all), r.hosts.Cell(all), r.addrs.Cell(all),
		r.todo.Cell(all), r.jobs.Cell(all),
		r.planSwitches.Cell(installed), r.planLinks.Cell(installed), r.planHosts.Cell(installed),
		r.planSwitches.Cell(target), r.planLinks.Cell(target), r.planHosts.Cell(target))
	app.Handle(a, needs[app.SwitchUp](r), within(r, (*visit).switchUp))
	app.Handle(a, needs[app.SwitchDown](r), within(r, (*visit).switchDown))
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

// within makes a handler: what it changes in st is written at its end, after what follows from it.
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
			v.set(timerPlan, time.Duration(max(0, v.st.Due-v.now))) // not in this transaction, which is large enough
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

// changing reports whether switches are on their way from one plan to the next.
func (v *visit) changing() bool { return v.st.Installed.ID != v.st.Target.ID }

// changed notes that the plan is not that of the network any more.
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
	case timerPlan:
		return nil // goOn looks whether it is time
	case timerTurn:
		return v.turn()
	}
	kind, of, _ := strings.Cut(m.Name, " ")
	if kind+" " == timerHold {
		v.changed(hostQuiet, "link at "+of+" has held")
		return nil
	}
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
	return nil // timerRetry: goOn looks what is to be done again
}
