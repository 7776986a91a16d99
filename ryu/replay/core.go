package replay

import (
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/holdfast-sdn/holdfast/ryu/wire"
)

// Runner runs hosts, each a life of its own that the Core numbers. None of its methods waits, nor calls back before it
// has returned.
type Runner interface {
	// Start begins a life: Ready follows, or Ended.
	Start(life uint64, h Beginning)
	// Execute hands over count inputs, as wire.Input.Append makes them; Results follow, or Ended.
	Execute(life uint64, inputs []byte, count int)
	// Checkpoint asks for the state after all inputs handed over: Checkpointed follows, or Ended.
	Checkpoint(life uint64)
	// Stop ends a life, of which nothing more is heard.
	Stop(life uint64)
	// HandOver gives the leadership away, if another controller takes it.
	HandOver()
}

// Beginning is from where a life goes on.
type Beginning struct {
	Seed   uint64
	Time   int64 // ns since 1970
	Number uint64
	State  []byte // after input Number; empty if that is 0
}

// End says why a life has ended by itself.
type End struct {
	Reason string // "not started", "hung", "crashed", "leaked", "protocol" or "fatal"
	Input  uint64 // the first without a result; 0 if there was none
	// Checkpoint says that it was asked for its state before that input, and did not tell it.
	Checkpoint bool
	Detail     string // traceback, or the last that the host has printed
}

// String says it without Detail.
func (e End) String() string {
	switch {
	case e.Checkpoint:
		return e.Reason + " at a checkpoint"
	case e.Input > 0:
		return fmt.Sprintf("%s at input %d", e.Reason, e.Input)
	}
	return e.Reason
}

// Bounds.
const (
	frameInputs   = 64 // of one Execute: what is done is known when all of them are
	frameBytes    = 256 << 10
	framesOut     = 2    // so that the host is never idle
	lagPatience   = 4096 // inputs that a host may be behind, and its controller still lead
	backoffFirst  = 100 * time.Millisecond
	backoffMost   = 10 * time.Second
	progressEvery = 5 * time.Second
)

// bounds are those that tests lower.
type bounds struct {
	held    int // bytes of results that are not logged: beyond, the host gets no more inputs
	history int // bytes: beyond, the applications begin anew
	// inputs since the last checkpoint, or the last that was refused; earlier if they fill the history
	checkpointEvery uint64
	proofInputs     uint64 // that the second host executes
}

var usual = bounds{held: 64 << 20, history: 256 << 20, checkpointEvery: 100_000, proofInputs: 1000}

// Core is one controller's side of the hosted application.
type Core struct {
	bounds    bounds
	replayed  *Log
	runner    Runner
	log       *slog.Logger
	leading   bool
	beginning bool // this leader has begun the application, and that is not committed

	lives    uint64    // numbers given
	life     uint64    // that runs; 0 is none
	of       Committed // what was committed when it began
	ready    bool
	rebuild  string        // why it is to be built anew; "" if it is not
	given    uint64        // number of the last input handed over
	executed uint64        // number of the last result
	frames   []uint64      // number of the last input of each that is handed over, and not executed
	held     []wire.Result // of what is executed, and not yet logged
	holding  int           // bytes of held

	death    death
	failures int // lives that ended by themselves, since one executed all that there was
	again    time.Time
	progress time.Time

	unlike   uint64 // number of the first input whose result was not that of the log; 0 is none
	distrust bool   // it was so in two lives: it is not compared any more
	requests requests
	proof    proof
	status   Status
}

// New makes the Core of a controller that hosts applications.
func New(l *Log, r Runner, log *slog.Logger) *Core {
	return &Core{bounds: usual, replayed: l, runner: r, log: log, requests: requests{executed: map[uint64]*request{}}}
}

// Lead says that this controller leads, perhaps in another term than before, after its ledger was told.
func (c *Core) Lead() {
	c.Follow()
	c.leading = true
}

// Follow says that it does not.
func (c *Core) Follow() {
	c.leading, c.beginning, c.death.skipping = false, false, false
	c.requests.refuse(ErrLeaderChanged)
	c.requests.refuseWaiting()
}

// Stop ends everything; nothing may be called after it.
func (c *Core) Stop() {
	c.Follow()
	c.end()
}

// Turn does what there is to do. It is called after all else that may have changed something. If hold is set, the
// ledger gets nothing to execute.
func (c *Core) Turn(now time.Time, hold bool) error {
	done := c.replayed.Committed()
	c.noticeChanges(done)
	// not Room: inputs that wait for a host may have taken that
	if c.leading && !c.beginning && !hold && c.replayed.ResultRoom() {
		c.begin(now)
		c.leaveOut()
	}
	if c.life != 0 && c.rebuild != "" {
		c.log.Info("the host of applications is built anew", "why", c.rebuild)
		c.end()
	}
	if c.life == 0 && done.Generation > 0 && !c.beginning && !c.replayed.MustBegin() && !now.Before(c.again) {
		c.start(done)
	}
	c.settle(done.Result)
	if c.ready && c.rebuild == "" {
		if err := c.feed(now, done.Input); err != nil {
			return err
		}
	}
	if err := c.prove(done); err != nil {
		return err
	}
	if hold || !c.leading || c.beginning {
		return nil
	}
	if err := c.logResults(); err != nil {
		return err
	}
	c.executeRequests()
	return nil
}

// begin has the application begin, if the log has another one or its history has become too large.
func (c *Core) begin(now time.Time) {
	h := c.replayed.Hosting()
	switch {
	case c.replayed.MustBegin():
		c.log.Info("hosted applications begin: the log has none, or others", "logged", h.Identity)
	case c.replayed.HistoryBytes() > c.bounds.history:
		c.log.Warn("hosted applications begin anew on all controllers: their history has become too large, and no "+
			"checkpoint of them was made in time",
			"bytes", c.replayed.HistoryBytes(), "why", c.status.NoCheckpoint)
	case c.death.times >= beginAfter && !c.avoidable(c.death.input):
		c.log.Error("hosted applications begin anew on all controllers: no host survives an input, and it cannot "+
			"be left out", "input", c.death.input)
	default:
		return
	}
	c.beginning = true
	c.replayed.Begin((uint64(now.UnixNano()) + h.Generation) * 0x9e3779b97f4a7c15) // spread over all bits
}

// noticeChanges looks whether what is committed takes another host than the one that runs.
func (c *Core) noticeChanges(done Committed) {
	base, _ := c.replayed.Checkpoint()
	switch {
	case done.Generation != c.of.Generation:
		c.requests.refuse(ErrBegun)
		c.beginning, c.again, c.death = false, time.Time{}, death{}
		c.unlike, c.distrust, c.failures, c.proof.refused = 0, false, 0, attempt{}
		c.status.Diverged, c.status.NoCheckpoint = 0, ""
		c.rebuild = "the applications begin"
	case done.Skipped != c.of.Skipped:
		c.again, c.failures = time.Time{}, 0
		if c.death.skipping {
			c.requests.leftOut(c.death.input)
		}
		c.death.leftOut()
		c.rebuild = "an input is left out on all controllers"
	case c.given < base:
		c.rebuild = "what it lacks came as a snapshot"
	}
	c.of = done
}

// start begins a life.
func (c *Core) start(done Committed) {
	h := c.replayed.Hosting()
	b := Beginning{Seed: h.Seed, Time: h.Began}
	b.Number, b.State = c.replayed.Checkpoint()
	c.lives++
	c.life, c.of, c.ready, c.rebuild = c.lives, done, false, ""
	c.given, c.executed = b.Number, b.Number
	c.runner.Start(c.life, b)
}

// end ends the life that runs.
func (c *Core) end() {
	if c.life != 0 {
		c.runner.Stop(c.life)
	}
	c.forget()
}

func (c *Core) forget() {
	c.life, c.ready, c.frames, c.held, c.holding, c.rebuild = 0, false, nil, nil, 0, ""
	c.dropProof()
}

// feed keeps the host busy.
func (c *Core) feed(now time.Time, last uint64) error {
	for len(c.frames) < framesOut && c.holding < c.bounds.held {
		inputs, n, err := c.replayed.Inputs(c.given+1, c.frameSize(), frameBytes)
		if err != nil {
			return err
		}
		if n == 0 {
			break
		}
		c.given += uint64(n)
		c.frames = append(c.frames, c.given)
		c.runner.Execute(c.life, inputs, n)
	}
	c.death.survived(c.executed, last)
	switch behind := last - c.executed; {
	case behind <= frameInputs && c.death.times == 0:
		c.failures, c.progress = 0, now
	case behind > lagPatience && now.Sub(c.progress) >= progressEvery:
		c.progress = now
		c.log.Info("the host of applications catches up", "executed", c.executed, "of", last)
	}
	return nil
}

// logResults hands the leader's ledger what its host did, unless it is one that differs.
func (c *Core) logResults() error {
	for c.rebuild == "" && len(c.held) > 0 && c.replayed.ResultRoom() {
		next := c.replayed.Hosting().Results + 1
		switch {
		// hosts are to do something else for that one
		case next > c.executed || c.death.skipping && next >= c.death.input:
			return nil
		case next < c.held[0].Number:
			return fmt.Errorf("the result of input %d is gone, which is not logged; the host has executed %d", next,
				c.executed)
		}
		if err := c.replayed.Result(&c.held[next-c.held[0].Number]); err != nil {
			return err
		}
	}
	return nil
}

// settle lets go of results that are in the log.
func (c *Core) settle(logged uint64) {
	for len(c.held) > 0 && c.held[0].Number <= logged {
		c.compare(&c.held[0])
		c.requests.answer(&c.held[0])
		c.holding -= size(&c.held[0])
		c.held[0] = wire.Result{}
		c.held = c.held[1:]
	}
}

// Ready says that a host has loaded its applications.
func (c *Core) Ready(life uint64, r wire.Ready) {
	switch {
	case life == 0:
	case life == c.life:
		c.ready = true
		c.status.Python, c.status.OSKen = r.Python, r.OSKen
		c.logLines(r.Lines)
	case life == c.proof.life:
		c.proof.ready = true
	}
}

// Results takes what a host did, in order.
func (c *Core) Results(life uint64, results []wire.Result) {
	if life == c.proof.life && life != 0 {
		c.proven(results)
	}
	if life != c.life || life == 0 {
		return
	}
	for i := range results {
		c.executed = results[i].Number
		if _, logged := c.replayed.Digest(c.executed); !logged {
			c.logLines(results[i].Lines) // a replay says nothing new
			results[i].Lines = nil
		}
		c.held = append(c.held, results[i])
		c.holding += size(&results[i])
	}
	for len(c.frames) > 0 && c.frames[0] <= c.executed {
		c.frames = slices.Delete(c.frames, 0, 1)
	}
}

// compare looks whether this host did what the log says.
func (c *Core) compare(r *wire.Result) {
	if digest, ok := c.replayed.Digest(r.Number); !ok || digest == r.Digest || c.distrust {
		return
	}
	if c.unlike == 0 {
		c.unlike = r.Number
		c.rebuild = fmt.Sprintf("what it did for input %d is not what is in the log", r.Number)
		c.log.Error("a hosted application did something else here than at the leader; it is built anew by replay",
			"input", r.Number, "here", describe(r))
		return
	}
	if c.rebuild == "" {
		c.distrust = true
		c.status.Diverged = r.Number
		c.log.Error("a hosted application is not deterministic: after a replay it differs again. After a failover "+
			"it may go on from another state. "+
			"See what it reads besides its messages: files, sockets, threads of its own, the environment; and "+
			"whether its code has changed since this controller began", "input", r.Number, "before", c.unlike, "here",
			describe(r))
	}
}

// describe names the commands of a result by switch and type.
func describe(r *wire.Result) string {
	s := fmt.Sprintf("%d commands, %d answers, %d failures", len(r.Commands), len(r.Answers), len(r.Failures))
	for i, m := range r.Commands[:min(len(r.Commands), 4)] {
		if len(m.Message) > 1 {
			s += fmt.Sprintf("; %d: type %d to %s, %d bytes", i+1, m.Message[1], m.Switch, len(m.Message))
		}
	}
	return s
}

// size is the memory that a result takes, more or less.
func size(r *wire.Result) int {
	n := 0
	for i := range r.Commands {
		n += len(r.Commands[i].Message)
	}
	for i := range r.Answers {
		n += len(r.Answers[i].Body)
	}
	for i := range r.Failures {
		n += len(r.Failures[i].Traceback)
	}
	for i := range r.Lines {
		n += len(r.Lines[i].Text)
	}
	return n
}
