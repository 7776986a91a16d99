// Package config reads the configuration file that all controllers and agents of a cluster share: the controllers, the
// applications, and the timeouts. For every mistake it reports the line and the remedy. It does not know which
// applications exist (the caller passes their names), and opens no sockets or folders.
package config

import (
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/heartbeat"
	"github.com/holdfast-sdn/holdfast/internal/watchdog"
)

// Durability says where the log lives before an input is acknowledged.
type Durability string

// The two kinds of durability.
const (
	Disk Durability = "disk" // synced to the data folder: survives a power cut of the whole cluster
	// written there and not synced: survives the death of processes, not of a majority of the machines
	Memory Durability = "memory"
)

// Cluster is a checked configuration, with the defaults filled in.
type Cluster struct {
	Name        string       // controllers of clusters with different names refuse each other
	Controllers []Controller // in the order of the file; an odd number
	Apps        []string     // names of applications, in the order in which they see an event; RyuApp for those of Ryu
	Ryu         Ryu
	Recovery    Recovery
	BFD         BFD
	// Levels are consistency levels by application and message, as text: its caller knows which there are.
	Levels        map[string]map[string]string
	PerController bool // each controller has a group of its own, which it leads if it can; else there is one group
	Replication   int  // replicas of each home group; 0: one on each controller. See Replicas
	Durability    Durability
	Data          string        // folder; each controller uses the sub-folder of its name
	Heartbeat     time.Duration // between two heartbeats of a leader
	Election      time.Duration // without a heartbeat until a follower stands for election
	SwitchTimeout time.Duration // without a connection until a switch counts as gone
	SwitchExpiry  time.Duration // down until a switch is forgotten; 0: never
	// HandlerTimeout is the time in which a handler of an application has to return; else its actor is suspended.
	HandlerTimeout time.Duration
	// AgentHeartbeat is the time between heartbeats of an agent and the master of its switch.
	AgentHeartbeat time.Duration
	Placement      Placement
	TLS            *TLS   // nil: plain TCP
	Insecure       bool   // without TLS, addresses that other machines reach are wanted
	Deny           string // file of certificates that are refused before they expire; "": none is
	// Admit has the certificates of switches and agents that do not say which datapath ids they may use.
	Admit []Admitted
	// RefuseUnlisted refuses those that neither say it nor are listed. Else they may use any.
	RefuseUnlisted bool
	FirstUse       bool     // the first that speaks for a switch is remembered, and others are refused
	Tokens         string   // file of the tokens of people and programs without a certificate; "": there are none
	Tracing        *Tracing // nil: no event is followed
	// StoreAccess says what clients of the store may do; nil: everything.
	StoreAccess []StoreGrant
}

// TLS are the files with which the processes of a cluster prove who they are, and know each other.
// The same path may hold another certificate on each machine.
type TLS struct {
	CA   string // authorities
	Cert string // of the process, with namePlace for its name
	Key  string // of Cert, the same
}

// namePlace stands for the name of a process in the paths of its certificate and key.
const namePlace = "{name}"

// Of returns the files of the process called name.
func (t TLS) Of(name string) TLS {
	return TLS{t.CA, strings.ReplaceAll(t.Cert, namePlace, name), strings.ReplaceAll(t.Key, namePlace, name)}
}

// Controller is one controller of a cluster. Its addresses are both what it listens on and
// what the others dial.
type Controller struct {
	Name string
	// Raft's name for it: never 0, at most MaxID, and the same wherever the controller stands in the file
	ID       uint64
	Peer     string // host:port, for the other controllers
	OpenFlow string // host:port, for agents and switches
	API      string // host:port, for the command line
	REST     string // host:port, for the applications over HTTP; "": none
}

// MaxID is the largest controller id: the ids of its replicas contain it in 48 bits (wire.MaxController of the
// consensus). JSON readers keep such integers exact.
const MaxID = 1<<48 - 3

// MaxFile is the largest file that is read, in bytes.
const MaxFile = 1 << 20

// DefaultSwitchTimeout is that of a cluster file that names none.
const DefaultSwitchTimeout = 3 * time.Second

func defaults() Cluster {
	return Cluster{
		Name:           "holdfast",
		Apps:           []string{"learning"},
		Ryu:            Ryu{Python: "python3", MemoryBytes: 1 << 30, LogLevel: pythonLevels["info"]},
		Recovery:       defaultRecovery(),
		BFD:            defaultBFD(),
		Durability:     Disk,
		Data:           "/var/lib/holdfast",
		Heartbeat:      10 * time.Millisecond,
		Election:       50 * time.Millisecond,
		SwitchTimeout:  DefaultSwitchTimeout,
		HandlerTimeout: watchdog.DefaultBudget,

		AgentHeartbeat: heartbeat.DefaultInterval,
		Placement:      defaultPlacement(),
	}
}

// Load reads and checks the file at path. apps are the names of the known applications.
// A mistake in the file is an *Error.
func Load(path string, apps []string) (*Cluster, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, &Error{File: path, Problem: "cannot open: " + cause(err),
			Remedy: "name an existing file that you may read"}
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, MaxFile+1))
	if err != nil {
		return nil, &Error{File: path, Problem: "cannot read: " + cause(err), Remedy: "name a file that you may read"}
	}
	return Parse(path, text, apps)
}

// Parse checks text, which errors call file. apps are the names of the known applications.
func Parse(file string, text []byte, apps []string) (*Cluster, error) {
	p := parser{file: file, apps: apps, cluster: defaults()}
	if err := p.parse(text); err != nil {
		return nil, err
	}
	return &p.cluster, nil
}

// Controller returns the controller of that name.
func (s *Cluster) Controller(name string) (Controller, bool) {
	for _, c := range s.Controllers {
		if c.Name == name {
			return c, true
		}
	}
	return Controller{}, false
}

// Named is Controller with an error that names those that there are.
func (s *Cluster) Named(name string) (Controller, error) {
	c, ok := s.Controller(name)
	if !ok {
		return c, fmt.Errorf("no controller is called %q in the cluster file; there are %v", name, s.Names())
	}
	return c, nil
}

// Names returns the names of the controllers, in the order of the file.
func (s *Cluster) Names() []string {
	var names []string
	for _, c := range s.Controllers {
		names = append(names, c.Name)
	}
	return names
}

// DataDir returns the folder of controller c.
func (s *Cluster) DataDir(c Controller) string { return filepath.Join(s.Data, c.Name) }

// DefaultID derives an id from the name, so that a reordered file means the same cluster.
// The upper 48 bits of the hash are enough to keep a handful of names apart.
func DefaultID(name string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(name)) // a hash never fails
	return min(max(h.Sum64()>>16, 1), MaxID)
}

// Error is a mistake in a configuration file.
type Error struct {
	File    string
	Line    int // counted from 1; 0 if the mistake is not in one line
	Problem string
	Remedy  string
}

// Error returns one line: place, problem, remedy.
func (e *Error) Error() string {
	place := e.File
	if e.Line > 0 {
		place = fmt.Sprintf("%s:%d", e.File, e.Line)
	}
	return fmt.Sprintf("%s: %s; %s", place, e.Problem, e.Remedy)
}
