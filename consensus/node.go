package consensus

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-sdn/holdfast/consensus/storage"
	"github.com/holdfast-sdn/holdfast/consensus/wire"
)

// ErrClosed says that the Node, or its Host, was closed by its owner.
var ErrClosed = errors.New("consensus: closed")

// Node is one running replica. Its methods may be called from any goroutine, except as they say.
type Node struct {
	cfg      GroupConfig
	host     *Host
	log      *slog.Logger
	inbox    *inbox
	outbox   *outbox
	ticks    chan struct{}            // capacity 1: a tick is due
	elect    *time.Timer              // an election is due
	leading  atomic.Uint64            // the term in which proposals are taken; 0: none
	compacts atomic.Bool              // a snapshot is being written
	founded  atomic.Bool              // this member is one of the first, and has known no leader
	vouches  atomic.Pointer[[]uint64] // what Core.Vouches returned last
	present  atomic.Pointer[Present]
	helpers  sync.WaitGroup
	done     chan struct{} // closed when everything has ended

	// Who runs a turn has it, and so the core and the fields below. It is held while a turn writes to the cache of the
	// file system, never while something waits. Only the loop waits for it.
	turn    sync.Mutex
	core    *Core
	todo    turn
	over    bool      // there are no more turns
	ticked  time.Time // when the last tick was handled
	doubts  bool      // the core has doubts since then: see crowd; used by the loop only
	unsaved int       // batches that the saver has
	waiting []waiter
}

// waiter is a call that returns when check says that it is done, or when ctx ends; then check, which may act, is not
// called any more.
type waiter struct {
	ctx    context.Context
	check  func(*Core) (bool, error)
	result chan error
}

func newNode(h *Host, cfg GroupConfig, log *slog.Logger, core *Core) *Node {
	n := &Node{
		cfg: cfg, host: h, log: log, core: core, inbox: newInbox(), outbox: newOutbox(),
		ticks: make(chan struct{}, 1), done: make(chan struct{}), elect: time.NewTimer(time.Hour),
	}
	n.elect.Stop()
	n.vouches.Store(new([]uint64))
	n.present.Store(new(Present))
	return n
}

// run is the loop. It runs the turns that the clock makes due, and those that others leave to it, and never waits for
// the disk, the network or the owner.
func (n *Node) run() {
	n.turn.Lock()
	n.ticked = time.Now()
	n.ready()
	n.turn.Unlock()
	for {
		tick, elect := false, false
		select {
		case <-n.ticks:
			tick = true
		case <-n.elect.C:
			elect = true
		case <-n.inbox.wake:
			select { // a tick goes before queued work
			case <-n.ticks:
				tick = true
			default:
			}
		}
		crowd := 0
		if tick {
			crowd = n.crowd()
		}
		n.turn.Lock()
		if tick {
			n.tick(crowd)
		}
		if elect {
			n.core.Elect()
		}
		over := n.work()
		n.turn.Unlock()
		if tick {
			n.host.handled()
		}
		if over {
			return
		}
	}
}

// drive runs a turn in the caller's goroutine, unless another one is running a turn: then the loop runs the next. So
// who brings work need not wake the loop for it.
func (n *Node) drive() {
	if !n.turn.TryLock() {
		n.inbox.signal()
		return
	}
	over := n.work()
	n.turn.Unlock()
	if over {
		n.inbox.signal() // the loop ends
	}
}

// tick passes a tick to the core. Ticks are dropped while the loop has no processor time.
func (n *Node) tick(crowd int) {
	now := time.Now()
	if crowd > 0 {
		n.core.Crowded(crowd)
	}
	n.core.Tick(max(0, int(now.Sub(n.ticked)/n.host.cfg.Heartbeat)-1))
	n.ticked, n.doubts = now, n.core.Doubts()
}

// crowd is what the core is told before the next tick; 0: nothing. It is asked for without the turn, since the system
// may take its time.
func (n *Node) crowd() int {
	if !n.doubts {
		return 0
	}
	return n.host.crowd()
}

// work handles one turn of queued work, and reports whether it was the last one. The caller has the turn.
func (n *Node) work() (over bool) {
	if n.over {
		return true
	}
	n.inbox.take(&n.todo, n.core.Accepts())
	if err := n.handle(&n.todo); err != nil {
		n.inbox.stop(err)
		n.over = true
		return true
	}
	n.ready()
	return false
}

// handle passes a turn of queued work to the core. An error ends the node.
func (n *Node) handle(t *turn) error {
	if t.err != nil {
		return t.err
	}
	if t.taken {
		n.core.Taken()
		n.core.Delivered(t.delivered)
	}
	n.unsaved -= t.stored
	n.core.Stored(t.stored)
	for _, a := range t.arrivals {
		if a.down != 0 {
			n.core.Hint(a.down)
		} else if err := n.step(a.message); err != nil {
			return fmt.Errorf("consensus: %w", err)
		}
	}
	for rest := t.propose; len(rest) > 0; { // all of one term at once; those of an earlier term are refused
		var data [][]byte
		term := rest[0].term
		for len(rest) > 0 && rest[0].term == term {
			data = append(data, rest[0].data)
			n.core.Hasten(rest[0].early...)
			rest = rest[1:]
		}
		if err := n.core.Propose(term, data...); err != nil && !errors.Is(err, ErrNotLeader) {
			return fmt.Errorf("consensus: %w", err)
		}
	}
	for _, call := range t.calls { // after the proposals, which a leadership transfer would block
		call(n.core)
	}
	return nil
}

// step passes a message to the core. One with an implausible term is dropped, and logged.
func (n *Node) step(m wire.Message) error {
	err := n.core.Step(m)
	if ahead, is := errors.AsType[*TermError](err); is {
		n.host.incidents.Warn(fmt.Sprint("term ", n.cfg.Group, ahead.From), "consensus: dropped a message",
			"group", n.cfg.Group, "err", ahead)
		return nil
	}
	return err
}

// ready does what the core asks for.
func (n *Node) ready() {
	for n.core.HasReady() {
		rd := n.core.Ready()
		late := n.saveNow(rd.Append)
		n.core.Vouch(rd.Messages)
		n.host.transport.Send(rd.Messages)
		n.saveLater(late)
		n.queue(rd.Updates)
		if rd.Members != nil {
			n.host.changed(n.cfg.Group, dialed(n.addresses(rd.Members)), rd.Gone)
			n.present.Store(&Present{controllersOf(maps.Keys(rd.Members)), controllersOf(slices.Values(rd.Voters)),
				namesOf(rd.Members)})
		}
		if rd.Elect > 0 {
			n.elect.Reset(rd.Elect)
		}
		if rd.Relief != 0 {
			n.log.Warn("consensus: the disk of this leader is much slower than those of others; transferring "+
				"the leadership", "dir", n.host.cfg.Dir, "to", rd.Relief)
		}
		if rd.Stalled != 0 {
			n.log.Error("consensus: the control path of this leader hangs; transferring the leadership, and taking no "+
				"other until it goes on. Find what blocks it in a goroutine dump (SIGQUIT), and restart the controller",
				"for", n.host.cfg.Patience, "to", rd.Stalled)
		}
		if rd.Stop != nil {
			n.stop(rd.Stop)
		}
	}
	n.vouch()
	keep := n.waiting[:0]
	for _, w := range n.waiting {
		if w.ctx.Err() != nil {
			continue
		}
		if done, err := w.check(n.core); done {
			w.result <- err
		} else {
			keep = append(keep, w)
		}
	}
	clear(n.waiting[len(keep):])
	n.waiting = keep
	if n.core.Accepts() {
		n.inbox.resume()
	}
}

// saveNow saves batches of the log, if that does not wait, so that the answers to them leave with the next Ready, and
// appends say that they are stored. It returns those that it did not save.
func (n *Node) saveNow(batches []storage.Batch) (late []storage.Batch) {
	if len(batches) == 0 || n.unsaved > 0 || !n.host.saver.addNow(batches) {
		return batches
	}
	n.core.Stored(len(batches))
	return nil
}

// saveLater leaves batches to the saver.
func (n *Node) saveLater(batches []storage.Batch) {
	n.unsaved += len(batches)
	n.host.saver.add(n.inbox, batches)
}

// stop ends a member that does not belong to the group.
func (n *Node) stop(reason error) {
	n.inbox.stop(fmt.Errorf("consensus: member %d: %w", n.cfg.ID, reason))
}

// dialed returns the addresses of members, without names.
func dialed(members map[uint64]string) map[uint64]string {
	addrs := make(map[uint64]string, len(members))
	for id, m := range members {
		_, addrs[id] = SplitAddress(m)
	}
	return addrs
}

// addresses returns the addresses of members; the configuration overrides the log.
func (n *Node) addresses(members map[uint64]string) map[uint64]string {
	peers := make(map[uint64]string, len(members))
	for id, addr := range members {
		if configured := n.cfg.Members[id]; configured != "" {
			addr = configured
		}
		peers[id] = addr
	}
	return peers
}

// vouch makes Vouches known to other goroutines.
func (n *Node) vouch() {
	now, was := n.core.Vouches(), n.vouches.Load()
	if len(now) != len(*was) || len(now) > 0 && &now[0] != &(*was)[0] {
		n.vouches.Store(&now)
	}
}

// Vouches reports whether the replica at another controller knows by itself what this leader has committed, because
// they are a quorum and this one stores entries before it sends them. It is false at a follower.
func (n *Node) Vouches(controller uint64) bool {
	for _, member := range *n.vouches.Load() {
		if wire.ControllerOf(member) == controller {
			return true
		}
	}
	return false
}

// end removes the node from the Host, and fails the calls that wait.
func (n *Node) end() {
	n.elect.Stop()
	n.leading.Store(0)
	n.helpers.Wait() // first: Host.Close waits for the nodes that it has
	n.host.remove(n)
	for _, w := range n.waiting {
		w.result <- n.inbox.reason()
	}
	close(n.done)
	n.outbox.end()
}

// Err returns why the node has stopped: nil while it runs, ErrClosed if the owner closed it.
func (n *Node) Err() error {
	select {
	case <-n.done:
		return n.inbox.reason()
	default:
		return nil
	}
}

// Propose appends data to the log in the given term, in which this member leads. It is called from one goroutine, which
// must not change data afterwards. It waits while 8 MiB of proposals are queued, until the log takes them or this
// member is no longer the leader.
//
// The replicas at the controllers in early are to know as soon as they can that it is committed, see Vouches.
//
// The error is ErrNotLeader, or the one that stopped the node. Without an error, either the proposal is appended in
// this term after all earlier ones, or a Role with Leading == false follows and no later proposal of the term is
// appended either.
func (n *Node) Propose(term uint64, data []byte, early ...uint64) error {
	switch {
	case len(data) == 0:
		return errors.New("consensus: empty proposal")
	case len(data) > MaxProposal:
		return fmt.Errorf("consensus: proposal of %d bytes; at most %d are allowed", len(data), MaxProposal)
	case term == 0 || n.leading.Load() != term:
		if err := n.inbox.reason(); err != nil {
			return err
		}
		return ErrNotLeader
	}
	if err := n.inbox.proposal(term, data, early); err != nil {
		return err
	}
	if len(data) < longProposal {
		n.drive()
	} else {
		n.inbox.signal()
	}
	return nil
}

// Proposals of at least longProposal bytes are left to the loop: to copy and save one takes longer than to wake the
// loop, and the owner can do other work meanwhile.
const longProposal = 16 << 10

// SendPayload sends bytes to the owner of another member, on the connection that also carries Raft's messages. They
// are not changed afterwards. It reports false if there is no connection, or if 12 MiB of all groups are waiting. A
// payload may get lost after it returned true: when the connection breaks. It never waits, and payloads do not delay
// Raft's messages.
func (n *Node) SendPayload(member uint64, payload []byte) bool {
	return n.host.SendPayload(n.cfg.Group, wire.ControllerOf(member), payload)
}

// Present is which controllers have a replica of a group, in order.
type Present struct {
	Controllers []uint64
	Voters      []uint64          // those of them that vote, or will when a change of the members is complete
	Names       map[uint64]string // of those that have one
}

// Present returns who is present now; nobody if the node does not know yet. Safe for concurrent use. The result must
// not be modified.
func (n *Node) Present() Present { return *n.present.Load() }

// namesOf returns the names of the controllers of replicas, of those that have one.
func namesOf(members map[uint64]string) map[uint64]string {
	names := map[uint64]string{}
	for id, m := range members {
		if name, _ := SplitAddress(m); name != "" {
			names[wire.ControllerOf(id)] = name
		}
	}
	return names
}

// controllersOf returns the controllers of replicas, in order.
func controllersOf(replicas iter.Seq[uint64]) (list []uint64) {
	for id := range replicas {
		list = append(list, wire.ControllerOf(id))
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// Close stops the node at once, without transferring the leadership; see HandOver. The other nodes of the Host
// continue. It returns nil, or the error that had stopped the node before.
func (n *Node) Close() error {
	n.inbox.stop(n.host.closing())
	<-n.done
	if err := n.inbox.reason(); !errors.Is(err, ErrClosed) {
		return err
	}
	return nil
}

// do runs f in a turn, and returns its error.
func (n *Node) do(f func(*Core) error) error {
	result := make(chan error, 1)
	if err := n.inbox.call(func(c *Core) { result <- f(c) }); err != nil {
		return err
	}
	select {
	case err := <-result:
		return err
	case <-n.done:
		return n.inbox.reason()
	}
}

// await runs begin in a turn, and then check after each turn until check says that it is done.
func (n *Node) await(ctx context.Context, begin func(*Core) error, check func(*Core) (bool, error)) error {
	result := make(chan error, 1)
	err := n.do(func(c *Core) error {
		err := begin(c)
		if err == nil {
			n.waiting = append(n.waiting, waiter{ctx, check, result})
		}
		return err
	})
	if err != nil {
		return err
	}
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
		return fmt.Errorf("consensus: undecided: %w", context.Cause(ctx))
	}
}
