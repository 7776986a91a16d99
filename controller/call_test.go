package controller

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/holdfast-sdn/holdfast/consensus"
	"github.com/holdfast-sdn/holdfast/controller/directory"
	"github.com/holdfast-sdn/holdfast/internal/access"
	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/internal/clusterkey"
	"github.com/holdfast-sdn/holdfast/internal/config"
	"github.com/holdfast-sdn/holdfast/internal/pki"
	"github.com/holdfast-sdn/holdfast/internal/token"
	"github.com/holdfast-sdn/holdfast/ledger"
)

func callOf(id uint64, message string) ledger.Call {
	return ledger.Call{Actor: ledger.Actor{App: "echoer"}, Name: "route", Message: []byte(message), Caller: 9, ID: id}
}

// A call is executed by the leader, and answered after commit. A controller that does not lead passes it on, but not
// for ever. Whoever does not execute it says so.
func TestCalls(t *testing.T) {
	s := newStand(t, CoreConfig{})
	var passed [][]byte
	s.send = func(member uint64, payload []byte) bool {
		if member == 2 && len(payload) > 0 && payload[0] == callPayload {
			passed = append(passed, payload)
		}
		return true
	}
	take := func(payload []byte) { s.core.Payload(s.now, 3, bytes.Clone(payload)) }
	take(CallPayload(callOf(1, "nobody leads")))
	s.said(fmt.Sprintf("answer 1 to 9: %d ", elsewhere))
	s.follow(2)
	s.trace = nil
	take(CallPayload(callOf(2, "on")))
	s.said()
	if len(passed) != 1 {
		t.Fatalf("%d calls are passed on", len(passed))
	}
	take(passed[0])
	take(passed[1])
	s.said(fmt.Sprintf("answer 2 to 9: %d ", elsewhere)) // it has made maxHops hops
	s.lead(3)
	s.trace = nil
	take(passed[1])
	take(CallPayload(callOf(3, "bad")))
	other := callOf(4, "x")
	other.App = "nobody"
	take(CallPayload(other))
	for end := range 12 {
		take(CallPayload(callOf(5, ""))[:end]) // cut off
	}
	s.turn()
	s.saw("call on", "call bad")
	s.said(fmt.Sprintf("answer 4 to 9: %d ", elsewhere))
	s.commit()
	s.said(fmt.Sprintf("answer 2 to 9: %d echo on", replied), fmt.Sprintf("answer 3 to 9: %d bad", failed))
	take(CallPayload(callOf(6, "lost"))) // the client hears that the leader has changed
	s.turn()
	take(CallPayload(callOf(7, "waits")))
	s.follow(4)
	s.saw("call lost")
	s.lead(5)
	s.said(fmt.Sprintf("answer 7 to 9: %d ", elsewhere))
}

// Calls wait for room in the ledger, up to a bound, and leave room for others.
func TestCallsWait(t *testing.T) {
	s := newStand(t, CoreConfig{})
	s.lead(1)
	s.trace = nil
	for i := range maxCalls + 1 {
		s.core.Payload(s.now, 3, CallPayload(callOf(uint64(i), "x")))
	}
	s.said(fmt.Sprintf("answer %d to 9: %d ", maxCalls, busy))
	s.turn()
	if n := len(s.app.seen); n != maxCallsTurn {
		t.Errorf("%d calls in one turn", n)
	}
	s.settle()
	for range maxCalls / maxCallsTurn {
		s.turn()
		s.settle()
	}
	if n := len(s.app.seen); n != maxCalls || len(s.trace) != maxCalls {
		t.Errorf("%d calls were executed, %d answered", n, len(s.trace))
	}
}

// What is encoded is decoded, and damaged bytes are not taken for a call or an answer.
func TestCallEncoding(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := callOf(rapid.Uint64().Draw(t, "id"), rapid.String().Draw(t, "message"))
		q.Name, q.Key.S = rapid.String().Draw(t, "name"), rapid.String().Draw(t, "key")
		if got, ok := parseCall(CallPayload(q)); !ok || !reflect.DeepEqual(got, q) {
			t.Fatalf("%+v %t, want %+v", got, ok, q)
		}
		parseCall(rapid.SliceOf(rapid.Byte()).Draw(t, "damaged"))
		o := Outcome{q.ID, outcomeKind(rapid.IntRange(0, int(lost)).Draw(t, "kind")), q.Message}
		if got, rest := nextOutcome(o.append(nil)); len(rest) > 0 || !reflect.DeepEqual(got, o) {
			t.Fatalf("%+v, want %+v", got, o)
		}
		for rest := rapid.SliceOf(rapid.Byte()).Draw(t, "damaged answers"); len(rest) > 0; {
			_, rest = nextOutcome(rest)
		}
	})
}

// Calls that wait end with their answer, or when who leads their group changes, and with nothing else.
func TestWaitingCalls(t *testing.T) {
	s := NewCalls(7)
	first, one := s.begin(1)
	second, two := s.begin(2)
	third, three := s.begin(2)
	s.End(third)
	answers := Outcome{id: third, kind: replied}.append([]byte{answerPayload})
	answers = Outcome{id: first, kind: failed, message: []byte("why")}.append(answers)
	if s.Take(nil) || s.Take([]byte{framePayload}) || !s.Take(answers) || !s.Take(answers) {
		t.Error("a payload is taken for what it is not")
	}
	s.Lost(1)
	s.Lost(2)
	if reply, err := (<-one).Reply(); err == nil || err.Error() != "why" || reply != nil {
		t.Errorf("%q, %v", reply, err)
	}
	o := <-two
	if _, err := o.Reply(); o.Again() || !errors.Is(err, errCallLost) {
		t.Errorf("call %d: %+v", second, o)
	}
	if len(three) > 0 || len(s.waiting) > 0 {
		t.Error("a call that has ended gets an answer")
	}
}

// Without a leader a call is tried again until the time is over, and the client learns that it was not executed.
func TestCallWithoutLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, c := &group{ended: make(chan struct{})}, &Controller{calls: NewCalls(7)}
		c.groups.add(g)
		c.router.add(g)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if _, err := c.call(ctx, callOf(0, "x")); !errors.Is(err, errCallIdle) || time.Since(began) != time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		if len(c.calls.waiting) > 0 {
			t.Errorf("%d calls wait", len(c.calls.waiting))
		}
	})
}

// waiter is a ledger.Waiter that notes what it is told.
type waiter struct{ told []error }

var errFlushed = errors.New("flush")

func (w *waiter) Answer(_ []byte, err error) { w.told = append(w.told, err) }

func (w *waiter) Flush() { w.told = append(w.told, errFlushed) }

// A call for which nobody waits ends once: with its answer, with a change of the leader, or when its time is over.
// Those that end together are flushed together. One that cannot be sent is not begun.
func TestBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &group{ended: make(chan struct{}), payloads: &payloads{wake: make(chan struct{}, 1)}}
		c := &Controller{calls: NewCalls(7)}
		c.groups.add(g)
		c.router.add(g)
		b := backend{c}
		w := new(waiter)
		begin := func() bool {
			_, begun := b.Begin(callOf(0, "x"), time.Second, w)
			return begun
		}
		if begin() || len(c.calls.waiting) > 0 {
			t.Error("a call begins without a leader")
		}
		g.led.here.Store(true)
		for _, kind := range []outcomeKind{replied, elsewhere} {
			begin()
			q, ok := parseCall(g.payloads.take()[0].bytes)
			if !ok || !c.calls.Take(Outcome{id: q.ID, kind: kind}.append([]byte{answerPayload})) {
				t.Fatal("the call is not answered")
			}
		}
		begin()
		begin()
		together := []byte{answerPayload}
		for _, p := range g.payloads.take() {
			q, _ := parseCall(p.bytes)
			together = Outcome{id: q.ID, kind: replied}.append(together)
		}
		c.calls.Take(together)
		begin()
		c.calls.Lost(0)
		if id, _ := b.Begin(callOf(0, "x"), time.Second, w); !b.End(id) || b.End(id) {
			t.Error("a call does not end once")
		}
		begin()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		want := []error{nil, errFlushed, ledger.ErrElsewhere, errFlushed, nil, nil, errFlushed, errFlushed, errCallLost,
			errFlushed, errCallLate, errFlushed}
		if !slices.EqualFunc(w.told, want, errors.Is) || len(c.calls.waiting) > 0 {
			t.Errorf("they end with %v, %d wait", w.told, len(c.calls.waiting))
		}
	})
}

// viewer returns the context of a request that a viewer makes.
func viewer(t *testing.T) (ctx context.Context) {
	t.Helper()
	dir := t.TempDir()
	tokens := filepath.Join(dir, "tokens")
	secret, err := token.Add(tokens, pki.Identity{Role: pki.Viewer, Name: "v"})
	if err == nil {
		_, _, err = clusterkey.Make(dir)
	}
	if err != nil {
		t.Fatal(err)
	}
	key, err := clusterkey.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	guard, err := access.NewGuard(t.Context(), &config.Cluster{Tokens: tokens}, key, nil, quiet)
	if err != nil {
		t.Fatal(err)
	}
	q := httptest.NewRequest("GET", "/", nil)
	q.Header.Set("Authorization", "Bearer "+secret)
	guard.Serve(httptest.NewRecorder(), q, access.Applications, http.HandlerFunc(
		func(_ http.ResponseWriter, r *http.Request) { ctx = r.Context() }))
	return ctx
}

// What a viewer asks of an actor that there is not adds no row to the directory. One that there is answers.
func TestViewerMakesNoActor(t *testing.T) {
	s := &stand{t: t, app: &echoer{}, now: time.Unix(1000, 0)}
	var err error
	s.core, err = NewCore(CoreConfig{Name: "c1", Logger: quiet, SwitchTimeout: timeout,
		Applications: []ledger.Application{new(directory.Application)}}, s)
	if err != nil {
		t.Fatal(err)
	}
	s.lead(1)
	there := ledger.Actor{App: "kv", Shard: ledger.Shard{Key: ledger.Key{S: "there"}}}
	s.core.Ask(directory.Name, directory.Place{Controllers: []uint64{1}}.Append(nil))
	s.core.Ask(directory.Name, directory.Reached{Group: 1, Replicas: []uint64{1}}.Append(nil))
	s.core.Ask(directory.Name, directory.Assign{Actors: []ledger.Actor{there}, Groups: []uint64{1}}.Append(nil))
	s.turn()
	s.commit()
	c := &Controller{cfg: Config{Groups: make([]GroupConfig, 2)}, assigned: newAssignments()}
	c.groups.list.Store(&[]*group{{ended: make(chan struct{})}}) // the system group
	if _, _, err := c.assigned.update(consensus.Update{Snapshot: &consensus.Snapshot{}}, s.core); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(viewer(t), await.Limit)
	defer cancel()
	if g, err := c.groupWith(ctx, there); g != 1 || err != nil {
		t.Errorf("an actor that there is: group %d, %v", g, err)
	}
	missing := there
	missing.Key.S = "missing"
	_, err = c.groupWith(ctx, missing)
	if !errors.Is(err, ledger.ErrNoActor) || callStatus(err) != http.StatusNotFound {
		t.Errorf("an actor that there is not: %v", err)
	}
}
