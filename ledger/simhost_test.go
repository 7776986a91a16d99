package ledger_test

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"

	. "github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
	"github.com/holdfast-sdn/holdfast/ryu/replay"
	"github.com/holdfast-sdn/holdfast/ryu/wire"
)

func hostedIn(seed uint64) bool           { return seed/2%2 == 1 }
func (c *cluster) hostedLike(id int) bool { return id < 2 || c.seed%3 != 0 }

// identity identifies the applications that a node replays. In some simulations node 2 has different ones, or none.
func (c *cluster) identity(node int) string {
	switch {
	case c.site != nil:
		return ""
	case !hostedIn(c.seed), !c.hostedLike(node) && c.seed%2 == 0:
		return ""
	case !c.hostedLike(node):
		return "other"
	}
	return "same"
}

// simHost is the host of a node. It is deterministic: each input changes the results of all later ones.
type simHost struct {
	n       *simNode
	of      replay.Committed // progress in the log when the host started
	number  uint64           // number of the last input that was executed
	time    int64
	sum     uint64
	up      map[openflow.DatapathID]bool
	stuck   bool          // hangs at the input after number
	results []wire.Result // not logged yet
}

// turn does for the host what the owner of a ledger does.
func (h *simHost) turn() {
	core, log, rng, c := h.n.core, h.n.log, h.n.c.rng, h.n.c
	done := log.Committed()
	if done.Generation != h.of.Generation || done.Skipped != h.of.Skipped {
		*h = simHost{n: h.n, of: done, up: map[openflow.DatapathID]bool{}}
	}
	_, leading := core.Leading()
	begins := func() bool { return log.Hosting().Generation != done.Generation } // not committed yet
	if leading && !begins() && hostedIn(c.seed) && (log.MustBegin() || !c.quiet && rng.IntN(300) == 0) {
		log.Begin(rng.Uint64())
	}
	if begins() && log.ResultRoom() && log.Result(&wire.Result{Number: 1}) == nil {
		c.fatalf("node %d: a result of a generation that is over was taken", h.n.id)
	}
	if begins() || log.MustBegin() || c.identity(h.n.id) == "" {
		return
	}
	h.execute(1+rng.IntN(6), 1+rng.IntN(1000))
	for len(h.results) > 0 && h.results[0].Number <= done.Result {
		h.logged(&h.results[0])
		h.results = h.results[1:]
	}
	if !leading {
		return
	}
	if !c.quiet && rng.IntN(10) == 0 && core.Room() {
		body := make([]byte, rng.IntN(100))
		if c.seed%20 == 2 {
			body = make([]byte, rng.IntN(30_000))
		}
		if log.Request((&wire.HTTPRequest{Method: "PUT", Path: "/x", Body: body}).Append(nil)) != log.Hosting().Inputs {
			c.fatalf("a request was not taken")
		}
	}
	h.deliver()
	if h.stuck && h.number == done.Result && log.ResultRoom() {
		log.Skip(h.number + 1)
	}
}

// execute executes committed inputs, if there are any.
func (h *simHost) execute(count, size int) {
	c := h.n.c
	data, n, err := h.n.log.Inputs(h.number+1, count, size)
	h.n.must(err)
	for ; n > 0 && !h.stuck; n-- {
		in, rest, err := wire.ParseInput(data)
		h.n.must(err)
		if in.Number != h.number+1 || in.Time < h.time {
			c.fatalf("node %d: input %d at %d after %d at %d", h.n.id, in.Number, in.Time, h.number, h.time)
		}
		c.oracle.feed.checkInput(c, h.of.Generation, in.Number, data[:len(data)-len(rest)])
		sum := fnv.New64a()
		_ = binary.Write(sum, binary.BigEndian, h.sum)
		_, _ = sum.Write(data[:len(data)-len(rest)])
		if h.stuck = in.Kind != wire.Timer && sum.Sum64()%200 == 0; h.stuck {
			return
		}
		h.sum, h.number, h.time, data = sum.Sum64(), in.Number, in.Time, rest
		h.up[in.Switch] = in.Kind == wire.Up || in.Kind == wire.Message && h.up[in.Switch]
		h.results = append(h.results, h.do(in.Number, in.Time))
	}
}

func (h *simHost) do(number uint64, now int64) wire.Result {
	r := wire.Result{Number: number, Digest: uint32(h.sum), Wake: wire.NoWake}
	for i := range h.sum % 3 {
		id := openflow.DatapathID(1 + (h.sum>>8+i)%5)
		typ := of13.TypePacketOut
		if h.sum>>16%16 == 0 {
			typ = 24 // ROLE_REQUEST
		}
		if h.up[id] {
			r.Commands = append(r.Commands, wire.Command{Switch: id,
				Message: NewMessage(typ, uint32(h.sum>>20), hostedBody(number, h.sum))})
		}
	}
	switch h.sum >> 24 % 4 {
	case 0:
		r.Wake = now + int64(h.sum>>26%20_000)
	case 1:
		r.Wake = now - 5
	}
	if h.sum>>40%16 == 0 {
		r.Failures = []wire.Failure{{Traceback: "Traceback:\n  somewhere\nValueError: 7\n"}}
	}
	return r
}

func hostedBody(number, sum uint64) string {
	return fmt.Sprint("hosted exactly_once ", number, " ", sum)
}

// deliver gives the results to the leader, which logs them.
func (h *simHost) deliver() {
	log, c := h.n.log, h.n.c
	for _, r := range h.results {
		next := log.Hosting().Results + 1
		if !log.ResultRoom() || r.Number > next || !c.quiet && c.rng.IntN(8) == 0 {
			return
		}
		if err := log.Result(&r); (err == nil) != (r.Number == next) {
			c.fatalf("node %d: result %d, where %d is next: %v", h.n.id, r.Number, next, err)
		}
	}
}

// logged compares the results of this host with a logged result.
func (h *simHost) logged(r *wire.Result) {
	if d, ok := h.n.log.Digest(r.Number); !ok || d != r.Digest {
		h.n.c.fatalf("node %d: result %d has digest %x here, and in the log %x %v", h.n.id, r.Number, r.Digest, d, ok)
	}
}

// hostsRest reports whether the hosts have nothing to do.
func (c *cluster) hostsRest() bool {
	for _, n := range c.nodes {
		done, h := n.log.Committed(), &n.host
		if hostedIn(c.seed) && (done.Result != done.Input || n.id == c.leader && n.log.MustBegin()) {
			return false
		}
		if c.identity(n.id) != "" && !n.log.MustBegin() && (h.number != done.Input || len(h.results) > 0 ||
			h.of.Generation != done.Generation) {
			return false
		}
	}
	return true
}
