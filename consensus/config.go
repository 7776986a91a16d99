package consensus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/holdfast-sdn/holdfast/consensus/storage"
	"github.com/holdfast-sdn/holdfast/consensus/storage/disk"
	"github.com/holdfast-sdn/holdfast/consensus/wire"
)

// Defaults of HostConfig.
const (
	DefaultHeartbeat = 10 * time.Millisecond
	DefaultElection  = 50 * time.Millisecond
)

// MaxElection bounds the election timeout T on a busy machine, unless HostConfig.Election is longer. A leader that
// hangs is replaced within 2T.
const MaxElection = time.Second

// LateHold is for how long a late message keeps the election timeout long: after that the timeout falls to a half in
// each LateHold in which nothing as late came.
const LateHold = 30 * time.Second

// Stagger is the delay between the elections that two members start after a hint. It is longer than an election takes
// on a local network, so that votes do not split.
const Stagger = 5 * time.Millisecond

// MaxProposal is the size of the largest proposal, in bytes. A larger one would delay the heartbeat behind it so long
// that followers might start an election.
const MaxProposal = 4 << 20

// HostConfig is what a Host needs to know: what all groups of a controller have in common.
type HostConfig struct {
	// ID of this controller, at most wire.MaxController. It is used only once in the life of the cluster: a controller
	// that lost its directory must return with a new id, because it has forgotten votes and entries that others rely
	// on. For the same reason a controller in memory (Dir == "") cannot restart.
	ID uint64

	// Cluster is the name of the cluster; controllers of different clusters refuse each other.
	Cluster string

	// Names are those of controllers, for the log. Of others it has the id.
	Names map[uint64]string

	// Several says that the cluster has several groups. Its controllers refuse those of a cluster of the same name with
	// one group, and the logs of these, and are refused: see Regroup.
	Several bool

	// Listener accepts connections of the other controllers. The Host closes it. It may be nil if every group has one
	// member.
	Listener net.Listener

	// Dial opens the connection to a controller. Admit says whether a peer that has connected to the Listener may act
	// as a given controller. nil: plain TCP, and every peer is trusted.
	Dial  func(ctx context.Context, controller uint64, address string) (net.Conn, error)
	Admit func(conn net.Conn, controller uint64) error

	// Dir keeps log and snapshots; "" keeps them in memory, for tests.
	Dir string

	// Storage keeps them in place of Dir, for simulations. The Host closes it.
	Storage storage.Storage

	// Founded says that Found was called for Dir. If Dir has no log, NewHost then fails with ErrNoLog, because a
	// controller that lost its directory must not vote; and Start does so if the log has nothing of the group. If
	// Founded is false, Start begins a new group in that case.
	Founded bool

	// Fsync makes acknowledged entries survive a power failure. Without it the log is still a file: it survives the
	// death of the process, but not that of the machine. Raft is then safe as long as at most a minority of the
	// machines fail at the same time, and a controller whose machine failed is replaced by one with a new id.
	Fsync bool

	// Heartbeat is the interval of heartbeats, and the length of a tick. Election is the election timeout, a multiple
	// of Heartbeat. A shorter one detects a leader that hangs sooner; the death of its process is detected without it.
	// On a busy machine the timeout grows up to MaxElection, and falls again when the machine is quiet.
	Heartbeat, Election time.Duration

	// Patience is for how long the owner of a leader may take no update. Then another member takes over the leadership,
	// if one can. It must be longer than the owner ever needs between two calls of Next. 0: unlimited.
	Patience time.Duration

	Logger *slog.Logger // nil: no log
}

// GroupConfig is what the replica of one group needs to know.
type GroupConfig struct {
	// Group is the number of the group. Group 0 contains all controllers: it is the only group of a cluster, or the
	// system group. Which controllers were removed from the cluster is decided by group 0.
	Group uint64

	// ID of the replica, see wire.ReplicaID. 0 stands for the first replica at this controller, whose id is that of the
	// controller.
	ID uint64

	// Members are the first replicas of the group, this one included, as id and address of the controller. A name may
	// precede the address ("c1@10.0.0.1:7001"). They must be the same at all of them. Once there is a log, the members
	// are those in the log, and the addresses given here override those in the log.
	Members map[uint64]string

	// Learners are those of the first replicas that receive the log and do not vote.
	Learners []uint64

	// State is the state of the owner with which the first replicas begin; nil: none. It must be the same at all of
	// them.
	State []byte

	// Join is set for a replica that ChangeMembers is to add to a running group. Without a log it waits until it is
	// added. Members are then the current ones, with or without this one.
	Join bool

	// New is set for the only member of a group that begins now, although its controller is Founded.
	New bool

	// Payload is called with each payload that the owner of another member sent with SendPayload, in the order in which
	// it was sent; from is the id of its controller. Payloads may be missing. It is called from several goroutines and
	// must not block, because the messages of all groups come behind. nil: payloads are dropped.
	Payload func(from uint64, payload []byte)
}

// owner identifies this controller in its log.
func (c HostConfig) owner() disk.Owner { return disk.Owner{Cluster: c.hello(), ID: c.ID} }

// hello is the name of the cluster, as controllers tell each other.
func (c HostConfig) hello() string {
	if c.Several {
		return c.Cluster + " (several groups)"
	}
	return c.Cluster
}

// boot is what a first replica saves before it starts.
func (c GroupConfig) boot() storage.Batch {
	b := Bootstrap(c.Group, c.Members, c.Learners...)
	b.Snapshot.State = c.State
	return b
}

// withDefaults fills in the fields that were left out.
func (c HostConfig) withDefaults() HostConfig {
	if c.Heartbeat == 0 {
		c.Heartbeat = DefaultHeartbeat
	}
	if c.Election == 0 {
		c.Election = max(DefaultElection, 5*c.Heartbeat)
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func (c HostConfig) validate() error {
	switch {
	case c.ID == 0 || c.ID > wire.MaxController:
		return fmt.Errorf("consensus: a controller cannot have the id %d; ids are from 1 to %d", c.ID,
			uint64(wire.MaxController))
	case len(c.hello()) > wire.MaxCluster:
		return fmt.Errorf("consensus: the cluster's name has %d bytes; at most %d are allowed", len(c.hello()),
			wire.MaxCluster)
	case c.Heartbeat < time.Millisecond:
		return fmt.Errorf("consensus: a heartbeat every %v would keep the processor busy; at least 1ms", c.Heartbeat)
	case c.Election < 2*c.Heartbeat:
		return fmt.Errorf("consensus: election timeout %v with heartbeat %v: one late heartbeat would depose the "+
			"leader; at least twice, better five times the heartbeat", c.Election, c.Heartbeat)
	case c.Election%c.Heartbeat != 0:
		return fmt.Errorf("consensus: election timeout %v is not a multiple of the heartbeat %v", c.Election,
			c.Heartbeat)
	case c.Fsync && c.Dir == "":
		return errors.New("consensus: fsync without a directory; name one, or keep the log in memory")
	}
	return nil
}

// validReplica says whether an id may be that of a replica.
func validReplica(id uint64) bool {
	controller := wire.ControllerOf(id)
	return controller > 0 && controller <= wire.MaxController
}

// at fills in the fields that were left out, for a replica at a controller.
func (c GroupConfig) at(controller uint64) GroupConfig {
	if c.ID == 0 {
		c.ID = controller
	}
	return c
}

func (c GroupConfig) validate(host HostConfig) error {
	if wire.ControllerOf(c.ID) != host.ID {
		return fmt.Errorf("consensus: replica %#x cannot be at controller %d", c.ID, host.ID)
	}
	if _, ok := c.Members[c.ID]; !ok && !c.Join {
		return fmt.Errorf("consensus: member %d is not among the members; add it, or set Join", c.ID)
	}
	if n := len(c.Members); n > 0 && len(c.Learners) >= n {
		return fmt.Errorf("consensus: all %d members of group %d are learners, and none could lead it", n, c.Group)
	}
	for id, addr := range c.Members {
		if !validReplica(id) {
			return fmt.Errorf("consensus: member id %d is reserved; ids start from 1", id)
		}
		if _, addr := SplitAddress(addr); addr == "" && id != c.ID {
			return fmt.Errorf("consensus: member %d has no address", id)
		}
	}
	if host.Listener == nil && (c.Join || len(c.Members) > 1) {
		return errors.New("consensus: a group of several members needs a listener")
	}
	return nil
}
