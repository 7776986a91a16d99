package ledger_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/message"
	. "github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
	"github.com/holdfast-sdn/holdfast/ryu/replay"
)

// counting counts packets, so that an event that is executed twice or not at all is noticed.
type counting struct{}

func (*counting) Name() string { return "counting" }
func (*counting) Handle(tx *Tx, in *Input) error {
	if in.Kind != Message || in.Message[1] != of13.TypePacketIn {
		return nil
	}
	t, cell := tx.Table("events"), Key{A: uint64(in.Switch)}
	n := make([]byte, 8)
	if v, ok := tx.Get(t, cell, Key{}); ok {
		copy(n, v)
	}
	tx.Put(t, cell, Key{}, binary.BigEndian.AppendUint64(nil, binary.BigEndian.Uint64(n)+1))
	return nil
}

// Shard makes what is counted of a switch move with it.
func (*counting) Shard(_ string, cell Key) Shard { return AtSwitch(openflow.DatapathID(cell.A)) }

// chaos does random things, whatever the input is.
type chaos struct {
	c    *cluster
	name string
}

func (a *chaos) Name() string { return a.name }
func (a *chaos) Handle(tx *Tx, in *Input) error {
	rng := a.c.rng
	if a.c.quiet {
		return nil
	}
	if tag := uint32(message.Asker(in.Message)); in.Kind == Message && in.Message[1] == of13.TypeBarrierReply &&
		(0 < tag && tag <= nativeApps || tag == uint32(message.Replayed)) && tx.Tag() != tag {
		a.c.fatalf("an answer to application %d reached %d", tag, tx.Tag())
	}
	if string(in.Message) == "poison" {
		a.c.fatalf("what a failed application emitted reached %s", a.name)
	}
	fails := rng.IntN(8) == 0
	if !a.enter(tx) {
		return nil
	}
	if a.c.site != nil && in.Switch != 0 && in.Seq != 0 && in.Kind != Discarded {
		a.inOrder(tx, in)
	}
	if to, is := strings.CutPrefix(string(in.Message), "for "); is && to != a.named(tx.Actor()) {
		a.c.fatalf("a message for %s reached %s", to, a.named(tx.Actor()))
	}
	for range rng.IntN(5) {
		if rng.IntN(8) == 0 {
			a.abort(tx, in, rng)
		}
		a.act(tx, in, rng, fails)
	}
	switch {
	case fails && rng.IntN(4) == 0:
		tx.Send(in.Switch, Panics{})
		fallthrough
	case fails && rng.IntN(2) == 0:
		panic("chaos")
	case fails:
		return errors.New("chaos")
	}
	return nil
}

// abort does something and takes it back.
func (a *chaos) abort(tx *Tx, in *Input, rng *rand.Rand) {
	m := tx.Mark()
	for range rng.IntN(4) {
		a.act(tx, in, rng, true)
	}
	if err := tx.Rewind(m); err != nil {
		a.c.fatalf("%v", err)
	}
}

// named names an actor, or its application if there is one group.
func (a *chaos) named(actor Actor) string {
	if a.c.site == nil {
		return actor.App
	}
	return actor.String()
}

func (a *chaos) act(tx *Tx, in *Input, rng *rand.Rand, fails bool) {
	text := func(s string) string {
		if fails {
			return "poison"
		}
		return s
	}
	name, cell, field := fmt.Sprint("table", rng.IntN(2)), Key{A: rng.Uint64N(3)}, Key{S: fmt.Sprint(rng.IntN(3))}
	if a.c.site != nil {
		name, cell = cellOf(tx.Shard(), cell)
	}
	switch rng.IntN(10) {
	case 0, 1:
		tx.Put(tx.Table(text(name)), cell, field, []byte(text(fmt.Sprint(a.c.unique()))))
	case 2:
		tx.Delete(tx.Table(name), cell, field)
	case 3, 4:
		a.send(tx, in, rng, text)
	case 5:
		if in.Kind != Emitted || rng.IntN(4) == 0 {
			_ = tx.Emit("message", []byte(text("body"))) // an error means that the bound is reached
		}
	case 6:
		name := text(fmt.Sprint("timer", rng.IntN(3)))
		if err := tx.SetTimer(name, time.Duration(rng.IntN(20_000)), []byte(name)); err != nil {
			a.c.fatalf("%v", err)
		}
	case 7:
		tx.CancelTimer(fmt.Sprint("timer", rng.IntN(3)))
	case 8:
		if in.Kind != Emitted || rng.IntN(4) == 0 {
			to := a.someActor(tx)
			to.App = []string{"chaos", "mayhem"}[rng.IntN(2)]
			_ = tx.EmitTo(to, "message", []byte(text("for "+a.named(to))))
		}
	case 9:
		switch {
		case in.Kind != Message:
		case a.c.site != nil && rng.IntN(2) == 0:
			for range 1 + rng.IntN(3) {
				a.order(tx, text)
			}
		default:
			a.errand(tx, text)
		}
	}
}

// inOrder checks that an actor gets each event of a switch once, and in their order. It notes that in a cell of the
// actor, which moves with it.
func (a *chaos) inOrder(tx *Tx, in *Input) {
	name, cell := cellOf(tx.Shard(), Key{})
	t, field := tx.Table(name), Key{S: "seen " + in.Switch.String()}
	now := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, in.Epoch), in.Seq)
	if before, ok := tx.Get(t, cell, field); ok && bytes.Compare(before, now) >= 0 {
		a.c.fatalf("%v gets %s of epoch %d, event %d, after %x", tx.Actor(), in, in.Epoch, in.Seq, before)
	}
	tx.Put(t, cell, field, now)
}

// cellOf returns a cell of a shard.
func cellOf(s Shard, any Key) (table string, cell Key) {
	switch {
	case s.Switch != 0:
		return "by switch", Key{A: uint64(s.Switch)}
	case s.Key != Key{}:
		return "by key", s.Key
	}
	return "together", any
}

// Shard is the inverse of cellOf.
func (a *chaos) Shard(table string, cell Key) Shard {
	switch table {
	case "by switch":
		return AtSwitch(openflow.DatapathID(cell.A))
	case "by key":
		return Shard{Key: cell}
	}
	return Shard{}
}

// send sends a command to a switch, which may not exist.
func (a *chaos) send(tx *Tx, in *Input, rng *rand.Rand, text func(string) string) {
	to, level := openflow.DatapathID(1+rng.IntN(len(a.c.switches)+1)), tx.Level()
	if a.c.site != nil {
		to = openflow.DatapathID(1 + rng.IntN(siteGroups*4))
		if siteGroup(to) != a.c.group {
			level = ExactlyOnce
		}
	}
	body := text(fmt.Sprint("command ", a.c.unique(), " ", level, " ", uint64(in.Switch), " ", in.Epoch, " ", in.Seq))
	tx.Send(to, SimCommand(body))
}

// enter acts as a random actor, which may be in another group.
func (a *chaos) enter(tx *Tx) bool {
	if a.c.site == nil {
		return true
	}
	return tx.Enter(a.someActor(tx).Shard)
}

// someActor returns a random actor of the application, which may be in another group.
func (a *chaos) someActor(tx *Tx) Actor {
	if a.c.site == nil {
		return Actor{App: a.name}
	}
	as := a.someShard()
	if a.c.rng.IntN(3) == 0 {
		as = tx.Actor()
	}
	return as
}

func (a *chaos) someShard() Actor {
	as := Actor{App: a.name}
	switch a.c.rng.IntN(4) {
	case 0, 1:
		as.Switch = openflow.DatapathID(1 + a.c.rng.IntN(siteGroups*4))
	case 2:
		as.Key = Key{A: uint64(1 + a.c.rng.IntN(4))}
	}
	return as
}

// relax returns an application whose level is base for most types of events of the simulation.
func relax(a Application, base Level, rng *rand.Rand) Application {
	r := Relaxed{a, map[uint8]Level{}}
	for _, typ := range []uint8{of13.TypePacketIn, of13.TypeBarrierReply} {
		if r.Levels[typ] = base; rng.IntN(6) == 0 {
			r.Levels[typ] = Unordered + Level(rng.IntN(4))
		}
	}
	return r
}

// nativeApps is the number of applications that are not replayed in the ledger of each node.
const nativeApps = 3

// newCore makes the ledger of a node.
func (c *cluster) newCore(limits Limits, node int) (*Core, *replay.Log) {
	apps := []Application{&counting{}, &chaos{c, "chaos"}, &chaos{c, "mayhem"}}
	if c.seed%2 == 0 && !(c.site != nil && c.site.moves) { // who moves does not know how a command goes
		rng := rand.New(rand.NewPCG(c.seed, 1))
		base := Unordered + Level(rng.IntN(4))
		for i, a := range apps {
			apps[i] = relax(a, base, rng)
		}
	}
	apps = append(apps, newCaller(c), newCallee(c))
	if c.site != nil {
		apps = append(apps, &roll{c}, newBank(c))
	}
	core, err := New(apps, limits)
	if err != nil {
		c.t.Fatal(err)
	}
	core.Instrument(func() time.Duration { return 0 })
	if c.site != nil {
		core.Join(c.group, c.site.directory(c.group, node))
		core.Enumerate(c.site.shards(c.group, node))
		c.site.relay(core, node)
	}
	log, err := replay.NewLog(core, c.identity(node))
	if err != nil {
		c.t.Fatal(err)
	}
	return core, log
}
