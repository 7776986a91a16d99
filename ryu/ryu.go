// Package ryu runs the process that hosts Ryu applications, as docs/design/ryu.md describes it: it starts the
// process, hands it inputs, hears its results, and ends it when it hangs, leaks or breaks the protocol. A Host is one
// life of one process. What the inputs are, what becomes of results, and when to start anew is for the package above.
package ryu

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/holdfast-sdn/holdfast/ryu/wire"
)

// Bounds.
const (
	// Outstanding is how many calls of Execute may be without all of their results.
	Outstanding = 2
	// DefaultMemoryBytes is what a host may have if its Config does not say.
	DefaultMemoryBytes = 1 << 30

	loadingTime = 2 * time.Minute  // a host that has not loaded its applications by then hangs
	lingerTime  = time.Second      // for the last words of a process that is about to end
	outputBytes = 64 << 10         // of what a process prints, the end is kept
	lineBytes   = 4 << 10          // a line that is longer is logged in parts
	keptBytes   = 1 << 20          // a larger buffer is not used again
	readBytes   = 64 << 10         // are asked of the socket at once
	defaultHang = 10 * time.Second // see Config
)

// Config is what a Host needs to know.
type Config struct {
	Python       string       // the executable; "" is python3
	Applications []string     // modules or files
	Options      []string     // as ryu-manager takes them
	Path         []string     // folders where modules are looked for, before those of PYTHONPATH
	Site         string       // what applications get as the name of the machine
	LogLevel     uint8        // Python's: 20 is INFO
	Logger       *slog.Logger // nil: silence

	MemoryBytes int64         // of the process, resident; beyond, it is ended. 0: DefaultMemoryBytes
	Hang        time.Duration // without a result while there are inputs: then it is ended. 0: 10 s

	loading time.Duration // tests have less than loadingTime
}

func (c Config) withDefaults() Config {
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
	return c
}

// Handler hears a Host, from one goroutine and in order. While it is busy, nothing is read, and no host is taken to
// hang. It must not call Stop.
type Handler interface {
	// Ready says that the applications are loaded. It comes first, and once.
	Ready(*Host, wire.Ready)
	// Results brings the next results. They are the handler's for good.
	Results(*Host, []wire.Result)
	// Checkpointed answers Checkpoint: state is what the inputs up to that number have led to, for wire.Hello; if it is
	// empty the applications' state cannot be kept, and reason says why.
	Checkpointed(h *Host, number uint64, state []byte, reason string)
	// Ended says that the process is gone. It comes last, and once.
	Ended(*Host, *EndError)
}

// Reason is why a Host has ended.
type Reason string

// The reasons.
const (
	Stopped  Reason = "stopped"  // by Stop
	Hung     Reason = "hung"     // no result came, or no READY
	Crashed  Reason = "crashed"  // the process ended by itself
	Leaked   Reason = "leaked"   // it had more memory than Config.MemoryBytes
	Protocol Reason = "protocol" // it sent what it must not send
	Fatal    Reason = "fatal"    // it said itself that it cannot go on, as when an application cannot be loaded
)

// EndError is how a Host has ended.
type EndError struct {
	Reason Reason
	// Input is the first one without a result, 0 if there is none. It is the culprit, or a later one that was in the
	// same call of Execute is: a host may keep results until it has executed them all.
	Input uint64
	// Checkpoint says that the host was to make a checkpoint next; then no input is to blame, and Input is 0.
	Checkpoint bool
	Detail     string // a traceback, the last lines that were printed, how the process ended
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
