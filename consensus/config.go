package consensus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/holdfast-sdn/holdfast/consensus/wire"
	"go.etcd.io/raft/v3"
)

// Defaults of Config. They gave no needless election on two busy cores.
const (
	DefaultHeartbeat = 10 * time.Millisecond
	DefaultElection  = 50 * time.Millisecond
)

// stagger is the distance between members that stand for election after a hint: more than
// an election on one network takes, so that votes do not split.
const stagger = 5 * time.Millisecond

// MaxProposal is the size of the largest proposal, in bytes. What is larger delays the
// heartbeat behind it for so long that followers may give the leader up.
const MaxProposal = 4 << 20

// Config is what a Node needs to know.
type Config struct {
	// ID of this member, unique in the group for all time: a member that lost its directory
	// must come back under a new one, since it has forgotten votes and entries that others
	// count on. For the same reason a member in memory (Dir == "") cannot restart.
	ID uint64

	// Cluster names the group; members of different clusters refuse each other.
	Cluster string

	// Members are the first members of the group, this one included, as id and address, before which
	// a name may stand ("c1@10.0.0.1:7001"): the same at all of them. Once there is a log the
	// members are those in the log, and only the addresses count here; they override those in the log.
	Members map[uint64]string

	// Join is set for a member that is to be added to a running group by ChangeMembers.
	// It waits for that, if it has no log yet; Members are then the present ones, with or without this one.
	Join bool

	// Founded says that Found was called for Dir. Without a log there Start refuses with ErrNoLog: a member
	// that lost its directory must not vote. If it is not set, an empty Dir begins a new group.
	Founded bool

	// Listener accepts the other members. The Node closes it. nil is allowed for a group of
	// one.
	Listener net.Listener

	// Dial opens the connection to a member, and Admit says whether who has connected to the
	// Listener may speak as one. nil: plain TCP, and whoever can connect is trusted.
	Dial  func(ctx context.Context, member uint64, address string) (net.Conn, error)
	Admit func(conn net.Conn, member uint64) error

	// Dir keeps log and snapshots; "" keeps them in memory, for tests.
	Dir string

	// Fsync makes what is acknowledged survive a power failure. Without it, the log is a
	// file all the same, and survives the death of the process, but not that of the machine:
	// Raft is then safe as long as at most a minority of the machines fail at once, and a
	// machine that failed is removed and added again under a new id.
	Fsync bool

	// Heartbeat is how often a leader says that it lives, and the length of a tick.
	// Election is how long a silent leader is believed; a multiple of Heartbeat. Shorter is faster when a
	// machine hangs (the death of a process is noticed without it) and elects needlessly when the
	// machine is busy: then clients wait for a few milliseconds, and nothing is lost.
	Heartbeat, Election time.Duration

	Logger *slog.Logger // nil: no log
}

// withDefaults fills what was left out.
func (c Config) withDefaults() Config {
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

func (c Config) validate() error {
	switch {
	case c.ID == 0 || raft.IsLocalMsgTarget(c.ID):
		return fmt.Errorf("consensus: id %d is reserved; ids start from 1", c.ID)
	case len(c.Cluster) > wire.MaxCluster:
		return fmt.Errorf("consensus: the cluster's name has %d bytes; at most %d are allowed", len(c.Cluster),
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
	if _, ok := c.Members[c.ID]; !ok && !c.Join {
		return fmt.Errorf("consensus: member %d is not among the members; add it, or set Join", c.ID)
	}
	for id, addr := range c.Members {
		if id == 0 || raft.IsLocalMsgTarget(id) {
			return fmt.Errorf("consensus: member id %d is reserved; ids start from 1", id)
		}
		if _, addr := SplitAddress(addr); addr == "" && id != c.ID {
			return fmt.Errorf("consensus: member %d has no address", id)
		}
	}
	if c.Listener == nil && (c.Join || len(c.Members) > 1) {
		return errors.New("consensus: a group of several members needs a listener")
	}
	return nil
}
