package replay

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"log/slog"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
	"github.com/holdfast-sdn/holdfast/ryu/wire"
)

// bed is a set of controllers that share a log. Nothing happens in it unless the test does it.
type bed struct {
	t      rapid.TB
	nodes  []*node
	log    [][]byte
	term   uint64
	leader *node // nil if there is none
	now    time.Time
	events uint64 // number of events of the only switch
	deadly func(in wire.Input) bool
	dies   string // by what reason, if not "crashed"
	hands  int    // calls of HandOver
	asks   int    // calls of Files
}

// node is a controller: its ledger and its side of the replayed application. It is also the Runner.
type node struct {
	*bed
	id       int
	identity string
	core     *Core
	ledger   *ledger.Core
	replayed *Log
	applied  int
	proposed [][]byte
	lives    map[uint64]*host
	begun    []Beginning
	wrong    bool // its hosts give other results than the rest
	forgets  bool // the same, for hosts that begin with a checkpoint
	unkept   bool // the state of its hosts cannot be saved
	immune   bool // its hosts survive every input
}

// host is deterministic: its results depend on its inputs only, and each input changes all later results.
type host struct {
	n        *node
	life     uint64
	state    hostState
	restored bool
	ready    bool
	frames   []frame
}

type hostState struct {
	number, sum uint64
}

type frame struct {
	inputs []byte
	count  int // 0 for a checkpoint
}

func newBed(t rapid.TB, nodes int) *bed {
	b := &bed{t: t, now: time.Unix(1_000_000, 0), deadly: func(wire.Input) bool { return false }}
	for i := range nodes {
		b.nodes = append(b.nodes, &node{bed: b, id: i, identity: "same"})
		b.nodes[i].start()
	}
	return b
}

// start starts a process without any state.
func (n *node) start() {
	l, replayed := newLedger(n.t, n.identity)
	n.ledger, n.replayed, n.lives, n.applied, n.proposed = l, replayed, map[uint64]*host{}, 0, nil
	n.core = New(replayed, n, slog.New(slog.DiscardHandler))
}

// newLedger makes a ledger that has these replayed applications.
func newLedger(t rapid.TB, identity string, apps ...ledger.Application) (*ledger.Core, *Log) {
	t.Helper()
	l, err := ledger.New(apps, ledger.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	log, err := NewLog(l, identity)
	if err != nil {
		t.Fatal(err)
	}
	return l, log
}

func (b *bed) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func (n *node) Start(life uint64, h Beginning) {
	s := hostState{h.Number, h.Seed ^ uint64(h.Time)}
	if len(h.State) > 0 {
		s.sum = binary.BigEndian.Uint64(h.State)
	}
	n.begun = append(n.begun, h)
	n.lives[life] = &host{n: n, life: life, state: s, restored: len(h.State) > 0}
}

func (n *node) Execute(life uint64, inputs []byte, count int) {
	h := n.lives[life]
	h.frames = append(h.frames, frame{inputs, count})
	if len(h.frames) > framesOut+1 {
		n.t.Fatalf("%d frames are with a host", len(h.frames))
	}
}

func (n *node) Checkpoint(life uint64) {
	n.lives[life].frames = append(n.lives[life].frames, frame{})
}

func (n *node) Stop(life uint64) {
	if n.lives[life] == nil {
		n.t.Fatalf("life %d is stopped and is none", life)
	}
	delete(n.lives, life)
}

func (n *node) HandOver() { n.hands++ }
func (n *node) Files()    { n.asks++ }

// host returns the host that executes the log, not one that verifies a checkpoint.
func (n *node) host() *host { return n.lives[n.core.life] }

// execute executes one frame, or reports that the host is ready.
func (h *host) execute() {
	if !h.ready {
		h.ready = true
		h.n.core.Ready(h.life, wire.Ready{Python: "3.11", OSKen: "4"})
		return
	}
	if len(h.frames) == 0 {
		return
	}
	f := h.frames[0]
	h.frames = h.frames[1:]
	if f.count == 0 {
		if h.n.unkept {
			h.n.core.Checkpointed(h.life, h.state.number, nil, "it has a generator")
			return
		}
		h.n.core.Checkpointed(h.life, h.state.number, h.state.bytes(), "")
		return
	}
	var results []wire.Result
	first, data := h.state.number+1, f.inputs
	for range f.count {
		in, rest, err := wire.ParseInput(data)
		h.n.must(err)
		if in.Number != h.state.number+1 {
			h.n.t.Fatalf("input %d after %d", in.Number, h.state.number)
		}
		if h.n.deadly(in) && !h.n.immune {
			h.die(End{Reason: cmp.Or(h.n.dies, "crashed"), Input: first}) // the results of this frame are lost
			return
		}
		results = append(results, h.state.do(in, data[:len(data)-len(rest)]))
		if h.n.wrong || h.n.forgets && h.restored {
			results[len(results)-1].Digest++
		}
		data = rest
	}
	if len(data) > 0 {
		h.n.t.Fatal("a frame has more inputs than it says")
	}
	half := len(results) / 2 // a batch may be answered in parts
	if half > 0 {
		h.n.core.Results(h.life, results[:half:half])
	}
	h.n.core.Results(h.life, results[half:])
}

// die ends a host.
func (h *host) die(e End) {
	delete(h.n.lives, h.life)
	h.n.core.Ended(h.n.now, h.life, e)
}

func (s *hostState) bytes() []byte { return binary.BigEndian.AppendUint64(nil, s.sum) }

func (s *hostState) do(in wire.Input, raw []byte) wire.Result {
	sum := fnv.New64a()
	_ = binary.Write(sum, binary.BigEndian, s.sum)
	_, _ = sum.Write(raw)
	*s = hostState{in.Number, sum.Sum64()}
	r := wire.Result{Number: in.Number, Wake: wire.NoWake, Digest: uint32(s.sum)}
	switch in.Kind {
	case wire.Message:
		r.Commands = []wire.Command{{Switch: in.Switch, Message: (&of13.BarrierRequest{}).Append(nil, uint32(s.sum))}}
	case wire.Request:
		if bytes.Contains(in.Request, []byte("/silence")) {
			break
		}
		fallthrough
	case wire.Files:
		r.Answers = []wire.Answer{{Request: in.Number, Status: 200, Body: fmt.Appendf(nil, "%d %x", in.Number, s.sum)}}
	}
	return r
}

// lead makes a node the leader, after it has applied everything that is committed. The proposals of the old leader
// are lost; the agent of the switch still has the events.
func (b *bed) lead(n *node) {
	b.t.Helper()
	switch {
	case b.leader == n:
		n.proposed = nil
		b.must(n.ledger.Follow())
	case b.leader != nil:
		b.must(b.leader.ledger.Follow())
		b.leader.core.Follow()
		b.leader.proposed = nil
	}
	n.catchUp(len(b.log))
	b.term++
	b.must(n.ledger.Lead(b.term, b.now.UnixNano()))
	n.core.Lead()
	b.leader, b.events = n, 0
	for _, sw := range n.ledger.Switches() {
		b.events = sw.Events
	}
	n.turn()
}

// catchUp applies the log up to an entry.
func (n *node) catchUp(to int) {
	n.t.Helper()
	for ; n.applied < to; n.applied++ {
		n.must(n.ledger.Commit(n.log[n.applied]))
	}
}

func (n *node) turn() { n.t.Helper(); n.turnHolding(false) }

func (n *node) turnHolding(hold bool) {
	n.t.Helper()
	n.must(n.core.Turn(n.now, hold))
	n.inBounds()
	if entry, ok := n.ledger.Cut(); ok {
		n.proposed = append(n.proposed, entry)
	}
}

func (n *node) inBounds() {
	n.t.Helper()
	c := n.core
	if len(c.frames) > framesOut || len(c.held) > 4200+framesOut*frameInputs {
		n.t.Fatalf("controller %d: %d frames, %d results are held", n.id, len(c.frames), len(c.held))
	}
	total := 0
	for i := range c.held {
		total += size(&c.held[i])
	}
	if total != c.holding {
		n.t.Fatalf("controller %d: %d bytes of results are held, it counts %d", n.id, total, c.holding)
	}
}

// commit commits the proposals of the leader, and applies them there.
func (b *bed) commit() {
	b.t.Helper()
	n := b.leader
	b.log = append(b.log, n.proposed...)
	n.proposed = nil
	n.catchUp(len(b.log))
}

// step lets all controllers, hosts and the log take some steps, and time pass.
func (b *bed) step() (busy bool) {
	b.t.Helper()
	b.now = b.now.Add(5 * time.Millisecond)
	for _, n := range b.nodes {
		n.catchUp(len(b.log))
		n.turn()
		for _, life := range n.sorted() {
			if h := n.lives[life]; h != nil {
				h.execute()
			}
		}
		n.turn()
		if n == b.leader && len(n.proposed) > 0 {
			b.commit()
			busy = true
		}
		busy = busy || n.core.life == 0 || n.core.rebuild != ""
		for _, h := range n.lives {
			busy = busy || !h.ready || len(h.frames) > 0
		}
	}
	return busy
}

// settle steps until nothing more happens.
func (b *bed) settle() {
	b.t.Helper()
	for range 20_000 {
		if !b.step() {
			return
		}
	}
	for _, n := range b.nodes {
		b.t.Logf("controller %d: %+v; %+v", n.id, n.core.Status(), n.core.death)
	}
	b.t.Fatal("it does not end")
}

func (n *node) sorted() (lives []uint64) {
	for life := range n.lives {
		lives = append(lives, life)
	}
	slices.Sort(lives)
	return lives
}

// up logs SWITCH_UP.
func (b *bed) up() {
	b.t.Helper()
	features := of13.FeaturesReply{DatapathID: 1}
	b.event(experimenter.SwitchUp{Features: features.Append(nil, 0)}.Append(nil, openflow.Version13))
}

// packets executes this many events at the leader.
func (b *bed) packets(count int, text string) {
	b.t.Helper()
	for range count {
		b.event((&of13.PacketIn{BufferID: of13.NoBuffer, Data: []byte(text)}).Append(nil, 0))
	}
}

func (b *bed) event(msg []byte) {
	b.t.Helper()
	b.events++
	b.must(b.leader.ledger.Event(1, 7, b.events, msg))
}

// holds returns a predicate of inputs that have a text.
func holds(text string) func(wire.Input) bool {
	return func(in wire.Input) bool { return bytes.Contains(in.Message, []byte(text)) }
}

// begun returns a bed whose application has begun, and in which nothing is in flight.
func begun(t *testing.T, nodes int) *bed {
	t.Helper()
	b := newBed(t, nodes)
	b.lead(b.nodes[0])
	b.up()
	b.settle()
	return b
}

// logged returns the numbers of the logged records of a kind in the latest generation, in order.
func (b *bed) logged(kind RecordKind) (numbers []uint64) {
	b.t.Helper()
	for _, entry := range b.log {
		_, err := ledger.Walk(entry, func(r *ledger.Record) error {
			if r.Op != ledger.OpTransaction {
				return nil
			}
			record, err := ParseRecord(r.Bytes)
			switch record.Kind {
			case Begin:
				numbers = nil
			case kind:
				numbers = append(numbers, record.Number)
			}
			return err
		})
		b.must(err)
	}
	return numbers
}

// check compares the log and all hosts with a single host that never fails.
func (b *bed) check() {
	b.t.Helper()
	done := b.leader.replayed.Committed()
	numbers := b.logged(Result)
	for i, n := range numbers {
		if n != uint64(i+1) {
			b.t.Fatalf("result %d stands in the log as number %d", n, i+1)
		}
	}
	if uint64(len(numbers)) != done.Input || done.Result != done.Input {
		b.t.Fatalf("the log has %d results of %d inputs; status %+v", len(numbers), done.Input, b.leader.core.Status())
	}
	whole := b.whole()
	h := whole.Hosting()
	single := hostState{0, h.Seed ^ uint64(h.Began)}
	for n := uint64(1); n <= done.Input; n++ {
		data, _, err := whole.Inputs(n, 1, 0)
		b.must(err)
		in, _, err := wire.ParseInput(data)
		b.must(err)
		r := single.do(in, data)
		if digest, _ := whole.Digest(n); digest != r.Digest {
			b.t.Fatalf("input %d: the log has another result than a single host makes", n)
		}
	}
	for _, n := range b.nodes {
		if host := n.host(); host == nil || host.state != single {
			b.t.Errorf("the host of controller %d is in another state than a single one: %+v, not %+v; status %+v",
				n.id, host, single, n.core.Status())
		}
		if len(n.core.held) > 0 || n.core.distrust || n.core.unlike > 0 {
			b.t.Errorf("controller %d holds %d results; status %+v", n.id, len(n.core.held), n.core.Status())
		}
	}
}

// whole returns the Log of a ledger that has applied the whole log and trimmed nothing.
func (b *bed) whole() *Log {
	b.t.Helper()
	l, replayed := newLedger(b.t, "same")
	for _, entry := range b.log {
		b.must(l.Commit(entry))
	}
	return replayed
}
