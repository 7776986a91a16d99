package history

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/digest"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

const ms = time.Millisecond

// complaints are what a history reports.
type complaints []string

func (c *complaints) add(format string, args ...any) { *c = append(*c, fmt.Sprintf(format, args...)) }

// echoer is an application that uses everything: it answers each message to all switches. Its reply is
// what makes it differ from another.
type echoer struct {
	reply string
	every time.Duration // its timer
}

func (a echoer) Name() string { return "echoer" }

func (a echoer) Handle(tx *ledger.Tx, in *ledger.Input) error {
	table := tx.Table("seen")
	cell := ledger.Key{A: uint64(in.Switch)}
	old, _ := tx.Get(table, cell, ledger.Key{})
	tx.Put(table, cell, ledger.Key{}, append(slices.Clone(old[max(0, len(old)-15):]), byte(in.Kind)))
	switch in.Kind {
	case ledger.SwitchUp:
		return tx.SetTimer("t"+in.Switch.String(), a.every, []byte("timer"))
	case ledger.Message:
		tx.Put(table, cell, ledger.Key{A: in.Seq % 4}, in.Message[8:])
		tx.Delete(table, cell, ledger.Key{A: (in.Seq + 1) % 4})
		for id := range tx.Switches() {
			if _, err := tx.SendBytes(id, message(a.reply+string(in.Message[8:]))); err != nil {
				return err
			}
		}
		if string(in.Message[8:]) == "bad" {
			return errors.New("bad message")
		}
		return tx.Emit("said", in.Message[8:])
	case ledger.Timer:
		_, err := tx.SendBytes(1, message("timer"))
		return errors.Join(err, tx.SetTimer(in.Name, a.every, nil))
	}
	return nil
}

func echoers() []ledger.Application { return []ledger.Application{echoer{"re ", 50 * ms}} }

func message(body string) []byte {
	msg := append(openflow.AppendHeader(nil, openflow.Version13, of13.TypePacketIn, 0), body...)
	openflow.SetLength(msg)
	return msg
}

// call is one call of a history.
type call struct {
	what       string
	id         openflow.DatapathID
	epoch, seq uint64 // or index
	node, term uint64
	data       []byte
	reason     string
	replicas   map[uint64]Replica
	live       map[openflow.DatapathID]uint64
}

// of is the history of the only group of a run.
func of(found *complaints, apps []ledger.Application, limits ledger.Limits) *Group {
	return New(found.add).Group(GroupConfig{Applications: apps, Limits: limits})
}

func (c *call) on(g *Group) {
	h := g.h
	switch c.what {
	case "opened":
		h.Opened(c.id, c.epoch)
	case "read":
		h.Read(c.id, c.epoch, c.data)
	case "closed":
		h.Closed(c.id, c.epoch, c.reason)
	case "lost":
		h.Lost(c.id, c.epoch)
	case "executed":
		h.Executed(c.id, c.epoch, c.data)
	case "acked":
		h.Acked(c.id, c.epoch, c.seq)
	case "leading":
		g.Leading(c.node, c.term)
	case "committed":
		g.Committed(c.node, c.seq, c.term, c.data)
	case "restored":
		g.Restored(c.node, c.seq, c.data)
	case "finish":
		h.Finish(c.live)
		g.Finish(c.replicas)
	}
}

// tape is what happened in a run.
type tape []call

// play gives it to a history and returns what that finds.
func (tp tape) play(apps func() []ledger.Application, limits ledger.Limits) []string {
	var found complaints
	g := of(&found, apps(), limits)
	for i := range tp {
		tp[i].on(g)
	}
	return found
}

// find returns the position of the n-th call of a kind, from 0.
func (tp tape) find(what string, n int) int {
	for i := range tp {
		if tp[i].what == what {
			if n == 0 {
				return i
			}
			n--
		}
	}
	panic(fmt.Sprintf("there is no further %q on the tape", what))
}

// bed is a run by hand: real ledgers of two controllers, and a switch and an agent that do at once as
// they are told. What they show goes onto the tape.
type bed struct {
	t        testing.TB
	limits   ledger.Limits
	cores    [2]*ledger.Core
	leader   int
	term     uint64
	index    uint64
	now      int64
	tape     tape
	inFlight [][]byte
	switches map[openflow.DatapathID]*bedSwitch
}

type bedSwitch struct {
	epoch, events, executed uint64
	stuck                   bool // takes no commands
	waiting                 [][]byte
}

func newBed(t testing.TB, limits ledger.Limits) *bed {
	b := &bed{t: t, limits: limits, leader: 1, now: time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC).UnixNano(),
		switches: map[openflow.DatapathID]*bedSwitch{}}
	for i := range b.cores {
		core, err := ledger.New(echoers(), limits)
		b.must(err)
		b.cores[i] = core
	}
	b.failover()
	return b
}

func (b *bed) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *bed) see(c call) { b.tape = append(b.tape, c) }

func (b *bed) core() *ledger.Core { return b.cores[b.leader] }

// failover lets the other controller lead. What is in flight is committed before.
func (b *bed) failover() {
	b.commitAll()
	b.must(b.core().Follow())
	b.leader = 1 - b.leader
	b.term++
	b.index++ // an entry of the consensus
	b.see(call{what: "leading", node: uint64(b.leader), term: b.term})
	b.must(b.core().Lead(b.term, b.now))
	for id := openflow.DatapathID(1); int(id) <= len(b.switches); id++ {
		if r, ok := b.core().Resume(id); ok {
			b.release(r)
		}
	}
}

// up begins an epoch.
func (b *bed) up(id openflow.DatapathID, epoch uint64) {
	b.t.Helper()
	b.switches[id] = &bedSwitch{epoch: epoch, events: 1}
	b.see(call{what: "opened", id: id, epoch: epoch})
	b.must(b.core().EventByDigest(id, epoch, 1, upMessage))
}

// say is an event.
func (b *bed) say(id openflow.DatapathID, body string) {
	b.t.Helper()
	s := b.switches[id]
	s.events++
	b.see(call{what: "read", id: id, epoch: s.epoch, data: message(body)})
	b.must(b.core().EventByDigest(id, s.epoch, s.events, message(body)))
}

// down ends an epoch.
func (b *bed) down(id openflow.DatapathID) {
	b.t.Helper()
	s := b.switches[id]
	s.events++
	b.see(call{what: "closed", id: id, epoch: s.epoch, reason: experimenter.ReasonSilent.String()})
	b.must(b.core().EventByDigest(id, s.epoch, s.events, downMessage))
	s.epoch = 0
}

// pass lets time go by.
func (b *bed) pass(d time.Duration) {
	b.now += int64(d)
	b.core().Tick(b.now)
}

// cut proposes what there is.
func (b *bed) cut() bool {
	data, ok := b.core().Cut()
	if ok {
		b.inFlight = append(b.inFlight, data)
	}
	return ok
}

// commitOne commits the oldest entry that is in flight.
func (b *bed) commitOne() {
	data := b.inFlight[0]
	b.inFlight = b.inFlight[1:]
	b.index++
	for i := range b.cores {
		b.see(call{what: "committed", node: uint64(i), seq: b.index, term: b.term, data: data})
		b.must(b.cores[i].Commit(data))
	}
	for _, r := range b.core().Releases() {
		b.release(r)
	}
}

func (b *bed) commitAll() {
	for len(b.inFlight) > 0 || b.cut() {
		b.commitOne()
	}
}

// release does what a controller, an agent and a switch do with what is released.
func (b *bed) release(r ledger.Release) {
	b.see(call{what: "acked", id: r.Switch, epoch: r.Epoch, seq: r.Acked})
	s := b.switches[r.Switch]
	if s.epoch != r.Epoch {
		return
	}
	for rest := slices.Clone(r.Commands); len(rest) > 0; {
		msg, after, err := openflow.Next(rest)
		b.must(err)
		rest = after
		if r.First == s.executed+uint64(len(s.waiting))+1 {
			s.waiting = append(s.waiting, msg)
		}
		r.First++
	}
	if !s.stuck {
		b.execute(r.Switch)
	}
}

// execute lets a switch execute what waits for it.
func (b *bed) execute(id openflow.DatapathID) {
	s := b.switches[id]
	for _, msg := range s.waiting {
		b.see(call{what: "executed", id: id, epoch: s.epoch, data: msg})
		s.executed++
	}
	if s.waiting = nil; s.executed > 0 {
		b.must(b.core().Done(id, s.epoch, s.executed))
	}
}

// finish ends the tape.
func (b *bed) finish() tape {
	b.t.Helper()
	b.commitAll()
	end := call{what: "finish", replicas: map[uint64]Replica{}, live: map[openflow.DatapathID]uint64{}}
	for i, c := range b.cores {
		state, err := c.Snapshot()
		b.must(err)
		end.replicas[uint64(i)] = Replica{Applied: b.index, Snapshot: state}
	}
	for id, s := range b.switches {
		if s.epoch != 0 {
			end.live[id] = s.epoch
		}
	}
	b.see(end)
	return b.tape
}

// plainRun is a run with all that can be in one. Switch 1 lives in epoch 10, ends it and begins 20;
// switch 2 lives in epoch 11.
func plainRun(t testing.TB) tape { return runWithin(t, ledger.Limits{}) }

func runWithin(t testing.TB, limits ledger.Limits) tape {
	b := newBed(t, limits)
	b.up(1, 10)
	b.up(2, 11)
	b.commitAll()
	b.say(1, "one")
	b.say(1, "two")
	b.say(2, "three")
	b.cut()
	b.say(2, "bad")
	b.pass(60 * ms) // timers are due, and come in the next entry
	b.say(1, "four")
	b.commitAll()
	b.pass(ms)
	b.commitAll()
	b.core().Unreachable(2)
	b.commitAll()
	b.failover()
	b.say(1, "five")
	b.core().Reachable(2, 11)
	b.cut()
	b.pass(200 * ms)
	b.commitAll()
	b.say(1, "six")
	b.down(1)
	b.up(1, 20)
	b.say(1, "seven")
	b.commitAll()
	b.say(1, "eight")
	b.say(2, "nine")
	b.commitAll()
	return b.finish()
}

func TestHistoryOfACorrectRun(t *testing.T) {
	tp := plainRun(t)
	if found := tp.play(echoers, ledger.Limits{}); len(found) > 0 {
		t.Errorf("a correct run is not: %s", found)
	}
	count := map[string]int{}
	for _, c := range tp {
		count[c.what]++
	}
	if count["executed"] < 15 || count["committed"] < 16 || count["acked"] < 10 {
		t.Errorf("the tape has little on it: %v", count)
	}
	var found complaints
	g := of(&found, echoers(), ledger.Limits{})
	for _, c := range tp {
		c.on(g)
	}
	if events, commands, terms := g.h.Counts(); events != 14 || commands < uint64(count["executed"]) || terms != 2 {
		t.Errorf("it counts %d events, %d commands, %d terms", events, commands, terms)
	}
}

// corruption is something wrong with a run, and what must be said about it.
type corruption struct {
	name    string
	corrupt func(tape) tape
	want    string
}

func testCorruptions(t *testing.T, list []corruption) {
	t.Helper()
	for _, tc := range list {
		t.Run(tc.name, func(t *testing.T) {
			found := tc.corrupt(plainRun(t)).play(echoers, ledger.Limits{})
			switch {
			case len(found) != 1:
				t.Errorf("found %d violations, not one: %q", len(found), found)
			case !strings.Contains(found[0], tc.want):
				t.Errorf("found  %s\nwanted %s", found[0], tc.want)
			case strings.Count(found[0], "\n") > 1:
				t.Errorf("too long: %s", found[0])
			}
		})
	}
}

// Mutations of a tape: the n-th call of a kind is left out, comes twice, comes after the next of its kind,
// is changed, or comes before another call.

func without(what string, n int) func(tape) tape {
	return func(tp tape) tape { i := tp.find(what, n); return slices.Delete(tp, i, i+1) }
}

func twice(what string, n int) func(tape) tape {
	return func(tp tape) tape { i := tp.find(what, n); return slices.Insert(tp, i, tp[i]) }
}

func swapped(what string, n int) func(tape) tape {
	return func(tp tape) tape {
		i, j := tp.find(what, n), tp.find(what, n+1)
		tp[i], tp[j] = tp[j], tp[i]
		return tp
	}
}

func changed(what string, n int, change func(*call)) func(tape) tape {
	return func(tp tape) tape {
		c := &tp[tp.find(what, n)]
		c.data = slices.Clone(c.data)
		change(c)
		return tp
	}
}

func before(what string, n int, other string, m int) func(tape) tape {
	return func(tp tape) tape {
		i := tp.find(what, n)
		c := tp[i]
		tp = slices.Delete(tp, i, i+1)
		return slices.Insert(tp, tp.find(other, m), c)
	}
}

func inserted(c call, other string, m int) func(tape) tape {
	return func(tp tape) tape { return slices.Insert(tp, tp.find(other, m), c) }
}

func lastByte(c *call) { c.data[len(c.data)-1] ^= 1 }

// forged puts an entry of its own in the place of the n-th that is committed, everywhere.
func forged(n int, forge func(e entry) []byte) func(tape) tape {
	return func(tp tape) tape {
		i := tp.find("committed", 2*n)
		old := tp[i].data
		body := HeaderLen(old)
		header, err := ledger.Walk(old[:body], nil)
		if err != nil {
			panic(err)
		}
		data := forge(entry{tp[i].seq, tp[i].term, header, body, old})
		for j := range tp {
			if tp[j].what == "committed" && tp[j].seq == tp[i].seq {
				tp[j].data = data
			}
		}
		return tp
	}
}

// The following write operations; see package ledger for the format.

func header(h ledger.Header) []byte {
	b := binary.AppendUvarint([]byte{6, 0}, h.Term)
	return binary.AppendUvarint(binary.AppendUvarint(b, h.Batch), uint64(h.Time))
}

func ofSwitch(op ledger.Op, id openflow.DatapathID, epoch uint64) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64([]byte{byte(op)}, uint64(id)), epoch)
}

func sized(b, data []byte) []byte { return append(binary.AppendUvarint(b, uint64(len(data))), data...) }

func eventOp(id openflow.DatapathID, epoch, seq uint64, msg []byte) []byte {
	return sized(binary.AppendUvarint(ofSwitch(ledger.OpEvent, id, epoch), seq), msg)
}

func seenOp(id openflow.DatapathID, epoch, seq uint64, msg []byte) []byte {
	b := append(binary.AppendUvarint(ofSwitch(ledger.OpSeen, id, epoch), seq), msg[1])
	return binary.BigEndian.AppendUint64(b, digest.Of(msg))
}

func doneOp(id openflow.DatapathID, epoch, seq uint64) []byte {
	return binary.AppendUvarint(ofSwitch(ledger.OpDone, id, epoch), seq)
}

func commandOp(id openflow.DatapathID, seq uint64, msg []byte) []byte {
	b := binary.BigEndian.AppendUint64([]byte{byte(ledger.OpCommand)}, uint64(id))
	return sized(binary.AppendUvarint(b, seq), msg)
}

// ops is a forged entry of these.
func ops(list ...[]byte) func(entry) []byte {
	return func(e entry) []byte { return append(header(e.header), slices.Concat(list...)...) }
}

// with is the entry with these behind.
func with(list ...[]byte) func(entry) []byte {
	return func(e entry) []byte { return slices.Concat(append([][]byte{e.data}, list...)...) }
}
