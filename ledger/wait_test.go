package ledger

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A timer that waits for a cell is due in the next batch when a handler has changed that cell, and not when the handler
// has failed. Its replicas know what waits as the leader does.
func TestWait(t *testing.T) {
	on := CellName{"t", Key{A: 7, S: "a:b"}}
	a := &script{name: "a"}
	var rang []string
	a.do = func(tx *Tx, in *Input) error {
		put := func(k Key) { tx.Put(tx.Table("t"), k, Key{}, []byte(in.Message)) }
		switch {
		case in.Kind == Timer:
			rang = append(rang, string(in.Message))
		case in.Kind != Message:
		case strings.HasSuffix(string(in.Message), "wait"):
			for _, data := range []string{"one", "two"} {
				if name, err := tx.Wait(time.Hour, []byte(data), on); err != nil || !IsWait(name) {
					return errors.Join(err, errors.New(name))
				}
			}
			_, err := tx.Wait(time.Hour, []byte("time only"), CellName{})
			return err
		case strings.HasSuffix(string(in.Message), "other"):
			put(Key{A: 7, S: "a"})
		case strings.HasSuffix(string(in.Message), "fail"):
			put(on.Key)
			return errors.New("no")
		case strings.HasSuffix(string(in.Message), "put"):
			put(on.Key)
		}
		return nil
	}
	p := newPair(t, Limits{}, a)
	p.up(1)
	seq := uint64(1)
	event := func(text string, want ...string) {
		t.Helper()
		seq++
		p.event(1, 1, seq, packetIn(text))
		p.commit()
		p.now++
		p.leader.Tick(p.now)
		p.commit()
		if !slices.Equal(rang, want) {
			t.Errorf("%s: %v went off, want %v", text, rang, want)
		}
	}
	event("wait")
	event("other")
	event("fail")
	if len(p.follower.state.waiting) != 1 || p.follower.state.timerBytes != len("onetwotime only") {
		t.Errorf("the follower has %v, %d bytes", p.follower.state.waiting, p.follower.state.timerBytes)
	}
	event("put", "one", "two")
	event("put", "one", "two")
	p.leader.Tick(p.now + int64(time.Hour))
	p.commit()
	for _, c := range []*Core{p.leader, p.follower} {
		if len(rang) != 3 || len(c.state.waiting)+len(c.state.timers)+c.state.timerBytes != 0 {
			t.Errorf("%v went off; %v wait", rang, c.state.timers)
		}
	}
}

// A timer may be set for longer than ledger time lasts. It does not fire.
func TestTimerWithoutEnd(t *testing.T) {
	a := &script{name: "a", do: func(tx *Tx, in *Input) error {
		if in.Kind == SwitchUp {
			return tx.SetTimer("never", math.MaxInt64, nil)
		}
		return nil
	}}
	p := newPair(t, Limits{}, a)
	p.up(1)
	p.commit()
	p.leader.Tick(p.now + int64(24*time.Hour))
	p.commit()
	wantTold(t, a, "switch up of switch "+sw1)
	if at, ok := p.leader.NextTimer(); !ok || at < math.MaxInt64-p.now {
		t.Errorf("the next timer is due at %d", at)
	}
}

// The data of timers is bounded.
func TestTimerBytes(t *testing.T) {
	a := &script{name: "a"}
	n := 0
	a.do = func(tx *Tx, in *Input) error {
		if in.Kind != Message {
			return nil
		}
		n++
		return tx.SetTimer(fmt.Sprint(n), time.Hour, make([]byte, 1<<20))
	}
	p := newPair(t, Limits{}, a)
	p.up(1)
	p.leader.state.timerBytes = maxTimerBytes - 1<<20
	p.event(1, 1, 2, packetIn(""))
	p.event(1, 1, 3, packetIn(""))
	p.commit()
	f := p.leader.Failures()
	if len(f) != 1 || !strings.Contains(f[0].Err.Error(), "the data of all timers") || n != 2 {
		t.Errorf("after %d timers: %v", n, f)
	}
}

// What is kept of an input is what it was. Damaged bytes are an error.
func TestResume(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := Input{Kind: Message, Switch: 7, Epoch: rapid.Uint64().Draw(t, "epoch"),
			Seq:     rapid.Uint64().Draw(t, "seq"),
			Message: rapid.SliceOf(rapid.Byte()).Draw(t, "message"), Name: rapid.String().Draw(t, "name"),
			sender: Actor{App: rapid.String().Draw(t, "sender"), Shard: AtSwitch(3)},
			passed: rapid.Bool().Draw(t, "passed"),
			caller: rapid.Uint64().Draw(t, "caller"), call: rapid.Uint64().Draw(t, "call")}
		tx := &Tx{c: &Core{input: in}, app: "a", at: AtSwitch(7)}
		kept := tx.Keep()
		tx.c.input = Input{}
		got, err := tx.Resume(kept)
		if err != nil {
			t.Fatal(err)
		}
		if is := tx.Actor(); got.to != is || got.from != is || got.at != is.Shard || !got.exact {
			t.Fatalf("resumed for %v", got.to)
		}
		in.to, in.from, in.at, in.exact = got.to, got.from, got.at, true
		if fmt.Sprintf("%+v", *got) != fmt.Sprintf("%+v", in) {
			t.Fatalf("resumed %+v, kept %+v", *got, in)
		}
		cut := rapid.IntRange(0, len(kept)-1).Draw(t, "cut")
		if _, err := tx.Resume(kept[:cut]); err == nil {
			t.Fatalf("%d of %d bytes are resumed", cut, len(kept))
		}
		_, _ = tx.Resume(rapid.SliceOf(rapid.Byte()).Draw(t, "damaged"))
	})
}
