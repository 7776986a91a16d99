package sim

import (
	"fmt"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/holdfast-sdn/holdfast/lab/rows"
	"github.com/holdfast-sdn/holdfast/store"
)

// namespaces are those that clients of the store use. With several groups, they live in different ones, and move.
var namespaces = []string{"one", "two"}

const (
	clientsOfEach = 2 // of a namespace
	keysOfEach    = 2
)

// storeClients are all clients of the store, and what they were told.
type storeClients struct {
	s        *simulation
	clients  []*storeClient
	history  []porcupine.Operation
	moment   int64                     // counts calls and answers, because several are at the same time
	sums     map[string]map[int64]bool // of the counter of each namespace
	answered uint64
}

// storeClient is a client with a session, as store/client is: it has one request at a time, and sends it again until it
// is answered. It runs beside the controllers, and never fails.
type storeClient struct {
	of           *storeClients
	id           int
	namespace    string
	session, seq uint64
	request      []byte                  // that is not answered; nil: there is none
	take         func(out store.Outcome) // its answer
	seen         map[string]uint64       // versions of rows
	writes       int
}

// useStore starts the clients of the store, if the scenario has any.
func (s *simulation) useStore() {
	s.store = &storeClients{s: s, sums: map[string]map[int64]bool{}}
	if s.scenario.StoreEvery == 0 {
		return
	}
	for _, ns := range namespaces {
		s.store.sums[ns] = map[int64]bool{}
		for range clientsOfEach {
			c := &storeClient{of: s.store, id: len(s.store.clients), namespace: ns, seen: map[string]uint64{}}
			s.store.clients = append(s.store.clients, c)
			c.open()
		}
	}
}

// open opens a session, and makes the tables.
func (c *storeClient) open() {
	c.ask(store.Op{Kind: store.OpenSession}, func(out store.Outcome) {
		c.session = out.Results[0].Session
		c.ask(store.Op{Kind: store.CreateTable, Table: "rows"}, func(store.Outcome) {
			c.ask(store.Op{Kind: store.CreateTable, Table: "counters"}, func(store.Outcome) { c.next() })
		})
	})
}

// next makes the next request, until the traffic ends.
func (c *storeClient) next() {
	w := c.of.s.w
	w.after(w.upTo(2*c.of.s.scenario.StoreEvery), nil, func() {
		switch {
		case !c.of.s.traffic:
		case w.rand.IntN(8) == 0:
			c.count()
		default:
			c.access()
		}
	})
}

// count adds 1 to a counter.
func (c *storeClient) count() {
	c.ask(store.Op{Kind: store.Add, Table: "counters", Key: "sum", Delta: 1}, func(out store.Outcome) {
		c.of.answered++
		sums, w := c.of.sums[c.namespace], c.of.s.w
		switch {
		case out.Error != nil:
			w.fail("client %d of the store adds 1, and is told: %v", c.id, out.Error)
		case sums[out.Results[0].Value]:
			w.fail("namespace %s: two clients are told the sum %d", c.namespace, out.Results[0].Value)
		default:
			sums[out.Results[0].Value] = true
		}
		c.next()
	})
}

// access reads or writes a row.
func (c *storeClient) access() {
	s := c.of
	key := fmt.Sprint("k", s.s.w.rand.IntN(keysOfEach))
	c.writes++
	in := rows.Draw(s.s.w.rand.IntN, c.namespace+" "+key, fmt.Sprint(c.id, " ", c.writes), c.seen[key])
	s.moment++
	began := s.moment
	c.ask(in.Op("rows", key), func(out store.Outcome) {
		s.answered++
		told := rows.Answer(out)
		if out.Error == nil {
			c.seen[key] = told.Version
		}
		s.moment++
		s.history = append(s.history, porcupine.Operation{ClientId: c.id, Input: in, Call: began, Output: told,
			Return: s.moment})
		c.next()
	})
}

// ask makes a request of one op. take is called with its answer.
func (c *storeClient) ask(o store.Op, take func(store.Outcome)) {
	r := store.Request{Namespace: c.namespace, Transactions: [][]store.Op{{o}}}
	if o.Kind.Writes() && o.Kind != store.OpenSession {
		c.seq++
		r.Session, r.Seq, r.Acked = c.session, c.seq, c.seq-1
	}
	c.request, c.take = r.Append(nil), take
	q, _, err := store.CallOf(c.request)
	if err != nil {
		c.of.s.w.fail("client %d of the store: %v", c.id, err)
	}
	c.of.s.insist(q, c.answer)
}

// answer takes the answer to the request.
func (c *storeClient) answer(reply []byte) {
	c.request = nil
	var r store.Response
	switch err := r.Decode(reply); {
	case err != nil:
		c.of.s.w.fail("client %d of the store is told %x: %v", c.id, reply, err)
	case r.Error != nil:
		c.of.s.w.fail("client %d of the store is told: %v", c.id, r.Error)
	default:
		c.take(r.Outcomes[0])
	}
}

// unsettled says who waits for an answer; "" is nobody.
func (s *storeClients) unsettled() string {
	for _, c := range s.clients {
		if c.request != nil {
			return fmt.Sprintf("client %d of the store waits for an answer", c.id)
		}
	}
	return ""
}

// check checks at the end that what the clients were told is linearizable, and that each addition took effect once.
func (s *storeClients) check() {
	if r := porcupine.CheckOperationsTimeout(rows.Model, s.history, time.Minute); r != porcupine.Ok {
		s.s.w.fail("what clients of the store were told of %d accesses is not linearizable: %s", len(s.history), r)
	}
	for _, ns := range namespaces {
		for i := range int64(len(s.sums[ns])) {
			if !s.sums[ns][i+1] {
				s.s.w.fail("namespace %s: no client was told the sum %d, and %d were", ns, i+1, len(s.sums[ns]))
			}
		}
	}
}
