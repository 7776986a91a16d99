package replay

import (
	"context"
	"log/slog"
	"time"

	"github.com/holdfast-sdn/holdfast/ryu/wire"
)

// Status is the state of the replayed applications at one controller, for operators.
type Status struct {
	// "running", "catching up", "starting", "cannot load", "ended", "not begun" or "other applications"
	State        string `json:"state"`
	Generation   uint64 `json:"generation"`
	Inputs       uint64 `json:"inputs"`        // committed
	Executed     uint64 `json:"executed"`      // by this controller's host
	Logged       uint64 `json:"logged"`        // results in the log
	HistoryBytes int    `json:"history_bytes"` // from which a host is rebuilt
	Checkpoint   uint64 `json:"checkpoint"`    // input after which the history begins
	NoCheckpoint string `json:"no_checkpoint"` // why the last attempt failed
	// input at which this host differed from the log even after a replay; 0: none
	Diverged uint64 `json:"diverged"`
	Restarts uint64 `json:"restarts"` // of hosts that ended by themselves, since the controller began
	LastEnd  string `json:"last_end"` // how the last of those did
	// why the applications cannot be loaded at this controller; "" if they can
	Failure     string    `json:"failure"`
	Attempts    uint64    `json:"attempts"`              // to load them, in a row, that failed
	NextAttempt time.Time `json:"next_attempt,omitzero"` // to load them; zero if they are loaded
	Detail      string    `json:"-"`                     // of Failure, in several lines
	Python      string    `json:"python"`
	OSKen       string    `json:"os_ken"`
	Identity    string    `json:"identity"` // of what is in the log
}

// Status returns the present state.
func (c *Core) Status() Status {
	s, h := c.status, c.replayed.Hosting()
	s.Generation, s.Identity, s.Executed = h.Generation, h.Identity, c.executed
	if u := &c.unloaded; u.why != "" {
		s.Failure, s.Attempts, s.NextAttempt, s.Detail = u.why, u.times, c.again, u.detail
	}
	done := c.replayed.Committed()
	s.Inputs, s.Logged = done.Input, done.Result
	s.HistoryBytes = c.replayed.HistoryBytes()
	s.Checkpoint, _ = c.replayed.Checkpoint()
	switch {
	case h.Generation == 0:
		s.State = "not begun"
	case c.replayed.MustBegin():
		s.State = "other applications"
	case !c.ready && s.Failure != "":
		s.State = "cannot load"
	case c.life == 0:
		s.State = "ended"
	case !c.ready:
		s.State = "starting"
	case s.Inputs > c.executed+lagPatience:
		s.State = "catching up"
	default:
		s.State = "running"
	}
	return s
}

// Behind reports whether this controller should defer its election, because its host is not up to date, or not trusted.
func (c *Core) Behind() bool {
	done := c.replayed.Committed()
	return done.Generation > 0 && (!c.ready || c.distrust || done.Input > c.executed+lagPatience)
}

// logLines logs what the applications have logged: at the leader as they did, elsewhere for those who look closely.
func (c *Core) logLines(lines []wire.Line) {
	for _, l := range lines {
		level := slog.LevelDebug
		switch {
		case !c.leading || l.Level < 20:
		case l.Level < 30:
			level = slog.LevelInfo
		case l.Level < 40:
			level = slog.LevelWarn
		default:
			level = slog.LevelError
		}
		c.log.Log(context.Background(), level, l.Text, "app", l.Logger)
	}
}
