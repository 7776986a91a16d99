package consensus

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-sdn/holdfast/consensus/storage"
	"github.com/holdfast-sdn/holdfast/consensus/storage/disk"
	"github.com/holdfast-sdn/holdfast/consensus/transport"
	"github.com/holdfast-sdn/holdfast/internal/incident"
)

// ErrNoLog says that a member for which Found was called has no log.
var ErrNoLog = errors.New("there is no log here, and a member that lost its log has forgotten what others rely on")

// ErrClosed says that the Node was closed by its owner.
var ErrClosed = errors.New("consensus: closed")

// Node is one running member. Its methods may be called from any goroutine, except as they say.
type Node struct {
	cfg       Config
	core      *Core // only the loop touches it
	inbox     *inbox
	saver     *saver
	transport *transport.Transport
	incidents *incident.Log
	updates   chan Update
	leading   atomic.Uint64 // the term in which proposals are taken; 0: none
	compacts  atomic.Bool   // a snapshot is being written
	founded   atomic.Bool   // this member is one of the first, and has known no leader
	helpers   sync.WaitGroup
	done      chan struct{} // closed when everything has ended

	// The loop's own.
	ticker  *time.Ticker
	ticked  time.Time // when the loop handled the last tick
	elect   *time.Timer
	backlog []Update // not yet taken by the owner
	waiting []waiter
}

// waiter is a call that returns when check says that it is done.
type waiter struct {
	check  func(*Core) (bool, error)
	result chan error
}

// Start loads the log and joins the group. The first updates are the newest snapshot and all committed entries after
// it.
func Start(cfg Config) (*Node, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	store, saved, err := open(cfg)
	if err != nil {
		return nil, fmt.Errorf("consensus: %w", err)
	}
	core, err := NewCore(CoreConfig{
		ID: cfg.ID, HeartbeatTicks: 1, ElectionTicks: int(cfg.Election / cfg.Heartbeat),
		MostTicks: int(MaxElection / cfg.Heartbeat), HoldTicks: int(LateHold / cfg.Heartbeat), Stagger: Stagger,
		Seed: rand.Uint64(), Saved: saved, Logger: cfg.Logger,
		FirstTerm: uint64(max(0, time.Now().UnixMilli()/100)),
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("consensus: %w", err), store.Close())
	}
	n := &Node{
		cfg: cfg, core: core, inbox: newInbox(), incidents: incident.New(cfg.Logger), updates: make(chan Update),
		done:   make(chan struct{}),
		ticker: time.NewTicker(cfg.Heartbeat), elect: time.NewTimer(time.Hour),
	}
	n.founded.Store(!cfg.Join && saved.Snapshot.Index() == bootIndex && len(saved.Entries) == 0)
	n.elect.Stop()
	n.saver = newSaver(store, markInterval(cfg.Fsync), n.inbox.stop)
	n.transport = transport.Start(transport.Config{
		ID: cfg.ID, Cluster: cfg.Cluster, Listener: cfg.Listener, Peers: dialed(cfg.Members), Handler: peers{n},
		Logger: cfg.Logger,
		Dial:   cfg.Dial, Admit: cfg.Admit, Founded: n.founded.Load,
	})
	n.helpers.Go(n.saver.run)
	go func() { // ends with Close, or with a fault that the member cannot tolerate
		n.run()
		n.end()
	}()
	return n, nil
}

// open loads the log, and creates one if there is none.
func open(cfg Config) (storage.Storage, storage.Saved, error) {
	if cfg.Storage == nil && cfg.Founded && !cfg.Join && !disk.Exists(cfg.Dir) { // before Open creates files there
		return nil, storage.Saved{}, fmt.Errorf("%s: %w", cfg.Dir, ErrNoLog)
	}
	store := cfg.Storage
	switch {
	case store != nil:
	case cfg.Dir == "":
		store = new(storage.Memory)
	default:
		var err error
		owner := disk.Owner{Cluster: cfg.Cluster, ID: cfg.ID}
		if store, err = disk.Open(cfg.Dir, owner, cfg.Fsync, cfg.Logger); err != nil {
			return nil, storage.Saved{}, err
		}
	}
	groups, err := store.Load()
	saved := groups[0]
	if err == nil && saved.Hard == nil && !cfg.Join && cfg.Founded {
		err = fmt.Errorf("%s: %w", cfg.Dir, ErrNoLog)
	}
	if err == nil && saved.Hard == nil && !cfg.Join {
		boot := Bootstrap(cfg.Members)
		err = store.Save([]storage.Batch{boot})
		saved = storage.Saved{Hard: boot.Hard, Snapshot: *boot.Snapshot}
	}
	if err != nil {
		return nil, saved, errors.Join(err, store.Close())
	}
	return store, saved, nil
}

// Found creates the log of one of the first members of a group. The member is then started with Config.Founded. Found
// is called once in the life of a member; cfg needs no listener.
func Found(cfg Config) error {
	cfg = cfg.withDefaults()
	d, err := disk.Open(cfg.Dir, disk.Owner{Cluster: cfg.Cluster, ID: cfg.ID}, cfg.Fsync, cfg.Logger)
	if err != nil {
		return fmt.Errorf("consensus: %w", err)
	}
	saved, err := d.Load()
	if err == nil && len(saved) > 0 {
		err = fmt.Errorf("%s holds a log already", cfg.Dir)
	}
	if err == nil {
		err = d.Save([]storage.Batch{Bootstrap(cfg.Members)})
	}
	if err = errors.Join(err, d.Close()); err != nil {
		return fmt.Errorf("consensus: %w", err)
	}
	return nil
}

// run is the loop. It waits only for new work, never for the disk, the network or the owner.
func (n *Node) run() {
	var t turn
	n.ticked = time.Now()
	for {
		n.ready()
		out, next := n.next()
		select {
		case <-n.ticker.C:
			n.tick()
		case <-n.elect.C:
			n.core.Elect()
		case out <- next:
			n.taken(next)
		case <-n.inbox.wake:
			select { // a tick goes before queued work
			case <-n.ticker.C:
				n.tick()
			default:
			}
			n.inbox.take(&t, n.core.Accepts())
			if err := n.work(&t); err != nil {
				n.inbox.stop(err)
				return
			}
		}
	}
}

// tick passes a tick to the core. A ticker drops ticks while the loop has no processor time.
func (n *Node) tick() {
	now := time.Now()
	n.core.Tick(max(0, int(now.Sub(n.ticked)/n.cfg.Heartbeat)-1))
	n.ticked = now
}

// work handles one turn of queued work. An error ends the loop.
func (n *Node) work(t *turn) error {
	if t.err != nil {
		return t.err
	}
	n.core.Stored(t.stored)
	for _, a := range t.arrivals {
		if a.down != 0 {
			n.core.Hint(a.down)
		} else if err := n.core.Step(a.message); err != nil {
			return fmt.Errorf("consensus: %w", err)
		}
	}
	for rest := t.propose; len(rest) > 0; { // all of one term at once; those of an earlier term are refused
		var data [][]byte
		term := rest[0].term
		for len(rest) > 0 && rest[0].term == term {
			data = append(data, rest[0].data)
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

// ready does what the core asks for.
func (n *Node) ready() {
	for n.core.HasReady() {
		rd := n.core.Ready()
		n.transport.Send(rd.Messages)
		n.saver.add(n.inbox, rd.Append)
		n.queue(rd.Updates)
		if rd.Members != nil {
			n.transport.SetPeers(dialed(n.addresses(rd.Members)))
			n.transport.Gone(rd.Gone)
		}
		if rd.Elect > 0 {
			n.elect.Reset(rd.Elect)
		}
		if rd.Relief != 0 {
			n.cfg.Logger.Warn("consensus: the disk of this leader is much slower than those of others; transferring "+
				"the leadership", "dir", n.cfg.Dir, "to", rd.Relief)
		}
		if rd.Stop != nil {
			n.stop(rd.Stop)
		}
	}
	keep := n.waiting[:0]
	for _, w := range n.waiting {
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

// queue adds updates to those that the owner has not taken yet. Their number is bounded: raft returns at most
// maxUndelivered bytes of entries, and consecutive roles are merged.
func (n *Node) queue(updates []Update) {
	for _, u := range updates {
		if u.Role != nil {
			n.leading.Store(0)
			if u.Role.Leading {
				n.leading.Store(u.Role.Term)
			}
			if u.Role.Leader != 0 {
				n.founded.Store(false)
			}
		}
		last := len(n.backlog) - 1
		switch {
		case last >= 0 && u.Entries != nil && n.backlog[last].Entries != nil:
			n.backlog[last].Entries = append(n.backlog[last].Entries, u.Entries...)
		case last >= 0 && u.Role != nil && !u.Role.Leading && n.backlog[last].Role != nil:
			n.backlog[last] = u
		default:
			n.backlog = append(n.backlog, u)
		}
	}
}

// next returns the oldest queued update, or a nil channel if there is none.
func (n *Node) next() (chan<- Update, Update) {
	if len(n.backlog) == 0 {
		return nil, Update{}
	}
	return n.updates, n.backlog[0]
}

// taken records that the owner has taken the oldest update.
func (n *Node) taken(u Update) {
	n.backlog[0] = Update{}
	if n.backlog = n.backlog[1:]; len(n.backlog) == 0 {
		n.backlog = nil
	}
	if len(u.Entries) > 0 {
		n.core.Delivered(u.Entries[len(u.Entries)-1].Index)
	}
}

// end stops everything that the loop has used, and ends the calls that wait.
func (n *Node) end() {
	n.ticker.Stop()
	n.elect.Stop()
	n.leading.Store(0)
	n.transport.Close()
	n.saver.stop()
	n.helpers.Wait()
	if err := n.saver.store.Close(); err != nil {
		n.cfg.Logger.Warn("consensus: closing the log", "dir", n.cfg.Dir, "err", err)
	}
	for _, w := range n.waiting {
		w.result <- n.inbox.reason()
	}
	close(n.done) // first: an owner that finds Updates closed calls Err at once
	close(n.updates)
}

// Updates is the ordered stream of committed entries, snapshots and role changes. It is closed when the node has
// stopped; Err then says why. While the owner does not read, the node continues with elections and heartbeats: it keeps
// at most 16 MiB of entries, and the role changes between them, and then stops delivering entries.
//
// One goroutine reads. It may call Propose, Compact and Status between two reads, because none of these waits for a
// read.
func (n *Node) Updates() <-chan Update { return n.updates }

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
// The error is ErrNotLeader, or the one that stopped the node. Without an error, either the proposal is appended in
// this term after all earlier ones, or a Role with Leading == false follows and no later proposal of the term is
// appended either.
func (n *Node) Propose(term uint64, data []byte) error {
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
	return n.inbox.proposal(term, data)
}

// SendPayload sends bytes to the owner of another member, on the connection that also carries Raft's messages. They
// are not changed afterwards. It reports false if there is no connection, or if 12 MiB are waiting. A payload may get
// lost after it returned true: when the connection breaks. It never waits, and payloads do not delay Raft's messages.
func (n *Node) SendPayload(member uint64, payload []byte) bool {
	return n.transport.SendPayload(0, member, payload)
}

// Close stops the node at once, without transferring the leadership; see HandOver. It returns nil, or the error that
// had stopped the node before.
func (n *Node) Close() error {
	n.inbox.stop(ErrClosed)
	<-n.done
	if err := n.inbox.reason(); !errors.Is(err, ErrClosed) {
		return err
	}
	return nil
}

// do runs f in the loop, and returns its error.
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

// await runs begin in the loop, and then check after each turn until check says that it is done.
func (n *Node) await(ctx context.Context, begin func(*Core) error, check func(*Core) (bool, error)) error {
	result := make(chan error, 1)
	err := n.do(func(c *Core) error {
		err := begin(c)
		if err == nil {
			n.waiting = append(n.waiting, waiter{check, result})
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
