package history

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
)

// caller is an application that answers each message with a command to switch 1, which is in another group.
type caller struct{}

func (caller) Name() string { return "caller" }

func (caller) Handle(tx *ledger.Tx, in *ledger.Input) error {
	if in.Kind != ledger.Message {
		return nil
	}
	tx.Put(tx.Table("said"), ledger.Key{A: in.Seq}, ledger.Key{}, in.Message)
	if _, err := tx.SendBytes(1, in.Message); err != nil {
		return err
	}
	return tx.SetTimer("t", ms, []byte("data"))
}

// inputOf makes an item with an input of switch 1.
func inputOf(kind ledger.InputKind, epoch uint64, msg []byte) []byte {
	b := append(binary.BigEndian.AppendUint64([]byte{1, byte(kind), 1, 0}, 0), 0, 0, 0)
	b = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, 1), epoch)
	b = append(binary.AppendUvarint(append(b, 0, 0), uint64(len(msg))), msg...)
	b = append(b, 0)
	return append(binary.AppendUvarint(nil, uint64(len(b))), b...)
}

// modelled returns the model and the snapshot of a group after a run in which it did everything. They are equal after
// each entry.
func modelled(t *testing.T) (*model, []byte) {
	t.Helper()
	core, err := ledger.New([]ledger.Application{caller{}}, ledger.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	core.Join(2, func(a ledger.Actor) (ledger.Assignment, bool) {
		return ledger.Assignment{Group: 2 - uint64(a.Switch)%2}, true
	})
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(core.Lead(1, 1000))
	m := newModel()
	var snapshot []byte
	commit := func() {
		t.Helper()
		data, ok := core.Cut()
		if !ok {
			t.Fatal("nothing to commit")
		}
		must(core.Commit(data))
		header, err := ledger.Walk(data[:HeaderLen(data)], nil)
		must(err)
		must(m.commit(&entry{header: header, data: data}))
		snapshot, err = core.Snapshot()
		must(err)
		must(m.check(snapshot))
	}
	up := experimenter.SwitchUp{Features: []byte("f")}.Append(nil, openflow.Version13)
	down := experimenter.AppendSwitchDown(nil, openflow.Version13, experimenter.ReasonSilent)
	caller, sw := ledger.Actor{App: "caller"}, ledger.Actor{Shard: ledger.AtSwitch(1)}
	told := ledger.Link{From: sw, To: caller}
	commands := ledger.Link{From: ledger.Actor{App: "caller", Shard: ledger.AtSwitch(1)},
		To: ledger.Actor{Shard: ledger.AtSwitch(2)}}
	asked := uint64(0)
	for epoch := uint64(5); epoch < 16; epoch++ {
		must(core.Event(2, epoch, 1, up))
		must(core.EventByDigest(2, epoch, 2, message("digest")))
		commit()
		core.Releases()
		for range 3 + epoch/15*mostAsks {
			asked++
			must(core.Receive(1, commands, asked, itemOf(0, message("one"), message("two"))))
		}
		commit()
		core.Releases()
		must(core.Done(2, epoch, 1+epoch%4))
		commit()
		if epoch%2 == 0 {
			core.Unreachable(2)
			core.Reachable(2, epoch)
			must(core.Event(2, epoch, 3, down))
			commit()
		}
	}
	for i, in := range [][]byte{inputOf(ledger.SwitchUp, 5, up), inputOf(ledger.SwitchDown, 0, nil),
		inputOf(ledger.Message, 5, message("x")), inputOf(ledger.Message, 6, message("y")),
		inputOf(ledger.Discarded, 0, nil), inputOf(ledger.SwitchDown, 7, nil), inputOf(ledger.SwitchUp, 8, up)} {
		must(core.Receive(1, told, uint64(i+1), in))
		commit()
	}
	core.Frames(func(uint64, []byte) {})
	must(core.Acknowledged(ledger.Link{From: caller, To: sw}, 1, false))
	commit()
	return m, snapshot
}

// A snapshot that lacks something, or has something else, is not of the state.
func TestModel(t *testing.T) {
	m, snapshot := modelled(t)
	k := ledger.Link{From: ledger.Actor{App: "caller"}, To: ledger.Actor{Shard: ledger.AtSwitch(1)}}
	back := ledger.Link{From: k.To, To: k.From}
	of := func(change func(s *switchModel)) func(m *model) {
		return func(m *model) {
			s := m.switches[2]
			change(&s)
			m.switches[2] = s
		}
	}
	in := func(change func(i *inboxModel)) func(m *model) {
		return func(m *model) {
			i := m.inboxes[back]
			change(&i)
			m.inboxes[back] = i
		}
	}
	for what, tc := range map[string]struct {
		change func(m *model)
		want   string
	}{
		"nothing":   {func(*model) {}, ""},
		"time":      {func(m *model) { m.time++ }, "it has time"},
		"epoch":     {of(func(s *switchModel) { s.epoch++ }), "it has switch"},
		"reachable": {of(func(s *switchModel) { s.reachable = false }), "it has switch"},
		"hello":     {of(func(s *switchModel) { s.hello = "" }), "it has switch"},
		"past":      {of(func(s *switchModel) { s.past = s.past[1:] }), "it has switch"},
		"totals":    {of(func(s *switchModel) { s.allCommands++ }), "it has switch"},
		"who asked": {of(func(s *switchModel) { s.asks = append(s.asks, asker{first: 9}) }),
			"it lacks commands of switch"},
		"who has asked": {of(func(s *switchModel) { s.asks = nil }), "it has commands of switch"},
		"a command": {of(func(s *switchModel) { s.queue.items = append(s.queue.items, "x") }),
			"it lacks commands of switch"},
		"a row":   {func(m *model) { m.rows[rowName{cell: ledger.Key{A: 1}}] = "x" }, "it lacks row"},
		"no row":  {func(m *model) { clear(m.rows) }, "it has row"},
		"a timer": {func(m *model) { m.timers[timerName{name: "x"}] = alarm{} }, "it lacks timer"},
		"an item": {func(m *model) { m.senders[ledger.Link{}] = outboxModel{items: []string{"x"}} },
			"it lacks items of stream"},
		"no item":        {func(m *model) { delete(m.senders, k) }, "it has items of stream"},
		"what is heard":  {in(func(i *inboxModel) { i.received++ }), "received:"},
		"what is known":  {in(func(i *inboxModel) { i.epoch++ }), "received:"},
		"who is up":      {in(func(i *inboxModel) { i.live = !i.live }), "received:"},
		"how it came up": {in(func(i *inboxModel) { i.hello += "x" }), "received:"},
	} {
		t.Run(what, func(t *testing.T) {
			other := m.clone()
			tc.change(other)
			text := ""
			if err := other.check(snapshot); err != nil {
				text = err.Error()
			}
			if tc.want == "" && text != "" || !strings.Contains(text, tc.want) {
				t.Errorf("found %q, want %q", text, tc.want)
			}
		})
	}
	if s := m.switches[2]; len(s.asks) != mostAsks || len(s.past) != pastEpochs || len(s.queue.items) == 0 ||
		len(m.senders[k].items) == 0 || m.senders[k].acked == 0 || m.inboxes[back].hello == "" {
		t.Errorf("the run has not done everything: %v", m.lines())
	}
	for n := 0; n < len(snapshot); n += 1 + len(snapshot)/200 {
		if err := m.check(snapshot[:n]); err == nil {
			t.Fatalf("%d bytes of %d are taken for the snapshot", n, len(snapshot))
		}
	}
}
