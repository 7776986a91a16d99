package ledger_test

import (
	"bytes"
	"encoding/binary"
	"fmt"

	. "github.com/holdfast-sdn/holdfast/ledger"
)

// roll is an application with an actor for each key, its members. Every third event of a switch makes a member, and
// every third is for each of them: a member notes it in a cell, which moves with it, so it notices if it gets one
// twice, or before an earlier one.
type roll struct{ c *cluster }

func (a *roll) Name() string { return "roll" }

// Shard implements Sharder.
func (a *roll) Shard(table string, cell Key) Shard { return (&chaos{}).Shard(table, cell) }

func (a *roll) Handle(tx *Tx, in *Input) error {
	members := tx.Table("by key")
	switch {
	case in.Kind == Request:
		return tx.Emit("roll", in.Message)
	case in.Kind == Emitted && in.Name == "roll":
		return a.each(tx, in, members, Key{S: "asked " + string(in.Message)})
	case in.Kind != Message || in.Seq == 0 || in.Switch == 0:
		return nil
	case in.Seq%3 == 0:
		if at := (Shard{Key: Key{A: 1 + in.Seq/3%4}}); tx.Enter(at) {
			tx.Put(members, at.Key, Key{S: "member"}, []byte{1})
		}
	case in.Seq%3 == 1 && a.c.site.outbox == 0: // else it might exceed the bound alone, and wait for ever
		return a.each(tx, in, members, Key{S: fmt.Sprintf("event %d %d %d", in.Switch, in.Epoch, in.Seq)})
	}
	return nil
}

// each notes what each member gets.
func (a *roll) each(tx *Tx, in *Input, members *Table, what Key) error {
	to, only := tx.To()
	if !only {
		return tx.Each(members, false)
	}
	if !tx.Passed() && !tx.Here(members, to) || !tx.Enter(to) {
		return nil
	}
	if _, twice := tx.Get(members, to.Key, what); twice {
		a.c.fatalf("%v gets %v twice", tx.Actor(), what)
	}
	tx.Put(members, to.Key, what, []byte{1})
	now := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, in.Epoch), in.Seq)
	newest := Key{S: "newest " + in.Switch.String()}
	if before, _ := tx.Get(members, to.Key, newest); bytes.Compare(before, now) > 0 {
		a.c.fatalf("%v gets %v after %x", tx.Actor(), what, before)
	}
	tx.Put(members, to.Key, newest, now)
	return nil
}

// shards returns what a replica of a group knows of the directory, for Core.Enumerate.
func (s *site) shards(group uint64, node int) func(app string) []Shard {
	return func(app string) (list []Shard) {
		for a := range s.views[group-1][node] {
			if a.App == app {
				list = append(list, a.Shard)
			}
		}
		return list
	}
}

// callRoll asks, when nothing is in flight, for each member, and checks that all of them have heard it.
func (s *site) callRoll() {
	group, _ := s.home(Actor{App: "roll"})
	c := s.groups[group-1]
	if !c.nodes[c.leader].core.Request("roll", []byte("here?")) {
		c.fatalf("the leader does not lead at the end")
	}
	s.drain()
	for _, c := range s.groups {
		rows, err := c.nodes[c.leader].core.Rows("roll", 1<<30)
		if err != nil {
			c.fatalf("%v", err)
		}
		members, heard := 0, 0
		for _, r := range rows {
			switch r.Field.S {
			case "member":
				members++
			case "asked here?":
				heard++
			default:
				s.Heard++
			}
		}
		if members != heard {
			c.fatalf("%d of %d members have heard what is for each of them", heard, members)
		}
		s.Members += members
	}
}
