package ledger

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// counting counts packets, so that one that is executed twice or not at all shows.
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

// chaos does anything at random, whatever the input.
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
	if tag := openflow.XID(append(in.Message, make([]byte, 8)...)) >> tagShift & 0x7f; in.Kind == Message &&
		in.Message[1] == of13.TypeBarrierReply && tag > 0 && int(tag) <= len(tx.c.apps) && tx.tag>>tagShift != tag {
		a.c.fatalf("an answer to application %d reached %d", tag, tx.tag>>tagShift)
	}
	if string(in.Message) == "poison" {
		a.c.fatalf("what a failed application emitted reached %s", a.name)
	}
	fails := rng.IntN(8) == 0
	for range rng.IntN(5) {
		a.act(tx, in, rng, fails)
	}
	switch {
	case fails && rng.IntN(2) == 0:
		panic("chaos")
	case fails:
		return errors.New("chaos")
	}
	return nil
}

func (a *chaos) act(tx *Tx, in *Input, rng *rand.Rand, fails bool) {
	text := func(s string) string {
		if fails {
			return "poison"
		}
		return s
	}
	t := tx.Table(text(fmt.Sprint("table", rng.IntN(2))))
	cell, field := Key{A: rng.Uint64N(3)}, Key{S: fmt.Sprint(rng.IntN(3))}
	switch rng.IntN(8) {
	case 0, 1:
		tx.Put(t, cell, field, []byte(text(fmt.Sprint(a.c.unique()))))
	case 2:
		tx.Delete(tx.Table("table0"), cell, field)
	case 3, 4:
		body := text(fmt.Sprint("command ", a.c.unique(), " ", tx.level, " ", uint64(in.Switch), " ", in.Epoch, " ",
			in.Seq))
		tx.Send(openflow.DatapathID(1+rng.IntN(len(a.c.switches)+1)), simCommand(body))
		if fails && rng.IntN(4) == 0 {
			tx.Send(in.Switch, panics{})
		}
	case 5:
		if in.Kind != Emitted || rng.IntN(4) == 0 {
			_ = tx.Emit("message", []byte(text("body"))) // at the bound the message is not sent, that is all
		}
	case 6:
		name := text(fmt.Sprint("timer", rng.IntN(3)))
		if err := tx.SetTimer(name, time.Duration(rng.IntN(20_000)), []byte(name)); err != nil {
			a.c.fatalf("%v", err)
		}
	case 7:
		tx.CancelTimer(fmt.Sprint("timer", rng.IntN(3)))
	}
}

// relaxed is an application with weaker levels.
type relaxed struct {
	Application
	levels map[uint8]Level
}

func (r relaxed) Level(typ uint8) (Level, bool) { return r.levels[typ], true }

// relax gives an application the level base for most types of events of the simulation.
func relax(a Application, base Level, rng *rand.Rand) Application {
	r := relaxed{a, map[uint8]Level{}}
	for _, typ := range []uint8{of13.TypePacketIn, of13.TypeBarrierReply} {
		if r.levels[typ] = base; rng.IntN(6) == 0 {
			r.levels[typ] = Unordered + Level(rng.IntN(4))
		}
	}
	return r
}

// newCore makes the ledger of a node.
func (c *cluster) newCore(limits Limits, node int) *Core {
	apps := []Application{&counting{}, &chaos{c, "chaos"}, &chaos{c, "mayhem"}}
	if c.seed%2 == 0 {
		rng := rand.New(rand.NewPCG(c.seed, 1))
		base := Unordered + Level(rng.IntN(4))
		for i, a := range apps {
			apps[i] = relax(a, base, rng)
		}
	}
	core, err := New(c.withHosted(apps, node), limits)
	if err != nil {
		c.t.Fatal(err)
	}
	return core
}

type simCommand string

func (m simCommand) Append(dst []byte, xid uint32) []byte {
	n := len(dst)
	dst = append(openflow.AppendHeader(dst, openflow.Version13, of13.TypePacketOut, xid), m...)
	openflow.SetLength(dst[n:])
	return dst
}

type panics struct{}

func (panics) Append([]byte, uint32) []byte { panic("cannot encode") }
