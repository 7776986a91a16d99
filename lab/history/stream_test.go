package history

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow"
)

// Events of a switch are in the log of one group only.
func TestOneGroupServesASwitch(t *testing.T) {
	b := newBed(t, ledger.Limits{})
	b.up(1, 1)
	b.commitAll()
	var found complaints
	h := New(found.add)
	lives := func(ledger.Actor) (ledger.Assignment, bool) { return ledger.Assignment{Group: 1}, true }
	g := h.Group(GroupConfig{Applications: echoers(), Number: 1, Directory: lives})
	other := h.Group(GroupConfig{Applications: echoers(), Number: 2, Directory: lives})
	for _, c := range b.tape {
		if c.on(g); c.what == "leading" || c.what == "committed" && len(found) == 0 {
			c.on(other)
		}
	}
	if len(found) != 1 || !strings.Contains(found[0], "switch 0000000000000001 is active in two groups, this one and group 1") {
		t.Errorf("%q", found)
	}
}

// inGroups is a history with two groups.
func inGroups(found *complaints) (one, two *Group) {
	h := New(found.add)
	lives := func(a ledger.Actor) (ledger.Assignment, bool) {
		return ledger.Assignment{Group: uint64(a.Switch)}, true
	}
	one = h.Group(GroupConfig{Applications: echoers(), Number: 1, Directory: lives})
	return one, h.Group(GroupConfig{Applications: echoers(), Number: 2, Directory: lives})
}

// stream12 is a stream from an application in group 1 to a switch in group 2.
var stream12 = ledger.Link{From: ledger.Actor{App: "a", Shard: ledger.AtSwitch(1)},
	To: ledger.Actor{Shard: ledger.AtSwitch(2)}}

// itemOf makes an item with commands for an epoch.
func itemOf(epoch uint64, commands ...[]byte) []byte {
	b := append(binary.BigEndian.AppendUint64([]byte{itemCommands}, epoch), 1)
	for _, c := range commands {
		b = append(b, c...)
	}
	return append(binary.AppendUvarint(nil, uint64(len(b))), b...)
}

// frameOf makes a frame with items of stream12, or if there are none an acknowledgement.
func frameOf(seq uint64, items ...[]byte) []byte {
	b := []byte{1, 2} // of group 1
	if len(items) > 0 {
		b[1] = frameItems
	}
	for _, a := range []ledger.Actor{stream12.From, stream12.To} {
		b = binary.BigEndian.AppendUint64(append(append(b, byte(len(a.App))), a.App...), uint64(a.Switch))
		b = append(b, 0, 0, 0) // no key
	}
	b = binary.AppendUvarint(b, seq)
	if len(items) > 0 {
		b = append(b, byte(len(items)))
	}
	for _, item := range items {
		b = append(b, item...)
	}
	return b
}

func TestStreams(t *testing.T) {
	hello := message("hello")
	item, other := itemOf(7, hello), itemOf(8, hello)
	op := func(op ledger.Op, seq uint64, b []byte) *ledger.Record {
		return &ledger.Record{Op: op, Link: stream12, Seq: seq, Bytes: b}
	}
	send, receive := op(ledger.OpSend, 0, item), op(ledger.OpReceive, 1, item)
	two8, hosted := itemOf(8, hello, hello), ledger.Link{From: ledger.Actor{App: "ryu", Shard: ledger.AtSwitch(1)},
		To: stream12.To}
	command := &ledger.Record{Op: ledger.OpCommand, Switch: 2, Seq: 1, Bytes: hello}
	// What logs say, or frames; each is of the first group, unless it begins with two.
	type step struct {
		two bool
		r   *ledger.Record
		f   []byte
	}
	log := func(r *ledger.Record) step { return step{r: r} }
	two := func(r *ledger.Record) step { return step{two: true, r: r} }
	for name, c := range map[string]struct {
		steps []step
		want  string
	}{
		"all is well": {[]step{log(send), {f: frameOf(1, item)}, two(receive), two(command), two(op(ledger.OpTimer, 0,
			nil)), {two: true, f: frameOf(1)}, log(op(ledger.OpTaken, 1, nil))}, ""},
		"not committed as sent": {[]step{{f: frameOf(1, item)}}, "item 1 leaves; 0 are committed"},
		"not what is committed": {[]step{log(send), {f: frameOf(1, other)}}, "item 1 leaves, and is not the one"},
		"received too early":    {[]step{two(receive)}, "item 1 is received; 0 are committed as sent"},
		"received twice": {[]step{log(send), two(receive), two(command), two(receive)},
			"item 1 is received after 1"},
		"another one": {[]step{log(send), two(op(ledger.OpReceive, 1, other))}, "other ones were sent"},
		"a gap": {[]step{log(send), log(send), two(op(ledger.OpReceive, 2, item))},
			"item 2 is received after 0"},
		"acknowledged early": {[]step{log(send), {two: true, f: frameOf(1)}},
			"item 1 is acknowledged; 0 are committed"},
		"forgotten early":     {[]step{log(send), log(op(ledger.OpTaken, 1, nil))}, "forgotten; 0 are received"},
		"another group's end": {[]step{log(send), two(send)}, "is active in two groups"},
		"for another epoch": {[]step{log(op(ledger.OpSend, 0, other)), two(op(ledger.OpReceive, 1, other)),
			two(command)}, "has commands for another epoch, and they are queued"},
		"neither queued nor void": {[]step{log(send), two(receive), two(op(ledger.OpTimer, 0, nil))},
			"has 1 commands; 0 are queued, 0 void"},
		"void": {[]step{log(op(ledger.OpSend, 0, two8)), two(op(ledger.OpReceive, 1, two8)),
			two(&ledger.Record{Op: ledger.OpSend, Link: ledger.Link{From: stream12.To, To: stream12.From},
				Bytes: item}),
			two(op(ledger.OpTimer, 0, nil))}, ""},
		"void, which the hosted application is not told": {[]step{
			log(&ledger.Record{Op: ledger.OpSend, Link: hosted, Bytes: two8}),
			two(&ledger.Record{Op: ledger.OpReceive, Link: hosted, Seq: 1, Bytes: two8}),
			two(op(ledger.OpTimer, 0, nil))}, ""},
		"a damaged frame": {[]step{{f: frameOf(1)[:5]}}, "ends within a field"},
	} {
		t.Run(name, func(t *testing.T) {
			var found complaints
			one, another := inGroups(&found)
			one.h.of(2).loggedSwitch.epoch = &loggedEpoch{epoch: 7}
			for _, s := range c.steps {
				g := one
				if s.two {
					g = another
				}
				if s.r == nil {
					g.Framed(s.f)
				} else {
					g.report(g.record(&entry{}, s.r))
				}
			}
			if text := strings.Join(found, " "); c.want == "" && text != "" || !strings.Contains(text, c.want) {
				t.Errorf("found %q, want %q", text, c.want)
			}
		})
	}
}

// At the end nothing that was sent is missing.
func TestStreamsAreEmptyAtTheEnd(t *testing.T) {
	var found complaints
	one, _ := inGroups(&found)
	one.report(one.record(&entry{}, &ledger.Record{Op: ledger.OpSend, Link: stream12, Bytes: itemOf(7)}))
	one.h.Finish(map[openflow.DatapathID]uint64{})
	if len(found) != 1 || !strings.Contains(found[0], "1 items are sent, 0 received, 0 forgotten") {
		t.Errorf("%q", found)
	}
}
