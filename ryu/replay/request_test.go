package replay

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-sdn/holdfast/ryu/wire"
)

var get = (&wire.HTTPRequest{Method: "GET", Path: "/"}).Append(nil)

// answers are the outcomes of requests: the number of the input that the answer names, or the error.
type answers struct{ got []string }

func (a *answers) done(answer wire.Answer, err error) {
	if err != nil {
		a.got = append(a.got, err.Error())
		return
	}
	number, _, _ := strings.Cut(string(answer.Body), " ")
	a.got = append(a.got, number)
}

func (a *answers) want(t *testing.T, want ...string) {
	t.Helper()
	if !slices.Equal(a.got, want) {
		t.Errorf("answers %q, want %q", a.got, want)
	}
	a.got = nil
}

func TestRequests(t *testing.T) {
	b := begun(t, 2)
	n := b.nodes[0]
	asked := &answers{}
	b.nodes[1].core.Request(get, asked.done)
	asked.want(t, ErrNotLeading.Error())

	n.core.Request(get, asked.done)
	n.core.Request(get, asked.done)
	n.turn()
	b.commit()
	n.turn()
	n.host().execute()
	n.turn()
	asked.want(t) // executed and proposed, but not logged
	b.commit()
	n.turn()
	asked.want(t, "3", "4")
	b.settle()
	asked.want(t)
	b.check()

	n.core.Request([]byte("no request"), asked.done)
	n.turn()
	asked.want(t, ErrRefused.Error())
}

// Each leader provides the files of a generation once, and only a leader logs files.
func TestFiles(t *testing.T) {
	b := begun(t, 2)
	n := b.nodes[0]
	if b.asks != 1 {
		t.Fatalf("the leader was asked for files %d times", b.asks)
	}
	files := (&wire.FileSet{Files: []wire.File{{Path: "/a", Content: []byte("b")}}}).Append(nil)
	asked := &answers{}
	done := func(err error) { asked.done(wire.Answer{}, err) }
	b.nodes[1].core.Files(files, done)
	asked.want(t, ErrNotLeading.Error())
	n.core.Files(files, done)
	asked.want(t)
	b.settle()
	if len(asked.got) != 1 {
		t.Errorf("files that are logged: %q", asked.got)
	}
	b.lead(b.nodes[1])
	b.settle()
	if b.asks != 2 {
		t.Errorf("after a change of leader: %d requests for files", b.asks)
	}
	b.check()
}

// What comes to the leader's host from outside of the log brings one Timer, however often the host says so. The host of
// a follower and one that has ended bring none.
func TestStirred(t *testing.T) {
	b := begun(t, 2)
	leader, follower := b.nodes[0], b.nodes[1]
	before := leader.replayed.Hosting()
	follower.core.Stirred(follower.core.life)
	leader.core.Stirred(leader.core.life + 1)
	leader.core.Stirred(0)
	b.settle()
	if got := leader.replayed.Hosting().Inputs; got != before.Inputs {
		t.Errorf("%d inputs, where %d were before", got, before.Inputs)
	}
	for range 3 {
		leader.core.Stirred(leader.core.life)
	}
	b.settle()
	if got := leader.replayed.Hosting(); got.Inputs != before.Inputs+1 || got.woken != got.Inputs {
		t.Errorf("%d inputs, the last timer is %d; want one more than %d", got.Inputs, got.woken, before.Inputs)
	}
	b.check()
}

func TestRequestsAndLeaders(t *testing.T) {
	b := begun(t, 2)
	n := b.nodes[0]
	asked := &answers{}
	n.core.Request(get, asked.done)
	n.turn()
	b.commit()
	n.core.Request(get, asked.done) // not executed yet
	b.lead(b.nodes[1])
	asked.want(t, ErrLeaderChanged.Error(), ErrNotLeading.Error())
	b.settle()
	asked.want(t) // although the applications have answered
	b.check()

	b.leader.core.Request(get, asked.done)
	b.leader.turn()
	b.commit()
	b.leader.core.bounds.history = 1
	b.leader.turn()
	b.leader.core.bounds = usual
	b.settle()
	asked.want(t, ErrBegun.Error())

	b.leader.core.Request(get, asked.done)
	b.leader.core.Stop()
	asked.want(t, ErrNotLeading.Error())
}

// A host dies after it has answered and before that is logged. The next host answers.
func TestRequestAndDeath(t *testing.T) {
	b := begun(t, 1)
	n := b.nodes[0]
	asked := &answers{}
	n.core.Request(get, asked.done)
	n.turn()
	b.commit()
	n.turn()
	n.host().execute()
	n.turn() // proposes the result
	n.host().die(End{Reason: "crashed"})
	b.commit()
	b.settle()
	asked.want(t, "3")
	b.check()
}

func TestBoundsOfRequests(t *testing.T) {
	b := begun(t, 1)
	n := b.nodes[0]
	asked := &answers{}
	var forget []func()
	for range maxRequests {
		forget = append(forget, n.core.Request(get, asked.done))
	}
	n.core.Request(get, asked.done)
	asked.want(t, ErrBusy.Error())
	forget[0]()
	n.turn()
	b.commit()
	forget[1]()
	forget[1]() // has no effect
	if got := len(n.core.requests.executed) + len(n.core.requests.waiting); got != maxRequests-2 {
		t.Errorf("%d requests wait", got)
	}
	b.settle()
	if len(asked.got) != maxRequests-2 {
		t.Errorf("%d answers", len(asked.got))
	}
	asked.got = nil
	b.check()

	large := (&wire.HTTPRequest{Method: "PUT", Path: "/", Body: make([]byte, 1<<20)}).Append(nil)
	for range 8 {
		n.core.Request(large, asked.done)
	}
	asked.want(t, ErrBusy.Error()) // only the last one
	b.settle()
	if len(asked.got) != 7 || slices.Contains(asked.got, ErrRefused.Error()) {
		t.Errorf("answers: %q", asked.got)
	}
	if q := &n.core.requests; q.bytes != 0 || len(q.waiting)+len(q.executed) != 0 {
		t.Errorf("%d bytes wait of %d requests", q.bytes, len(q.waiting))
	}
	b.check()
}

// When its callers have given up, an application that never answers uses no memory.
func TestRequestWithoutAnswer(t *testing.T) {
	b := begun(t, 1)
	n := b.nodes[0]
	silent := (&wire.HTTPRequest{Method: "GET", Path: "/silence"}).Append(nil)
	for range 3 {
		forget := n.core.Request(silent, func(wire.Answer,
			error) {
			t.Error(fmt.Errorf("answered: %w", errors.ErrUnsupported))
		})
		b.settle()
		if len(n.core.requests.executed) != 1 {
			t.Fatal("it does not wait")
		}
		forget()
	}
	if len(n.core.requests.executed) != 0 {
		t.Error("what nobody waits for is kept")
	}
	b.check()
}

// The client of a request that no host survives gets an error. Other clients get their answers.
func TestDeadlyRequest(t *testing.T) {
	b := begun(t, 3)
	b.deadly = func(in wire.Input) bool { return bytes.Contains(in.Request, []byte("/deadly")) }
	deadly, other := &answers{}, &answers{}
	b.nodes[0].core.Request((&wire.HTTPRequest{Method: "GET", Path: "/deadly"}).Append(nil), deadly.done)
	b.nodes[0].core.Request(get, other.done)
	b.settle()
	b.check()
	deadly.want(t, ErrLeftOut.Error())
	other.want(t, "4")
}
