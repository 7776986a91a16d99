// Package monitor is an application that watches ports and flow entries for others: a Trigger is a threshold on their
// bandwidth or duration, and lives with its switch. Its owner, which is another application or a client over HTTP, is
// told when something rises to the threshold, and when it is below again.
//
// Each switch with triggers is polled, with one request for all triggers on its flow entries and one for those on its
// ports. The next request is sent when the last one is answered, so a slow switch is polled more slowly. Only what has
// crossed a threshold is stored. The counters of the last poll are kept in memory: after a change of the leader, and
// after a move of the switch, the first poll measures no bandwidth. Each crossing is told once, whoever dies.
//
// It does not keep histories, and does not see what begins and ends between two polls. Which entries are installed is
// the matter of others: see package reconcile.
//
//	PUT, DELETE /apps/monitor/{switch}/{name}: a Trigger
//	GET /apps/monitor/{switch}: a list of Status
package monitor

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// Name is the name of the application.
const Name = "monitor"

const (
	// Interval is the mean time from a reply to the next request. It varies by a quarter, so that switches which came
	// up together are not polled together.
	Interval = time.Second
	// patience is when a switch is asked again that has not answered. It exceeds the time after which a switch that
	// answers nothing is disconnected.
	patience = 30 * time.Second
)

// Bounds of a switch.
const (
	// MaxTriggers bounds the triggers. Further ones are refused.
	MaxTriggers = 64
	// MaxWatched bounds the ports, and the flow entries, whose bandwidth is measured in one poll. Those that the switch
	// reports after them are not measured.
	MaxWatched = 4096
	// MaxRaised bounds what is above a threshold. What else rises to one is reported when there is room.
	MaxRaised = 1024
)

// Crossed says that something has risen to the threshold of a trigger, or is below it again. Receive it with
// app.HandleEmitted, and drop those of other owners in the map function. It is emitted once for each crossing.
type Crossed struct {
	Owner, Name string // of the trigger
	Raised      bool   // false: it is below again, or gone
	Value       uint64 // bytes/s or ms, by the Measure of the trigger; 0 if it is gone
	Subject
}

// Subject is the port or the flow entry that has crossed a threshold.
type Subject struct {
	Switch app.Switch `json:"-" cbor:"switch"`
	Port   app.Port   `json:"port,omitempty"` // 0: it is a flow entry
	Entry  *Entry     `json:"entry,omitempty"`
}

// Entry is a flow entry.
type Entry struct {
	Table    uint8      `json:"table"`
	Priority uint16     `json:"priority"`
	Cookie   Cookie     `json:"cookie"`
	Match    of13.Match `json:"-" cbor:"match"`
}

// Set is the request of a call (app.Call, app.Ask) that adds a trigger, or replaces the one of the same owner and name
// at its switch. The switch need not be up. The answer is a Done, or the error says what is wrong.
type Set struct{ Trigger }

// Remove is the request of a call that removes a trigger, if it is there. Its owner is told no more of it. The answer
// is a Done.
type Remove struct {
	Switch      app.Switch
	Owner, Name string
}

// Done is the answer to Set and Remove.
type Done struct{}

// set is a trigger with what has happened.
type set struct {
	Trigger
	Crossings uint64
}

// raised is a subject that is above a threshold.
type raised struct {
	Trigger string // its key
	Subject
	Value uint64
	Since int64  // ns
	Seen  uint32 // the last request whose reply rose it, or had it in a part before the last one
}

type monitor struct {
	triggers app.Map[app.Switch, string, set]    // by Trigger.key
	raised   app.Map[app.Switch, string, raised] // by raisedKey
	readings map[source]*reading                 // in memory
}

// New returns the application.
func New() *app.App {
	a := app.New(Name)
	m := &monitor{app.NewMap[app.Switch, string, set](a, "triggers"),
		app.NewMap[app.Switch, string, raised](a, "raised"), map[source]*reading{}}
	at := func(id app.Switch) app.Cells { return app.Need(m.triggers.Cell(id), m.raised.Cell(id)) }
	app.Handle(a, func(u app.SwitchUp) app.Cells { return at(u.Switch) }, m.switchUp)
	app.Handle(a, func(f app.SwitchForgotten) app.Cells { return at(f.Switch) }, m.switchForgotten)
	app.Handle(a, func(t app.Timer) app.Cells { return at(t.Switch) }, m.poll)
	app.Handle(a, func(r app.Reply) app.Cells { return at(r.Switch) }, m.reply)
	app.HandleCall(a, func(s Set) app.Cells { return at(s.Switch) },
		func(tx *app.Tx, s Set) (Done, error) { return Done{}, m.set(tx, s.Trigger) })
	app.HandleCall(a, func(r Remove) app.Cells { return at(r.Switch) },
		func(tx *app.Tx, r Remove) (Done, error) {
			m.remove(tx, r.Switch, key(r.Owner, r.Name))
			return Done{}, nil
		})
	requests := func(q app.Request) app.Cells { return at(app.SwitchOf(q)) }
	app.HandleHTTP(a, "PUT /{switch}/{name}", requests, m.put)
	app.HandleHTTP(a, "DELETE /{switch}/{name}", requests, m.delete)
	app.HandleHTTP(a, "GET /{switch}", requests, m.list)
	return a
}

// set adds or replaces a trigger. A new one begins with nothing above its threshold.
func (m *monitor) set(tx *app.Tx, t Trigger) error {
	if err := t.complete(); err != nil {
		return err
	}
	n := 0
	for range m.triggers.All(tx, t.Switch) {
		n++
	}
	if _, there := m.triggers.Get(tx, t.Switch, t.key()); !there && n >= MaxTriggers {
		return fmt.Errorf("trigger %s: switch %s has %d triggers, the most that are possible: remove one", t.Name,
			t.Switch, n)
	}
	m.remove(tx, t.Switch, t.key())
	m.triggers.Put(tx, t.Switch, t.key(), set{Trigger: t})
	if n > 0 {
		return nil // the switch is polled already
	}
	return tx.SetTimer(timer, pause(tx, t.Switch, 0), nil)
}

// remove removes a trigger. The timer ends by itself when there is none.
func (m *monitor) remove(tx *app.Tx, id app.Switch, trigger string) {
	for k, r := range m.raised.All(tx, id) {
		if r.Trigger == trigger {
			m.raised.Delete(tx, id, k)
		}
	}
	m.triggers.Delete(tx, id, trigger)
}

// timer is the name of the one timer of a switch, which is due when it is to be polled.
const timer = "poll"

// pause returns when to poll a switch that is to be polled after a time. It depends on the switch and the time only, so
// that the simulator can repeat a run.
func pause(tx *app.Tx, id app.Switch, after time.Duration) time.Duration {
	r := rand.New(rand.NewPCG(uint64(id), uint64(tx.Now().UnixNano())))
	return after + time.Duration(r.Int64N(int64(Interval/2))) - min(after, Interval/4)
}

func (m *monitor) switchUp(tx *app.Tx, up app.SwitchUp) error {
	for range m.triggers.All(tx, up.Switch) {
		return tx.SetTimer(timer, pause(tx, up.Switch, 0), nil)
	}
	return nil
}

// switchForgotten forgets what is in memory. The triggers are removed by themselves.
func (m *monitor) switchForgotten(_ *app.Tx, f app.SwitchForgotten) error {
	m.forget(f.Switch)
	return nil
}

func (m *monitor) forget(id app.Switch) {
	delete(m.readings, source{id, of13.PartFlow})
	delete(m.readings, source{id, of13.PartPortStats})
}

// owner is that of triggers that were set over HTTP.
const owner = "http"

func (m *monitor) put(tx *app.Tx, q app.Request) (app.Response, error) {
	var t Trigger
	if err := app.ReadJSON(q, &t); err != nil {
		return app.BadRequest(err)
	}
	t.Switch, t.Owner, t.Name = app.SwitchOf(q), owner, q.Values["name"]
	if err := m.set(tx, t); err != nil {
		return app.BadRequest(err)
	}
	return app.Response{Status: http.StatusNoContent}, nil
}

func (m *monitor) delete(tx *app.Tx, q app.Request) (app.Response, error) {
	id := app.SwitchOf(q)
	k := key(owner, q.Values["name"])
	if _, there := m.triggers.Get(tx, id, k); !there {
		return app.Response{Status: http.StatusNotFound}, nil
	}
	m.remove(tx, id, k)
	return app.Response{Status: http.StatusNoContent}, nil
}

func (m *monitor) list(tx *app.Tx, q app.Request) (app.Response, error) {
	id := app.SwitchOf(q)
	list := []Status{}
	for k, t := range m.triggers.All(tx, id) {
		s := Status{Trigger: t.Trigger, Crossings: t.Crossings, Raised: []Raised{}}
		for _, r := range m.raised.All(tx, id) {
			if r.Trigger == k {
				s.Raised = append(s.Raised, r.view())
			}
		}
		list = append(list, s)
	}
	return app.JSON(list, true)
}
