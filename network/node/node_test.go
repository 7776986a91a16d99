package node

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/app/apptest"
	"github.com/holdfast-sdn/holdfast/network/model"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
	"github.com/holdfast-sdn/holdfast/openflow/packet"
)

// owner is an application that asks for entries, and notes what it is told.
type owner struct {
	app *app.App
	net *apptest.Net
	got []any
}

func newOwner(t *testing.T) *owner {
	o := &owner{app: app.New("owner").Whole()}
	app.NewTable[uint32, uint64](o.app, "none")
	here := app.Need()
	app.HandleHTTP(o.app, "PUT /change", func(app.Request) app.Cells { return here },
		func(tx *app.Tx, r app.Request) (app.Response, error) {
			var m model.Change
			if err := app.ReadJSON(r, &m); err != nil {
				return app.Response{}, err
			}
			return app.Response{}, app.Emit(tx, m)
		})
	note[model.Changed](o)
	note[model.NodeUp](o)
	note[model.NodeDown](o)
	note[model.Removed](o)
	o.net = apptest.New(t, o.app, New())
	return o
}

func note[M any](o *owner) {
	app.HandleEmitted(o.app, func(M) app.Cells { return app.Need() }, func(_ *app.Tx, m M) error {
		o.got = append(o.got, m)
		return nil
	})
}

// ask asks for a change, and returns what the switch is sent.
func (o *owner) ask(t *testing.T, name string, number uint64, steps ...model.Step) []apptest.Sent {
	t.Helper()
	m := model.Change{Switch: 1, Owner: name, Number: number}
	for i := range steps {
		m.Steps = m.Steps.With(&steps[i])
	}
	body, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	o.net.Call(o.app, "PUT /change", app.Request{Body: body})
	return o.net.Advance(0)
}

// confirm answers the barrier that is last among commands.
func (o *owner) confirm(t *testing.T, sent []apptest.Sent) []apptest.Sent {
	t.Helper()
	last := sent[len(sent)-1]
	if _, is := last.Message.(*of13.BarrierRequest); !is {
		t.Fatalf("the last of %d commands is %v, and no barrier", len(sent), last.Message)
	}
	return o.net.Message(1, &of13.BarrierReply{}, last.XID)
}

// refuse has the switch refuse a command.
func (o *owner) refuse(s apptest.Sent) []apptest.Sent {
	return o.net.Message(1, &of13.Error{ErrType: of13.ErrTypeFlowModFailed, Data: s.Message.Append(nil, s.XID)}, s.XID)
}

// told checks what the owner was told since the last call.
func (o *owner) told(t *testing.T, want ...any) {
	t.Helper()
	if got := fmt.Sprintf("%+v", o.got); got != fmt.Sprintf("%+v", want) {
		t.Errorf("told %s, want %+v", got, want)
	}
	o.got = nil
}

func entry(to byte) model.Entry {
	return model.Entry{Match: model.Match{In: 1, Class: packet.Class{Destination: fmt.Sprintf("10.0.0.%d", to)}},
		Priority: 5, Out: 2}
}

func TestEntriesOfTheModel(t *testing.T) {
	vlan := uint16(7)
	wide := packet.Class{Protocol: "tcp", SourcePorts: "1-65534", DestinationPorts: "1-65534"}
	for _, c := range []struct {
		want  string
		entry model.Entry
	}{
		{"1 entries: in_port=1 actions", model.Entry{Match: model.Match{In: 1}, Out: 2}},
		{"1 entries: vlan_vid=", model.Entry{Match: model.Match{Tag: 9}, Pop: true, Out: 2}},
		{"2 entries: eth_type=", model.Entry{Match: model.Match{Class: packet.Class{Protocol: "tcp"}}, Out: 2}},
		{fmt.Sprint(of13.PortInPort), model.Entry{Match: model.Match{In: 3}, Out: 3}},
		{"no VLAN beside a tag", model.Entry{Match: model.Match{Tag: 9, Class: packet.Class{VLAN: &vlan}}, Out: 2}},
		{"use 1 to 4094", model.Entry{Push: 4095, Out: 2}},
		{`protocol "x"`, model.Entry{Match: model.Match{Class: packet.Class{Protocol: "x"}}, Out: 2}},
		{"it needs a tag", model.Entry{Out: 2, Backup: 3, BackupTag: 9}},
		{"it needs a tag", model.Entry{Match: model.Match{Tag: 9}, Out: 2, Backup: 3}},
		{"it needs a tag", model.Entry{Match: model.Match{Tag: 9}, Pop: true, Out: 2, Backup: 3, BackupTag: 9}},
		{"fewer ranges", model.Entry{Match: model.Match{Class: wide}, Out: 2}},
	} {
		var of compiler
		f, keys, err := of.compile(&c.entry)
		got := fmt.Sprint(err)
		if err == nil {
			match := of.matchOf(keys[0])
			got = fmt.Sprintf("%d entries: %v actions %v", len(keys), match, of.instructionsOf(&f, match))
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%+v: %s, want %q", c.entry, got, c.want)
		}
	}
}

func TestChangesAreConfirmed(t *testing.T) {
	o := newOwner(t)
	o.ask(t, "a", 1, model.Step{Entry: entry(1), ID: 7})
	o.told(t, model.Changed{Switch: 1, Owner: "a", Number: 1, Away: true})
	o.confirm(t, o.net.SwitchUp(1))
	o.told(t, model.NodeUp{Switch: 1})
	sent := o.ask(t, "a", 2, model.Step{Entry: entry(1), ID: 7}, model.Step{Entry: entry(2), ID: 8})
	o.told(t)
	o.confirm(t, sent)
	o.told(t, model.Changed{Switch: 1, Owner: "a", Number: 2})

	// An entry of something else is refused, also if that is another owner or is not confirmed yet.
	sent = o.ask(t, "b", 1, model.Step{Entry: entry(1), ID: 7}, model.Step{Entry: entry(3), ID: 9})
	o.confirm(t, sent)
	if m := o.got[0].(model.Changed); len(m.Refused) != 1 || !strings.Contains(m.Refused[0].Why, "number 7 of a") {
		t.Errorf("%+v", m)
	}
	o.got = nil
	sent = o.ask(t, "a", 3, model.Step{Entry: entry(1), ID: 7, Remove: true}, model.Step{Entry: entry(1), ID: 10},
		model.Step{Entry: entry(3), ID: 9, Remove: true})
	if len(sent) != 3 {
		t.Errorf("%d commands: the entry of another owner must stay", len(sent))
	}
	o.confirm(t, sent)
	o.told(t, model.Changed{Switch: 1, Owner: "a", Number: 3})
	o.knows(t, `{"up":true,"entries":{"a":2,"b":1},"outstanding_steps":{}}`)

	// One whose removal is not confirmed belongs to its owner.
	sent = o.ask(t, "a", 4, model.Step{Entry: entry(2), ID: 8, Remove: true}, model.Step{Entry: entry(6), ID: 8})
	o.knows(t, `{"up":true,"entries":{"a":2,"b":1},"outstanding_steps":{"a":2}}`)
	o.ask(t, "b", 2, model.Step{Entry: entry(2), ID: 1})
	if m := o.got[0].(model.Changed); len(m.Refused) != 1 || !strings.Contains(m.Refused[0].Why, "number 8 of a") {
		t.Errorf("%+v", m)
	}
	o.got = nil
	o.confirm(t, sent)
	o.told(t, model.Changed{Switch: 1, Owner: "a", Number: 4})

	failed := o.net.MayFail()
	sent = o.ask(t, "a", 5, model.Step{Entry: entry(4), ID: 1}, model.Step{Entry: entry(1), ID: 10, Remove: true})
	o.ask(t, "a", 6, model.Step{Entry: entry(5), ID: 1})
	if len(*failed) != 1 || !strings.Contains((*failed)[0], "one after the other") {
		t.Errorf("two changes at once: %v", *failed)
	}
	o.net.SwitchDown(1)
	o.told(t, model.Changed{Switch: 1, Owner: "a", Number: 5, Away: true}, model.NodeDown{Switch: 1})
	o.knows(t, `{"up":false,"entries":{"a":2,"b":1},"outstanding_steps":{}}`)
	installs := func(sent []apptest.Sent, match of13.Match) bool {
		return slices.ContainsFunc(sent, func(s apptest.Sent) bool {
			m, is := s.Message.(*of13.FlowMod)
			return is && m.Command == of13.FlowAdd && bytes.Equal(m.Match, match)
		})
	}
	added, removed := sent[0].Message.(*of13.FlowMod).Match, sent[1].Message.(*of13.FlowMod).Match
	if sent = o.net.SwitchUp(1); installs(sent, added) || !installs(sent, removed) {
		t.Errorf("a change that was not confirmed is in what the switch gets: %v", sent)
	}
}

// knows checks what is known of the switch.
func (o *owner) knows(t *testing.T, want string) {
	t.Helper()
	r := o.net.Call(New(), "GET /switches/{switch}", app.Request{Values: map[string]string{"switch": "1"}})
	if string(r.Body) != want {
		t.Errorf("%d %s, want %s", r.Status, r.Body, want)
	}
}

// A switch that comes up gets all entries in parts, and is up when it has confirmed the last one.
func TestEntriesAreInstalledAgain(t *testing.T) {
	o := newOwner(t)
	o.confirm(t, o.net.SwitchUp(1))
	const entries = 2*maxPart + 100
	for i := range entries {
		e := entry(byte(i % 250))
		e.In = app.Port(1 + i/250)
		o.confirm(t, o.ask(t, "a", uint64(i+1), model.Step{Entry: e, ID: uint64(i)}))
	}
	o.net.SwitchDown(1)
	o.got = nil
	installed := 0
	count := func(sent []apptest.Sent) {
		for _, c := range sent {
			if m, is := c.Message.(*of13.FlowMod); is && m.Command == of13.FlowAdd {
				installed++
			}
		}
	}
	sent := o.net.SwitchUp(1)
	count(sent)
	for range 2 {
		if installed == 0 || installed > 2*maxPart {
			t.Errorf("%d entries at once", installed)
		}
		sent = o.net.Advance(10)
		count(sent)
	}
	o.told(t)
	o.confirm(t, sent)
	if o.told(t, model.NodeUp{Switch: 1}); installed != entries {
		t.Errorf("%d of %d entries", installed, entries)
	}

	// One that it no longer accepts is given up, and all are sent again. What it says of those sent before is no news.
	o.net.SwitchDown(1)
	o.got = nil
	sent = o.net.SwitchUp(1)
	o.refuse(sent[7])
	o.refuse(sent[8])
	if m, is := o.got[0].(model.Removed); len(o.got) != 1 || !is || m.Owner != "a" {
		t.Errorf("told %+v", o.got)
	}
	o.got = nil
	o.net.Advance(10)
	o.confirm(t, o.net.Advance(10))
	o.told(t, model.NodeUp{Switch: 1})
}

// Whoever has asked for an entry that is removed at the switch is told, and only then.
func TestOwnersAreTold(t *testing.T) {
	o := newOwner(t)
	o.confirm(t, o.net.SwitchUp(1))
	sent := o.ask(t, "a", 1, model.Step{Entry: entry(1), ID: 7})
	m := sent[0].Message.(*of13.FlowMod)
	o.confirm(t, sent)
	o.got = nil
	gone := of13.FlowRemoved{Cookie: m.Cookie, Priority: m.Priority, Match: m.Match, Reason: of13.FlowRemovedDelete}
	other := gone
	other.Cookie++
	o.net.Message(1, &other, 0)
	o.told(t)
	o.net.Message(1, &gone, 0)
	if r, is := o.got[0].(model.Removed); !is || r.Owner != "a" || r.ID != 7 {
		t.Errorf("told %+v", o.got)
	}
	o.got = nil
	o.net.Message(1, &gone, 0)
	o.told(t)

	// One that is removed before it is confirmed is installed again. What an owner removes it is not told.
	sent = o.ask(t, "a", 2, model.Step{Entry: entry(1), ID: 8})
	gone.Cookie = sent[0].Message.(*of13.FlowMod).Cookie
	sent = append(sent[1:], o.net.Message(1, &gone, 0)...)
	if len(sent) != 3 {
		t.Errorf("%d commands", len(sent)-1)
	}
	o.confirm(t, sent[:1])
	o.told(t)
	o.confirm(t, sent)
	o.told(t, model.Changed{Switch: 1, Owner: "a", Number: 2})
	// Nor one that it removes and installs again.
	sent = o.ask(t, "a", 3, model.Step{Entry: entry(1), ID: 8, Remove: true}, model.Step{Entry: entry(1), ID: 8})
	if more := o.net.Message(1, &gone, 0); len(more) > 0 {
		t.Errorf("%d commands because of the removal that was asked for", len(more))
	}
	o.confirm(t, sent)
	o.told(t, model.Changed{Switch: 1, Owner: "a", Number: 3})
	sent = o.ask(t, "a", 4, model.Step{Entry: entry(1), ID: 8, Remove: true})
	o.net.Message(1, &gone, 0)
	o.confirm(t, sent)
	o.told(t, model.Changed{Switch: 1, Owner: "a", Number: 4})
}

// A step that would make a change too large for one transaction is refused.
func TestChangesAreBounded(t *testing.T) {
	o := newOwner(t)
	o.confirm(t, o.net.SwitchUp(1))
	o.got = nil
	var steps []model.Step
	flows := 0
	for i := range model.MaxSteps {
		s := model.Step{ID: uint64(i), Entry: entry(byte(i))}
		s.Protocol, s.DestinationPorts = "tcp", "1-65534"
		s.In = app.Port(1 + i/256)
		matches, _ := flowsOf(s)
		flows = len(matches)
		steps = append(steps, s)
	}
	o.confirm(t, o.ask(t, "a", 1, steps...))
	refused := o.got[0].(model.Changed).Refused
	if fit := model.MaxChanged / flows; len(refused) != len(steps)-fit || refused[0].Step != fit {
		t.Errorf("%d of %d steps of %d flow entries are refused", len(refused), len(steps), flows)
	}
	o.knows(t, fmt.Sprintf(`{"up":true,"entries":{"a":%d},"outstanding_steps":{}}`, model.MaxChanged/flows*flows))
}
