package sim

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/network/monitor"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

const (
	watchedCookie = 7                      // of an entry at each switch
	watchedType   = 0x9999                 // of the frames that it matches: there are none
	watchedAfter  = 500 * time.Millisecond // for how long it is to be there until the trigger fires
	watchedFor    = 2 * time.Second        // how long it is there, and how long it is not
)

// monitorTrial is a flow entry at each switch, which comes and goes, and a trigger on its duration. The trigger fires
// at most once for each time that the entry was installed, and then falls before it fires again.
type monitorTrial struct {
	web
	watcher web
	settled map[openflow.DatapathID]bool // the trigger has fired for the entry that stays
}

// watched is what an actor at a switch knows of its entry.
type watched struct {
	There, Stays     bool
	Installed, Fired int
	Raised           bool
	Set              bool // the trigger
	Wrong            string
}

func newMonitorTrial(s *simulation) trial {
	return &monitorTrial{web: web{s, monitor.New()}, watcher: web{s, newWatcher()},
		settled: map[openflow.DatapathID]bool{}}
}

func (t *monitorTrial) applications() []*app.App { return []*app.App{monitor.New(), newWatcher()} }

// newWatcher makes an application that installs the entries, and is told of crossings.
func newWatcher() *app.App {
	a := app.New("watcher")
	rows := app.NewTable[app.Switch, watched](a, "rows")
	at := func(id app.Switch) app.Cells { return app.Need(rows.Cell(id)) }
	change := func(tx *app.Tx, id app.Switch, run func(*watched) error) error {
		w, _ := rows.Get(tx, id)
		err := run(&w)
		rows.Put(tx, id, w)
		return err
	}
	app.Handle(a, func(m app.SwitchUp) app.Cells { return at(m.Switch) }, func(tx *app.Tx, m app.SwitchUp) error {
		return change(tx, m.Switch, func(w *watched) error { return w.switchUp(tx, m.Switch) })
	})
	app.Handle(a, func(m app.Timer) app.Cells { return at(m.Switch) }, func(tx *app.Tx, m app.Timer) error {
		return change(tx, m.Switch, func(w *watched) error {
			if w.Stays {
				return nil
			}
			w.install(tx, m.Switch, !w.There)
			return tx.SetTimer("change", watchedFor, nil)
		})
	})
	app.HandleEmitted(a, func(m monitor.Crossed) app.Cells { return at(m.Switch) },
		func(tx *app.Tx, m monitor.Crossed) error {
			return change(tx, m.Switch, func(w *watched) error {
				w.crossed(m.Raised)
				return nil
			})
		})
	app.HandleAnswer(a, func(m monitor.Set) app.Cells { return at(m.Switch) },
		func(*app.Tx, app.Answer[monitor.Set, monitor.Done]) error { return nil })
	// A client that asks what there is ends the coming and going, too.
	app.HandleHTTP(a, "POST /{switch}", func(q app.Request) app.Cells { return at(app.SwitchOf(q)) },
		func(tx *app.Tx, q app.Request) (answer app.Response, err error) {
			err = change(tx, app.SwitchOf(q), func(w *watched) error {
				if !w.Stays {
					w.Stays = true
					w.install(tx, app.SwitchOf(q), true)
				}
				answer, err = app.JSON(w, true)
				return err
			})
			return answer, err
		})
	return a
}

// switchUp brings back what the switch is to have, and sets the trigger once.
func (w *watched) switchUp(tx *app.Tx, id app.Switch) error {
	w.install(tx, id, w.There)
	if err := tx.SetTimer("change", watchedFor, nil); err != nil || w.Set {
		return err
	}
	w.Set = true
	return app.Call(tx, monitor.Set{Trigger: monitor.Trigger{Switch: id, Owner: "watcher", Name: "entry",
		Of: monitor.Entries, Cookie: watchedCookie, Measure: monitor.Duration,
		Above: uint64(watchedAfter / time.Millisecond)}}, time.Minute)
}

// install has the entry be there, anew, or not.
func (w *watched) install(tx *app.Tx, id app.Switch, there bool) {
	m := of13.FlowMod{Command: of13.FlowDeleteStrict, Priority: 1, Cookie: watchedCookie, BufferID: of13.NoBuffer,
		OutPort: of13.PortAny, OutGroup: of13.GroupAny, Match: of13.Match(nil).WithEthType(watchedType)}
	if w.There = there; there {
		w.Installed++
		m.Command = of13.FlowAdd
	}
	tx.FlowMod(id, m)
}

// crossed notes that the trigger has fired, or has fallen.
func (w *watched) crossed(up bool) {
	if up == w.Raised {
		w.Wrong = fmt.Sprintf("it has fired %d times, and says again that it is raised: %t", w.Fired, up)
	}
	if w.Raised = up; up {
		w.Fired++
	}
	if w.Fired > w.Installed {
		w.Wrong = fmt.Sprintf("it has fired %d times, and the entry was installed %d times", w.Fired, w.Installed)
	}
}

// actor is one at a switch, which moves with all that is there.
func (t *monitorTrial) actor() ledger.Actor { return t.s.aSwitch() }

// look does nothing: it is about what is told, whatever the switches forward.
func (t *monitorTrial) look(*switchNode, []byte) {}

// start waits until the traffic ends. Then the entries stay.
func (t *monitorTrial) start() {
	if t.s.traffic {
		t.s.pause(t.start)
		return
	}
	for _, n := range t.s.switches {
		t.audit(n)
	}
}

// audit asks a switch's actors until the trigger has fired for the entry that stays, and compares what they know.
func (t *monitorTrial) audit(n *switchNode) {
	q := app.Request{Values: map[string]string{"switch": n.id.String()}}
	t.watcher.ask("POST /{switch}", q, func(r app.Response) {
		var w watched
		if err := json.Unmarshal(r.Body, &w); err != nil || w.Wrong != "" {
			t.s.w.fail("the trigger of switch %s: %s (%v)", n.id, r.Body, err)
			return
		}
		t.ask("GET /{switch}", q, func(r app.Response) {
			var list []monitor.Status
			err := json.Unmarshal(r.Body, &list)
			told := uint64(2 * w.Fired)
			switch {
			case err != nil || len(list) > 1:
				t.s.w.fail("the triggers of switch %s are %s (%v)", n.id, r.Body, err)
			case w.Raised && len(list) == 1 && len(list[0].Raised) == 1 && list[0].Crossings == told-1:
				t.settled[n.id] = true
			default: // it does not know yet, or something has happened between the two requests
				t.s.pause(func() { t.audit(n) })
			}
		})
	})
}

func (t *monitorTrial) unsettled() string {
	for _, n := range t.s.switches {
		if !t.settled[n.id] {
			return fmt.Sprintf("the trigger of switch %s has not fired for the entry that stays", n.id)
		}
	}
	return ""
}
