package consensus

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-sdn/holdfast/consensus/storage"
	"github.com/holdfast-sdn/holdfast/consensus/storage/disk"
	"github.com/holdfast-sdn/holdfast/consensus/transport"
	"github.com/holdfast-sdn/holdfast/consensus/wire"
	"github.com/holdfast-sdn/holdfast/internal/incident"
	"github.com/holdfast-sdn/holdfast/internal/processors"
)

// ErrNoLog says that a member for which Found was called has no log.
var ErrNoLog = errors.New("there is no log here, and a member that lost its log has forgotten what others rely on")

// ErrGrouping says that a log is of a cluster with one group, and the configuration of one with several, or the
// reverse.
var ErrGrouping = errors.New("the log has one group and should have several, or the reverse")

// grouping returns ErrGrouping if err says that a log is of the same controller but for HostConfig.Several.
func grouping(cfg HostConfig, err error) error {
	cfg.Several = !cfg.Several
	if other, ok := errors.AsType[*disk.OwnerError](err); ok && other.Has == cfg.owner().String() {
		return fmt.Errorf("%s: %w", cfg.Dir, ErrGrouping)
	}
	return err
}

// Host is what all groups of a controller share: the log, the connections to the other controllers, and the clock. It
// runs one Node for each group. A fault of the log stops all of them. A fault of one group stops that Node alone; a
// controller then ends as a whole.
type Host struct {
	cfg       HostConfig
	store     storage.Storage
	saver     *saver
	transport *transport.Transport
	incidents *incident.Log
	stopTicks chan struct{}
	helpers   sync.WaitGroup            // the saver and the ticker
	broken    chan struct{}             // closed by a fault of the log
	nodes     atomic.Pointer[nodeTable] // those that run
	ticking   atomic.Int64              // nodes that have not handled the last tick
	crowd     func() int                // as all nodes see it: see Core.Crowded

	mu      sync.Mutex // guards the fields below, and replacing nodes
	closed  bool
	fault   error                    // of the log
	saved   map[uint64]storage.Saved // of the groups that were not started yet
	started map[uint64]bool
	members map[uint64]map[uint64]string // of each group that runs: address by replica
}

// nodeTable is nodes by group. It is never changed, only replaced.
type nodeTable map[uint64]*Node

// NewHost loads the log of a controller, and begins to accept connections. The error is ErrNoLog if there should be a
// log and is none.
func NewHost(cfg HostConfig) (*Host, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	store, err := open(cfg)
	if err != nil {
		return nil, fmt.Errorf("consensus: %w", err)
	}
	saved, err := store.Load()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("consensus: %w", grouping(cfg, err)), store.Close())
	}
	h := &Host{
		cfg: cfg, store: store, incidents: incident.New(cfg.Logger), stopTicks: make(chan struct{}),
		crowd:  processors.CrowdEvery(cfg.Heartbeat / 2), // once in each tick
		broken: make(chan struct{}), saved: saved, started: make(map[uint64]bool),
		members: make(map[uint64]map[uint64]string),
	}
	h.nodes.Store(new(nodeTable))
	h.saver = newSaver(store, markInterval(cfg.Fsync), h.fail)
	h.helpers.Go(h.saver.run)
	h.transport = transport.Start(transport.Config{
		ID: cfg.ID, Cluster: cfg.hello(), Listener: cfg.Listener, Handler: received{h}, Logger: cfg.Logger,
		Dial: cfg.Dial, Admit: cfg.Admit, Founded: h.founded, Heartbeat: cfg.Heartbeat, Names: cfg.Names,
	})
	h.helpers.Go(h.tick)
	return h, nil
}

// open opens the log.
func open(cfg HostConfig) (storage.Storage, error) {
	switch {
	case cfg.Storage != nil:
		return cfg.Storage, nil
	case cfg.Founded && !disk.Exists(cfg.Dir): // before Open creates files there
		return nil, fmt.Errorf("%s: %w", cfg.Dir, ErrNoLog)
	case cfg.Dir == "":
		return new(storage.Memory), nil
	default:
		return disk.Open(cfg.Dir, cfg.owner(), cfg.Fsync, cfg.Logger)
	}
}

// Found creates the log of one of the first controllers of a cluster, with its replicas of the first groups. Its host
// is then started with HostConfig.Founded. Found is called once in the life of a controller, or again if it was
// interrupted; it needs no listener.
func Found(cfg HostConfig, groups ...GroupConfig) error {
	cfg = cfg.withDefaults()
	d, err := disk.Open(cfg.Dir, cfg.owner(), cfg.Fsync, cfg.Logger)
	if err != nil {
		return fmt.Errorf("consensus: %w", err)
	}
	saved, err := d.Load()
	if err == nil && saved[groups[0].Group].Hard != nil {
		err = fmt.Errorf("%s holds a log already: start it with holdfast serve", cfg.Dir)
	}
	if err == nil {
		var first []storage.Batch
		for _, g := range slices.Backward(groups) { // the first group last: then all are there
			first = append(first, g.boot())
		}
		err = d.Save(first)
	}
	if err = errors.Join(err, d.Close()); err != nil {
		return fmt.Errorf("consensus: %w", err)
	}
	return nil
}

// Start starts the replica of one group, and joins the group. A group is started once in the life of a Host, and again
// after Forget. The first updates are the newest snapshot and all committed entries after it.
func (h *Host) Start(cfg GroupConfig) (*Node, error) {
	cfg = cfg.at(h.cfg.ID)
	if err := cfg.validate(h.cfg); err != nil {
		return nil, err
	}
	saved, err := h.begin(cfg)
	if err != nil {
		return nil, fmt.Errorf("consensus: %w", err)
	}
	log := h.cfg.Logger
	if cfg.Group != 0 {
		log = log.With("group", cfg.Group)
	}
	core, err := NewCore(CoreConfig{
		Group: cfg.Group, ID: cfg.ID, HeartbeatTicks: 1, ElectionTicks: int(h.cfg.Election / h.cfg.Heartbeat),
		MostTicks: int(MaxElection / h.cfg.Heartbeat), HoldTicks: int(LateHold / h.cfg.Heartbeat), Stagger: Stagger,
		Seed: rand.Uint64(), Saved: saved, Logger: log, PatienceTicks: int(h.cfg.Patience / h.cfg.Heartbeat),
		FirstTerm: uint64(max(0, time.Now().UnixMilli()/100)),
	})
	if err != nil {
		return nil, fmt.Errorf("consensus: %w", err)
	}
	n := newNode(h, cfg, log, core)
	n.founded.Store(!cfg.Join && saved.Snapshot.Index() == bootIndex && len(saved.Entries) == 0)
	if err := h.add(n); err != nil {
		return nil, fmt.Errorf("consensus: %w", err)
	}
	go func() { // ends with Close, or with a fault that the replica cannot tolerate
		n.run()
		n.end()
	}()
	return n, nil
}

// Idle returns the replicas that have a log here and were not started, by group. A replica that has not received
// anything is 0: it has no id yet.
func (h *Host) Idle() map[uint64]uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	replicas := make(map[uint64]uint64, len(h.saved))
	for group, saved := range h.saved {
		replicas[group] = h.own(saved)
	}
	return replicas
}

// own returns the id of the replica that has a log. Every snapshot names the replica that has it: see raftLog.Snapshot.
// An earlier replica of this controller may still be in the group.
func (h *Host) own(saved storage.Saved) (newest uint64) {
	if saved.Snapshot.Raft == nil {
		return 0
	}
	_, members, _, _ := parseSnapshotData(saved.Snapshot.Raft.GetData()) // if it is damaged, Start says so
	for id := range members {
		if wire.ControllerOf(id) == h.cfg.ID {
			newest = max(newest, id)
		}
	}
	return newest
}

// Forget removes the log of a group whose replica here was removed and does not run. Another replica of the group may
// then be started.
func (h *Host) Forget(group uint64) error {
	if h.node(group) != nil {
		return fmt.Errorf("consensus: group %d runs and cannot be forgotten", group)
	}
	if err := h.save(storage.Batch{Group: group, Forget: true}); err != nil {
		return fmt.Errorf("consensus: %w", err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.saved, group)
	delete(h.started, group)
	return nil
}

// begin returns what was saved of a group, and creates its log if there is none.
func (h *Host) begin(cfg GroupConfig) (storage.Saved, error) {
	h.mu.Lock()
	saved, again, err := h.saved[cfg.Group], h.started[cfg.Group], h.ended()
	h.started[cfg.Group] = true
	delete(h.saved, cfg.Group)
	h.mu.Unlock()
	switch {
	case err != nil:
	case again:
		err = fmt.Errorf("group %d was started before", cfg.Group)
	case saved.Hard == nil && !cfg.Join && !cfg.New && h.cfg.Founded:
		err = fmt.Errorf("%s: %w", h.cfg.Dir, ErrNoLog)
	case saved.Hard == nil && !cfg.Join:
		boot := cfg.boot()
		saved = storage.Saved{Hard: boot.Hard, Snapshot: *boot.Snapshot}
		err = h.save(boot)
	}
	return saved, err
}

// save saves a batch of a group that does not run yet, and waits for that.
func (h *Host) save(b storage.Batch) error {
	in := newInbox()
	h.saver.add(in, []storage.Batch{b})
	select {
	case <-in.wake:
		return nil
	case <-h.broken:
		return h.fault
	case <-h.stopTicks:
		return ErrClosed
	}
}

// ended is why no group can be started any more.
func (h *Host) ended() error {
	if h.closed {
		return ErrClosed
	}
	return h.fault
}

// add lets a node receive ticks and messages.
func (h *Host) add(n *Node) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.ended(); err != nil {
		return err
	}
	nodes := maps.Clone(*h.nodes.Load())
	if nodes == nil {
		nodes = make(nodeTable)
	}
	nodes[n.cfg.Group] = n
	// first: who says hello must be known as a peer when the node is there, see Stranger
	h.connect(n.cfg.Group, dialed(n.cfg.Members))
	h.nodes.Store(&nodes)
	h.transport.Gather(len(nodes) > 1)
	return nil
}

// remove is the reverse of add.
func (h *Host) remove(n *Node) {
	h.mu.Lock()
	defer h.mu.Unlock()
	nodes := maps.Clone(*h.nodes.Load())
	delete(nodes, n.cfg.Group)
	h.nodes.Store(&nodes)
	h.transport.Gather(len(nodes) > 1)
	h.connect(n.cfg.Group, nil)
}

// node returns the node of a group; nil if it does not run.
func (h *Host) node(group uint64) *Node { return (*h.nodes.Load())[group] }

// changed tells the Host the members of a group, as address by replica, and its former members.
func (h *Host) changed(group uint64, members map[uint64]string, former []uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.connect(group, members)
	if group == 0 {
		h.transport.Gone(removed(members, former))
	}
}

// connect replaces the members of a group, and dials the controllers of all groups.
func (h *Host) connect(group uint64, members map[uint64]string) {
	if h.members[group] = members; members == nil {
		delete(h.members, group)
	}
	h.transport.SetPeers(controllers(h.members))
}

// controllers returns the addresses of the controllers of all groups. If groups know several addresses of a controller,
// that of the first group counts, and in a group that of the last replica.
func controllers(groups map[uint64]map[uint64]string) map[uint64]string {
	addrs := make(map[uint64]string)
	for _, g := range slices.Backward(slices.Sorted(maps.Keys(groups))) {
		for _, id := range slices.Sorted(maps.Keys(groups[g])) {
			addrs[wire.ControllerOf(id)] = groups[g][id]
		}
	}
	return addrs
}

// removed returns the controllers of former members, unless they have a later replica.
func removed(members map[uint64]string, former []uint64) []uint64 {
	var gone []uint64
	left := controllers(map[uint64]map[uint64]string{0: members})
	for _, id := range former {
		if _, ok := left[wire.ControllerOf(id)]; !ok {
			gone = append(gone, wire.ControllerOf(id))
		}
	}
	return gone
}

// tick passes the ticks of one clock to all nodes. A node that has not handled the last one misses a tick.
func (h *Host) tick() {
	ticker := time.NewTicker(h.cfg.Heartbeat)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			h.ticking.Store(1)
			for _, n := range *h.nodes.Load() {
				select {
				case n.ticks <- struct{}{}:
					h.ticking.Add(1)
				default:
				}
			}
			h.handled()
		case <-h.stopTicks:
			return
		}
	}
}

// handled is called when a node has handled a tick. The last one sends the heartbeats of all.
func (h *Host) handled() {
	if h.ticking.Add(-1) == 0 {
		h.transport.Flush()
	}
}

// fail stops all nodes, because the content of the log is unknown.
func (h *Host) fail(err error) {
	h.mu.Lock()
	if h.fault == nil {
		h.fault = err
		close(h.broken)
	}
	nodes := *h.nodes.Load()
	h.mu.Unlock()
	for _, n := range nodes {
		n.inbox.stop(err)
	}
}

// closing is why nodes end that are closed: a fault of the log stops them one after the other, so some may not know it
// yet.
func (h *Host) closing() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return cmp.Or(h.fault, ErrClosed)
}

// Close stops all nodes at once, and then what they share. It returns the fault of the log that had stopped them
// before, or nil. Call it once.
func (h *Host) Close() error {
	h.mu.Lock()
	h.closed = true
	nodes, fault := *h.nodes.Load(), h.fault
	h.mu.Unlock()
	for _, n := range nodes {
		n.inbox.stop(h.closing())
	}
	for _, n := range nodes {
		<-n.done
	}
	h.transport.Close()
	close(h.stopTicks)
	h.saver.stop()
	h.helpers.Wait()
	if err := h.store.Close(); err != nil {
		h.cfg.Logger.Warn("consensus: closing the log", "dir", h.cfg.Dir, "err", err)
	}
	return fault
}

// founded says whether this controller may be one of the first, and has known no leader of group 0. Until that group
// runs here this is not known.
func (h *Host) founded() bool {
	n := h.node(0)
	return n == nil || n.founded.Load()
}

// received passes what the transport receives to the groups. It implements transport.Handler.
type received struct{ h *Host }

func (r received) Received(m wire.Message) {
	n := r.h.node(m.Group)
	switch {
	case n == nil || n.cfg.ID != m.Raft.GetTo():
		r.h.incidents.Info(fmt.Sprint("absent ", m.Group),
			"consensus: dropped a message for a replica that is not here",
			"group", m.Group, "replica", m.Raft.GetTo(), "from", m.Raft.GetFrom())
	case !n.inbox.message(m):
		r.h.incidents.Warn(fmt.Sprint("full ", m.Group), "consensus: dropped a message, because too many wait here",
			"group", m.Group, "from", m.Raft.GetFrom(), "type", m.Raft.GetType())
	case len(*r.h.nodes.Load()) > 1:
		n.inbox.signal() // a turn that waits for the file system would delay the messages of other groups
	default:
		n.drive()
	}
}

func (r received) Payload(group, from uint64, payload []byte) {
	if n := r.h.node(group); n != nil && n.cfg.Payload != nil {
		n.cfg.Payload(from, payload)
	}
}

func (r received) Disconnected(controller uint64) {
	for _, n := range *r.h.nodes.Load() {
		n.inbox.hint(controller)
	}
}

func (r received) Removed() {
	if n := r.h.node(0); n != nil {
		n.stop(ErrRemoved)
	}
}

func (r received) Stranger(controller uint64) {
	// With a log that has had a leader, this controller belongs to another group 0.
	if n := r.h.node(0); n != nil && n.founded.Load() {
		n.stop(fmt.Errorf("%w (controller %d says so)", ErrStranger, controller))
	}
}

func (r received) Dropped(group, replica uint64) {
	r.call(group, func(c *Core) { c.Unreachable(replica) })
}

func (r received) SnapshotSent(group, replica uint64, ok bool) {
	r.call(group, func(c *Core) { c.SnapshotSent(replica, ok) })
}

// SendPayload is Node.SendPayload to a controller with a replica of a group, of which this Host need not have one.
func (h *Host) SendPayload(group, controller uint64, payload []byte) bool {
	return h.transport.SendPayload(group, controller, payload)
}

// call fails only if the node has stopped; then the call does not matter.
func (r received) call(group uint64, f func(*Core)) {
	if n := r.h.node(group); n != nil {
		_ = n.inbox.call(f)
	}
}
