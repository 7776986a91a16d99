package bench

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
	"github.com/holdfast-sdn/holdfast/store"
	"github.com/holdfast-sdn/holdfast/store/onstore"
)

// replicas are a leader and a follower without I/O. As a Store, they execute one transaction at a time, or note it.
type replicas struct {
	leader, follower *ledger.Core
	request          store.Request
	notes            bool
	noted            [][]store.Op
}

var errNoted = errors.New("it is noted only")

func newReplicas() (*replicas, error) {
	r := &replicas{request: store.Request{Namespace: "n"}}
	for _, c := range []**ledger.Core{&r.leader, &r.follower} {
		core, err := ledger.New([]ledger.Application{store.New()}, ledger.Limits{})
		if err != nil {
			return nil, err
		}
		*c = core
	}
	return r, r.leader.Lead(1, time.Unix(1_000_000, 0).UnixNano())
}

// execute has both execute transactions, as one request of a session, which is one entry.
func (r *replicas) execute(transactions ...[]store.Op) (out store.Response, err error) {
	q := &r.request
	q.Transactions = transactions
	if q.Session != 0 {
		q.Seq, q.Acked = q.Seq+1, q.Seq
	}
	call, _, err := store.CallOf(q.Append(nil))
	if err == nil {
		err = r.leader.Call(call)
	}
	if err != nil {
		return out, err
	}
	if entry, ok := r.leader.Cut(); ok {
		if err := errors.Join(r.follower.Commit(entry), r.leader.Commit(entry)); err != nil {
			return out, err
		}
	}
	err = out.Decode(r.leader.Answers()[0].Message)
	if err == nil && out.Error != nil {
		err = out.Error
	}
	return out, err
}

func (r *replicas) Do(_ context.Context, ops ...store.Op) (store.Outcome, error) {
	if r.notes {
		r.noted = append(r.noted, ops)
		return store.Outcome{}, errNoted
	}
	out, err := r.execute(ops)
	if err == nil && out.Outcomes[0].Error != nil {
		err = out.Outcomes[0].Error
	}
	if err != nil {
		return store.Outcome{}, err
	}
	return out.Outcomes[0], nil
}

// BenchmarkFlow is a flow of each workload with micro components, in requests of 32: what it costs the leader, one
// follower, and the client that encodes it.
func BenchmarkFlow(b *testing.B) {
	const batch = 32
	for name, w := range workloads {
		b.Run(name, func(b *testing.B) {
			r, err := newReplicas()
			if err != nil {
				b.Fatal(err)
			}
			app, err := onstore.New(w.app, onstore.Component, r, nil)
			if err == nil {
				err = app.Setup(b.Context())
			}
			for n := 0; n < knownHosts && err == nil; n++ {
				if w.app == "balancer" {
					err = onstore.AddVIP(b.Context(), app, vipIP(n), of13.MAC{2, 1}, []onstore.Member{
						{Address: hostIP(1), MAC: hostMAC(1), Port: 1}, {Address: hostIP(2), MAC: hostMAC(2), Port: 2}})
				}
				if err == nil {
					p := fromHost(n)
					_, err = app.Handle(b.Context(), &p)
				}
			}
			if err != nil {
				b.Fatal(err)
			}
			out, err := r.execute([]store.Op{{Kind: store.OpenSession}})
			if err != nil {
				b.Fatal(err)
			}
			r.request.Session, r.notes = out.Outcomes[0].Results[0].Session, true
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				p := w.packet(n % 30_000)
				if _, err := app.Handle(b.Context(), &p); !errors.Is(err, errNoted) {
					b.Fatal(err)
				}
				if len(r.noted) < batch {
					continue
				}
				out, err := r.execute(r.noted...)
				if err != nil {
					b.Fatal(err)
				}
				if why := out.Outcomes[0].Error; why != nil {
					b.Fatal(why)
				}
				r.noted = nil
			}
		})
	}
}
