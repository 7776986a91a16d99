package app_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// bench is a ledger that leads and commits what it cuts.
type bench struct {
	t    testing.TB
	core *ledger.Core
	seq  uint64
	now  int64
}

func newBench(t testing.TB, apps ...*app.App) *bench {
	t.Helper()
	var list []ledger.Application
	for _, a := range apps {
		list = append(list, a)
	}
	core, err := ledger.New(list, ledger.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, core: core, now: 1000}
	if err := core.Lead(1, b.now); err != nil {
		t.Fatal(err)
	}
	return b
}

// event gives the ledger the next event of switch 1 and returns the commands that it got
// after commit.
func (b *bench) event(msg []byte) []of13.Message {
	b.t.Helper()
	b.seq++
	if err := b.core.Event(1, 1, b.seq, msg); err != nil {
		b.t.Fatal(err)
	}
	return b.commit()
}

func (b *bench) commit() (list []of13.Message) {
	b.t.Helper()
	entry, ok := b.core.Cut()
	if !ok {
		return nil
	}
	if err := b.core.Commit(entry); err != nil {
		b.t.Fatal(err)
	}
	for _, r := range b.core.Releases() {
		for rest := r.Commands; len(rest) > 0; {
			msg, after, err := openflow.Next(rest)
			if err != nil {
				b.t.Fatal(err)
			}
			m, err := of13.Decode(msg)
			if err != nil {
				b.t.Fatal(err)
			}
			list, rest = append(list, m), after
		}
	}
	return list
}

// failures returns what went wrong in applications, as text.
func (b *bench) failures() string {
	var s []string
	for _, f := range b.core.Failures() {
		s = append(s, f.Err.Error())
	}
	return strings.Join(s, "; ")
}

func (b *bench) fine() {
	b.t.Helper()
	if s := b.failures(); s != "" {
		b.t.Fatal(s)
	}
}

func switchUp() []byte {
	features := of13.FeaturesReply{DatapathID: 1, NTables: 7}
	port := of13.PortDesc{Port: 4, Name: "eth4"}
	ports := of13.MultipartReply{Part: of13.PartPortDesc, Body: of13.List[of13.PortDesc](nil).With(port)}
	return experimenter.SwitchUp{Features: features.Append(nil, 0), Ports: ports.Append(nil, 0)}.Append(nil,
		openflow.Version13)
}

func packetIn(port app.Port, data string) []byte {
	m := of13.PacketIn{BufferID: of13.NoBuffer, TotalLen: uint16(len(data)), Match: of13.Match(nil).WithInPort(port),
		Data: []byte(data)}
	return m.Append(nil, 0)
}

// run makes an application whose handler of packets is f.
func run(cells app.Cells, f func(*app.Tx, app.PacketIn) error) func(*app.App) {
	return func(a *app.App) { app.Handle(a, func(app.PacketIn) app.Cells { return cells }, f) }
}

func TestMessages(t *testing.T) {
	a := app.New("a")
	var got []string
	note := func(s string) error { got = append(got, s); return nil }
	app.Handle(a, nil, func(tx *app.Tx, m app.SwitchUp) error {
		ports := slices.Collect(m.Ports.All())
		if m.Switch != 1 || m.Features.NTables != 7 || len(ports) != 1 || ports[0].Name != "eth4" {
			t.Errorf("%+v", m)
		}
		return note("up")
	})
	app.Handle(a, nil, func(tx *app.Tx, m app.SwitchDown) error {
		if m.Switch != 1 || m.Reason != experimenter.ReasonSilent {
			t.Errorf("%+v", m)
		}
		return note("down")
	})
	app.Handle(a, nil, func(tx *app.Tx, m app.PacketIn) error {
		if m.Switch != 1 || m.InPort != 7 || m.EthDst() != (app.MAC{'d', 'd', 'd', 'd', 'd', 'd'}) ||
			m.EthSrc() != (app.MAC{'s', 's', 's', 's', 's', 's'}) {
			t.Errorf("%+v", m)
		}
		return note("packet")
	})
	app.Handle(a, nil, func(tx *app.Tx, m app.PortStatus) error {
		if m.Switch != 1 || m.Port.Port != 4 {
			t.Errorf("%+v", m)
		}
		return note("port")
	})
	app.Handle(a, nil, func(tx *app.Tx, m app.FlowRemoved) error {
		if m.Switch != 1 || m.Cookie != 99 {
			t.Errorf("%+v", m)
		}
		return note("removed")
	})
	app.Handle(a, nil, func(tx *app.Tx, m app.Reply) error {
		if m.Switch != 1 || m.XID != 1<<24|5 || m.Part != of13.PartPortDesc {
			t.Errorf("%+v", m)
		}
		return note("reply")
	})
	app.Handle(a, nil, func(tx *app.Tx, m app.BarrierReply) error {
		if m.Switch != 1 || m.XID != 1<<24|6 {
			t.Errorf("%+v", m)
		}
		return note("barrier")
	})
	app.Handle(a, nil, func(tx *app.Tx, m app.Refused) error {
		if m.Switch != 1 || m.XID != 1<<24|7 || m.ErrType != of13.ErrTypeBadRequest {
			t.Errorf("%+v", m)
		}
		return note("refused")
	})
	app.Handle(a, nil, func(tx *app.Tx, m app.PacketIn) error { return note("second handler") })
	b := newBench(t, a)
	b.event(switchUp())
	b.event(packetIn(7, "ddddddssssss"))
	b.event((&of13.PortStatus{Port: of13.PortDesc{Port: 4}}).Append(nil, 0))
	b.event((&of13.FlowRemoved{Cookie: 99}).Append(nil, 0))
	b.event((&of13.MultipartReply{Part: of13.PartPortDesc}).Append(nil, 1<<24|5))
	b.event((&of13.BarrierReply{}).Append(nil, 1<<24|6))
	b.event((&of13.Error{ErrType: of13.ErrTypeBadRequest}).Append(nil, 1<<24|7))
	b.event(experimenter.AppendSwitchDown(nil, openflow.Version13, experimenter.ReasonSilent))
	b.fine()
	if want := []string{"up", "packet", "second handler", "port", "removed", "reply", "barrier", "refused",
		"down"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestMessageThatCannotBeRead(t *testing.T) {
	a := app.New("a")
	app.Handle(a, nil, func(*app.Tx, app.PacketIn) error { t.Error("it was"); return nil })
	b := newBench(t, a)
	b.event(switchUp())
	b.event([]byte{4, of13.TypePacketIn, 0, 8, 0, 0, 0, 0})
	if s := b.failures(); !strings.Contains(s, "message of switch 0000000000000001: openflow: PACKET_IN") {
		t.Error(s)
	}
}

func TestShortFrames(t *testing.T) {
	var p app.PacketIn
	for n := range 12 {
		p.Data = make([]byte, n)
		if p.EthSrc() != (app.MAC{}) {
			t.Errorf("%d bytes have a source", n)
		}
		p.EthDst()
	}
}

func TestSendAndRefusedXID(t *testing.T) {
	a := app.New("a")
	var sent []uint32
	app.Handle(a, nil, func(tx *app.Tx, in app.PacketIn) error {
		sent = append(sent, tx.PacketOut(in.Switch, of13.PacketOut{BufferID: of13.NoBuffer, Data: in.Data}),
			tx.FlowMod(in.Switch, of13.FlowMod{Priority: 3}), tx.Send(in.Switch, &of13.BarrierRequest{}),
			tx.Send(42, &of13.BarrierRequest{}))
		return nil
	})
	other := app.New("other")
	b := newBench(t, other, a)
	b.event(switchUp())
	got := b.event(packetIn(1, "x"))
	b.fine()
	if !slices.Equal(sent, []uint32{2<<24 | 1, 2<<24 | 1<<23 | 2, 2<<24 | 1<<23 | 3, 0}) {
		t.Errorf("transaction ids %x", sent)
	}
	if len(got) != 3 || string(got[0].(*of13.PacketOut).Data) != "x" || got[1].(*of13.FlowMod).Priority != 3 ||
		got[2].Type() != of13.TypeBarrierRequest {
		t.Errorf("sent %v", got)
	}
	var refused []byte
	app.Handle(a, nil, func(_ *app.Tx, r app.Refused) error { refused = slices.Clone(r.Command); return nil })
	b.event((&of13.Error{}).Append(nil, sent[1]))
	b.fine()
	if want := (&of13.FlowMod{Priority: 3}).Append(nil, sent[1]); !slices.Equal(refused, want) {
		t.Errorf("refused %x, want %x", refused, want)
	}
}

func TestTimers(t *testing.T) {
	a := app.New("a")
	app.Handle(a, nil, func(tx *app.Tx, in app.PacketIn) error {
		tx.CancelTimer("gone")
		return errors.Join(tx.SetTimer("soon", time.Microsecond, []byte("data")), tx.SetTimer("gone", 1, nil))
	})
	app.Handle(a, nil, func(tx *app.Tx, in app.SwitchUp) error { return tx.SetTimer("gone", time.Nanosecond, nil) })
	var got []string
	app.Handle(a, nil, func(tx *app.Tx, in app.Timer) error {
		got = append(got, in.Name+" "+string(in.Data)+" "+tx.Now().UTC().Format("05.000000"))
		tx.CancelTimer("gone")
		return nil
	})
	b := newBench(t, a)
	b.event(switchUp())
	b.event(packetIn(1, "x"))
	b.core.Tick(2000)
	b.commit()
	b.core.Tick(9000)
	b.fine()
	if !slices.Equal(got, []string{"gone  00.000002", "soon data 00.000002"}) {
		t.Errorf("timers %q", got)
	}
}

type started struct {
	Name  string
	Ports []app.Port
}

func TestEmit(t *testing.T) {
	from, to := app.New("from"), app.New("to")
	seen := app.NewTable[string, int](to, "seen")
	app.Handle(from, nil, func(tx *app.Tx, in app.PacketIn) error {
		return errors.Join(app.Emit(tx, started{"x", []app.Port{1, 2}}), app.Emit(tx, 5), app.Emit(tx, []string{"a"}))
	})
	app.Handle(from, nil, func(tx *app.Tx, in app.SwitchUp) error { return app.Emit(tx, func() {}) })
	app.HandleEmitted(to, func(s started) app.Cells { return app.Need(seen.Cell(s.Name)) },
		func(tx *app.Tx, s started) error {
			n, _ := seen.Get(tx, s.Name)
			seen.Put(tx, s.Name, n+len(s.Ports))
			return nil
		})
	var numbers []int
	app.HandleEmitted(to, nil, func(tx *app.Tx, n int) error { numbers = append(numbers, n); return nil })
	var texts []string
	app.HandleEmitted(to, nil, func(tx *app.Tx, s []string) error { texts = append(texts, s...); return nil })
	total := 0
	app.Handle(to, func(app.PacketIn) app.Cells { return app.Need(seen.Cell("x")) },
		func(tx *app.Tx, in app.PacketIn) error {
			total, _ = seen.Get(tx, "x")
			return nil
		})
	b := newBench(t, from, to)
	b.event(switchUp())
	if s := b.failures(); !strings.Contains(s, "emit func()") {
		t.Errorf("a function was emitted: %q", s)
	}
	for range 3 {
		b.event(packetIn(1, "x"))
	}
	b.fine()
	if total != 4 || !slices.Equal(numbers, []int{5, 5, 5}) || len(texts) != 3 {
		t.Errorf("total %d, numbers %v, texts %v", total, numbers, texts)
	}
}

func TestSwitches(t *testing.T) {
	a := app.New("a")
	app.Handle(a, nil, func(tx *app.Tx, in app.PacketIn) error {
		if got := slices.Collect(tx.Switches()); !slices.Equal(got, []app.Switch{1}) {
			t.Errorf("switches %v", got)
		}
		return nil
	})
	b := newBench(t, a)
	b.event(switchUp())
	b.event(packetIn(1, "x"))
	b.fine()
}

// A message has the strongest level that one of its handlers names, or what the operator says.
func TestLevels(t *testing.T) {
	a := app.New("a")
	packet := func(*app.Tx, app.PacketIn) error { return nil }
	app.Handle(a, nil, packet, app.At(app.Unordered))
	app.Handle(a, nil, packet, app.At(app.Ordered))
	app.Handle(a, nil, packet, app.At(app.Reliable))
	app.Handle(a, nil, func(*app.Tx, app.PortStatus) error { return nil }, app.At(app.Unordered))
	app.Handle(a, nil, func(*app.Tx, app.PortStatus) error { return nil })
	want := func(typ uint8, level app.Level, handles bool) {
		t.Helper()
		if l, ok := a.Level(typ); l != level || ok != handles {
			t.Errorf("type %d has level %v, %v; want %v, %v", typ, l, ok, level, handles)
		}
	}
	want(of13.TypePacketIn, app.Ordered, true)
	want(of13.TypePortStatus, app.ExactlyOnce, true)
	want(of13.TypeFlowRemoved, app.ExactlyOnce, false)
	if err := a.SetLevel("packet_in", app.Unordered); err != nil {
		t.Error(err)
	}
	want(of13.TypePacketIn, app.Unordered, true)
	for message, text := range map[string]string{"flow_removed": "does not handle", "switch_up": "only for"} {
		if err := a.SetLevel(message, app.Ordered); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("level of %s: %v", message, err)
		}
	}
	for l := app.Unordered; l <= app.ExactlyOnce; l++ {
		if got, err := app.ParseLevel(l.String()); got != l || err != nil {
			t.Errorf("level %v reads as %v, %v", l, got, err)
		}
	}
	if _, err := app.ParseLevel("strong"); err == nil {
		t.Error("strong is a level")
	}
	defer func() {
		if recover() == nil {
			t.Error("SwitchUp takes a level")
		}
	}()
	app.Handle(a, nil, func(*app.Tx, app.SwitchUp) error { return nil }, app.At(app.Ordered))
}
