// Package ryu runs the process that hosts Ryu applications, as docs/design/ryu.md describes: it starts the process,
// sends it inputs, receives its results, and ends it when it hangs, leaks or breaks the protocol. A Host is one life of
// one process. Package ryu/replay decides what the inputs are, what is done with results, and when a host is restarted.
package ryu

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/holdfast-sdn/holdfast/ryu/wire"
)

// Bounds.
const (
	// Outstanding bounds the calls of Execute that do not have all of their results.
	Outstanding = 2
	// DefaultMemoryBytes is the memory limit of a host if its Config has none.
	DefaultMemoryBytes = 1 << 30

	loadingTime = 2 * time.Minute  // limit for loading the applications
	lingerTime  = time.Second      // for the last output of a process that is about to end
	outputBytes = 64 << 10         // kept of the output of a process, from its end
	lineBytes   = 4 << 10          // a longer line is logged in parts
	keptBytes   = 1 << 20          // a larger buffer is not reused
	readBytes   = 64 << 10         // read from the socket at once
	defaultHang = 10 * time.Second // see Config
)

// Config configures a Host.
type Config struct {
	Python       string       // the executable; "" is python3
	Applications []string     // modules or files
	Options      []string     // those of ryu-manager
	User         string       // who runs the applications, if this process is root's. "": the user of this process
	Files        []string     // whole paths of files whose contents come from the log: see package replay
	Path         []string     // folders to search for modules, before those of PYTHONPATH
	Cluster      string       // name of the cluster: the host name that applications see
	LogLevel     uint8        // Python's: 20 is INFO
	Alone        bool         // nothing is replayed elsewhere: sockets and programs of applications work
	Logger       *slog.Logger // nil: no log

	MemoryBytes int64         // limit of its resident memory. 0: DefaultMemoryBytes
	Hang        time.Duration // limit without a result while there are inputs. 0: 10 s

	loading time.Duration // shorter in tests than loadingTime
	plain   bool          // in tests: no process namespace, as where the system does not allow one
	account *account      // of User
}

// complete returns the configuration with its defaults.
func (c Config) complete() (Config, error) {
	if c.Python == "" {
		c.Python = "python3"
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.MemoryBytes == 0 {
		c.MemoryBytes = DefaultMemoryBytes
	}
	if c.Hang == 0 {
		c.Hang = defaultHang
	}
	if c.loading == 0 {
		c.loading = loadingTime
	}
	var err error
	c.account, err = findAccount(c.User)
	return c, err
}

// Handler receives the messages of a Host, from one goroutine and in order. While it runs, nothing is read, and no host
// is assumed to hang. It must not call Stop.
type Handler interface {
	// Ready reports that the applications are loaded. It is called first, and once.
	Ready(*Host, wire.Ready)
	// Results delivers the next results. The handler owns them.
	Results(*Host, []wire.Result)
	// Checkpointed answers Checkpoint. state is the state after the inputs up to that number, for wire.Hello. If it is
	// empty, the state of the applications cannot be saved, and reason says why.
	Checkpointed(h *Host, number uint64, state []byte, reason string)
	// Stirred reports that something came to the applications from outside of the log: they wait for an input to go on,
	// which may be a timer's. It is not called again before the next input.
	Stirred(*Host)
	// Ended reports that the process has ended. It is called last, and once.
	Ended(*Host, *EndError)
}

// Reason is why a Host has ended.
type Reason string

// The reasons.
const (
	Stopped  Reason = "stopped"  // by Stop
	Hung     Reason = "hung"     // no result came, or no READY
	Crashed  Reason = "crashed"  // the process ended by itself
	Leaked   Reason = "leaked"   // it used more memory than Config.MemoryBytes
	Protocol Reason = "protocol" // it broke the protocol
	Fatal    Reason = "fatal"    // it reported an error, for example an application that cannot be loaded
)

// EndError describes how a Host has ended.
type EndError struct {
	Reason Reason
	// Input is the first input without a result, 0 if there is none. The cause is this input, or a later one of the
	// same call of Execute, because a host may send the results of a call together.
	Input uint64
	// Checkpoint says that the host was making a checkpoint. Then no input is the cause, and Input is 0.
	Checkpoint bool
	Detail     string // a traceback, the last lines of output, or the exit status
}

func (e *EndError) Error() string {
	at := ""
	switch {
	case e.Checkpoint:
		at = " at a checkpoint"
	case e.Input != 0:
		at = fmt.Sprintf(" at input %d", e.Input)
	}
	return fmt.Sprintf("ryu: %s%s: %s", e.Reason, at, e.Detail)
}
