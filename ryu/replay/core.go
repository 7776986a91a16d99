package replay

import (
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/holdfast-sdn/holdfast/ryu/wire"
)

// Runner runs hosts. Each start of a host is a life with a number from the Core. No method blocks, or calls back before
// it has returned.
type Runner interface {
	// Start begins a life. Core.Ready or Core.Ended follows.
	Start(life uint64, h Beginning)
	// Execute passes count inputs, encoded by wire.Input.Append. Core.Results or Core.Ended follows.
	Execute(life uint64, inputs []byte, count int)
	// Checkpoint requests the state after all inputs passed so far. Core.Checkpointed or Core.Ended follows.
	Checkpoint(life uint64)
	// Stop ends a life. No call about it follows.
	Stop(life uint64)
	// Files requests the first configuration files of a generation; Core.Files follows if there are any.
	Files()
	// HandOver transfers the leadership, if another controller accepts it.
	HandOver()
}

// Beginning is the state in which a life begins.
type Beginning struct {
	Seed   uint64
	Time   int64 // ns since 1970
	Number uint64
	State  []byte // after input Number; empty if that is 0
	Leaks  int    // how often its memory is doubled
}

// End describes how a life has ended by itself.
type End struct {
	Reason string // "not started", "hung", "crashed", "leaked", "protocol" or "fatal"
	Input  uint64 // the first without a result; 0 if there was none
	// Checkpoint: the host was asked for its state before that input, and did not return it.
	Checkpoint bool
	Detail     string // traceback, or the last output of the host; the first line of a fatal end says why
}

// String returns a description without Detail.
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
	frameInputs = 64 // in one Execute, whose results arrive together
	frameBytes  = 256 << 10
	framesOut   = 2    // so that the host is never idle
	lagPatience = 4096 // inputs that the host of a candidate may be behind; else it defers its election
	// Pauses before a host is started again. They double from backoffFirst to backoffMost, and to loadMost while the
	// applications cannot even be loaded: that takes a second of a processor each time, and seldom heals by itself.
	backoffFirst  = 100 * time.Millisecond
	backoffMost   = 10 * time.Second
	loadMost      = time.Minute
	progressEvery = 5 * time.Second
)

// bounds are bounds that tests lower.
type bounds struct {
	held    int // bytes of results that are not logged; at the bound the host gets no more inputs
	history int // bytes; beyond it the applications restart with an empty state
	// inputs since the last checkpoint, or the last that was refused; earlier if they fill the history
	checkpointEvery uint64
	proofInputs     uint64 // that the second host executes
}

var usual = bounds{held: 64 << 20, history: 256 << 20, checkpointEvery: 100_000, proofInputs: 1000}

// Core is one controller's side of the replayed application.
type Core struct {
	bounds    bounds
	replayed  *Log
	runner    Runner
	log       *slog.Logger
	leading   bool
	beginning bool   // this leader has begun the application, and that is not committed
	filed     uint64 // the generation for which this leader has requested the first configuration files

	lives    uint64    // numbers given
	life     uint64    // the present one; 0 if there is none
	of       Committed // what was committed when the present life began
	ready    bool
	rebuild  string        // why the host must be rebuilt; "" if it need not be
	given    uint64        // number of the last input passed to the host
	executed uint64        // number of the last result
	frames   []uint64      // number of the last input of each frame without results
	held     []wire.Result // results that are not logged yet
	holding  int           // bytes of held

	afresh   bool // see BeginAfresh
	lost     bool // the state of a host is gone, and the applications begin
	death    death
	unloaded unloaded
	leaks    int // how often the memory of the next lives is doubled
	failures int // lives that ended by themselves since one lasted
	again    time.Time
	current  time.Time // since when the present life has executed all inputs; zero if it has not
	progress time.Time

	unlike   uint64 // number of the first input whose result differed from the log; 0 if there is none
	distrust bool   // results differed in two lives: they are no longer compared
	requests requests
	stirred  bool // the host waits for an input, for what came from outside of the log
	proof    proof
	status   Status
}

// New makes the Core of a controller that hosts applications.
func New(l *Log, r Runner, log *slog.Logger) *Core {
	return &Core{bounds: usual, replayed: l, runner: r, log: log, requests: requests{executed: map[uint64]*request{}}}
}

// BeginAfresh makes the applications begin with an empty state when a host ends, where others are rebuilt by replay. It
// is for the only controller of applications that have sockets and start programs: a replay would do all that again.
func (c *Core) BeginAfresh() { c.afresh = true }

// Lead begins the leadership of this controller, perhaps in a later term. Its ledger was told before.
func (c *Core) Lead() {
	c.Follow()
	c.leading, c.filed = true, 0
}

// Follow ends the leadership.
func (c *Core) Follow() {
	c.leading, c.beginning, c.death.skipping = false, false, false
	c.requests.refuse(ErrLeaderChanged)
	c.requests.refuseWaiting()
}

// Stop ends the hosts. No method may be called after it.
func (c *Core) Stop() {
	c.Follow()
	c.end()
}

// Turn does the next steps. It is called after each call that may have changed something. If hold is set, the ledger
// gets no transactions.
func (c *Core) Turn(now time.Time, hold bool) error {
	done := c.replayed.Committed()
	c.noticeChanges(done)
	// not Room, which inputs that wait for a host may have used up
	if c.leading && !c.beginning && !hold && c.replayed.ResultRoom() {
		c.begin(now)
		c.leaveOut()
	}
	if c.life != 0 && c.rebuild != "" {
		c.log.Info("the host of applications is rebuilt", "why", c.rebuild)
		c.end()
	}
	if c.life == 0 && done.Generation > 0 && !c.beginning && !c.lost && !c.replayed.MustBegin() &&
		!now.Before(c.again) {
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
	if c.filed != done.Generation && !c.replayed.MustBegin() {
		c.filed = done.Generation
		c.runner.Files()
	}
	if err := c.logResults(); err != nil {
		return err
	}
	c.executeRequests()
	c.stir()
	return nil
}

// begin restarts the applications if the log has other ones, if their state is lost, or if their history has become too
// large.
func (c *Core) begin(now time.Time) {
	h := c.replayed.Hosting()
	switch {
	case c.replayed.MustBegin():
		c.log.Info("replayed applications begin: the log has none, or others", "logged", h.Identity)
	case c.lost:
		c.log.Warn("replayed applications begin with an empty state: what they did outside is not repeated")
	case c.replayed.HistoryBytes() > c.bounds.history:
		c.log.Warn("replayed applications begin with an empty state on all controllers: their history has become too "+
			"large, and no checkpoint of them was made in time",
			"bytes", c.replayed.HistoryBytes(), "why", c.status.NoCheckpoint)
	case c.death.times >= beginAfter && !c.avoidable(c.death.input):
		c.log.Error("replayed applications begin with an empty state on all controllers: no host survives an "+
			"input, and it cannot be skipped", "input", c.death.input)
	default:
		return
	}
	c.beginning = true
	c.replayed.Begin((uint64(now.UnixNano()) + h.Generation) * 0x9e3779b97f4a7c15) // spread over all bits
}

// noticeChanges checks whether committed entries require the host to be rebuilt.
func (c *Core) noticeChanges(done Committed) {
	base, _ := c.replayed.Checkpoint()
	switch {
	case done.Generation != c.of.Generation:
		c.requests.refuse(ErrBegun)
		if !c.lost { // else the pause after a death goes on
			c.again, c.failures = time.Time{}, 0
		}
		c.beginning, c.lost, c.death = false, false, death{}
		c.unlike, c.distrust, c.proof.refused = 0, false, attempt{}
		c.status.Diverged, c.status.NoCheckpoint = 0, ""
		c.rebuild = "the applications begin"
	case done.Skipped != c.of.Skipped:
		c.again, c.failures = time.Time{}, 0
		if c.death.skipping {
			c.requests.leftOut(c.death.input)
		}
		c.leaks -= c.death.leftOut()
		c.rebuild = "an input is skipped on all controllers"
	case c.given < base:
		c.rebuild = "the inputs that it lacks were replaced by a snapshot"
	}
	c.of = done
}

// start begins a life.
func (c *Core) start(done Committed) {
	h := c.replayed.Hosting()
	b := Beginning{Seed: h.Seed, Time: h.Began, Leaks: c.leaks}
	b.Number, b.State = c.replayed.Checkpoint()
	c.lives++
	c.life, c.of, c.ready, c.rebuild = c.lives, done, false, ""
	c.given, c.executed = b.Number, b.Number
	c.runner.Start(c.life, b)
}

// end ends the present life.
func (c *Core) end() {
	if c.life != 0 {
		c.runner.Stop(c.life)
	}
	c.forget()
}

func (c *Core) forget() {
	c.life, c.ready, c.frames, c.held, c.holding, c.rebuild = 0, false, nil, nil, 0, ""
	c.current, c.stirred = time.Time{}, false
	c.dropProof()
}

// feed passes inputs to the host, up to the bounds.
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
		c.lasts(now)
		c.progress = now
	case behind > lagPatience && now.Sub(c.progress) >= progressEvery:
		c.progress = now
		c.log.Info("the host of applications catches up", "executed", c.executed, "of", last)
	}
	return nil
}

// lasts ends the back-off when a life has been up to date for as long as the longest pause. A host that dies soon after
// each start is not started, and does not hand the leadership over, again and again.
func (c *Core) lasts(now time.Time) {
	if c.current.IsZero() {
		c.current = now
	}
	if now.Sub(c.current) >= backoffMost {
		c.failures = 0
	}
}

// logResults passes the results of the host to the ledger of the leader, unless they differ from the log.
func (c *Core) logResults() error {
	for c.rebuild == "" && len(c.held) > 0 && c.replayed.ResultRoom() {
		next := c.replayed.Hosting().Results + 1
		switch {
		// this input is being skipped
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

// settle drops results that are in the log.
func (c *Core) settle(logged uint64) {
	for len(c.held) > 0 && c.held[0].Number <= logged {
		c.compare(&c.held[0])
		c.requests.answer(&c.held[0])
		c.holding -= size(&c.held[0])
		c.held[0] = wire.Result{}
		c.held = c.held[1:]
	}
}

// Ready reports that a host has loaded its applications.
func (c *Core) Ready(life uint64, r wire.Ready) {
	switch {
	case life == 0:
	case life == c.life:
		c.ready, c.unloaded = true, unloaded{}
		c.status.Python, c.status.OSKen = r.Python, r.OSKen
		c.logLines(r.Lines)
	case life == c.proof.life:
		c.proof.ready = true
	}
}

// Stirred reports that something came to the applications of a host from outside of the log. If it is the leader's,
// they get a Timer; those of a follower get what the leader logs.
func (c *Core) Stirred(life uint64) {
	if life == c.life && life != 0 {
		c.stirred = true
	}
}

func (c *Core) stir() {
	if c.stirred && c.replayed.ledger.Room() {
		c.stirred = false
		c.replayed.Stir()
	}
}

// Results handles results of a host, in order.
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
			c.logLines(results[i].Lines) // lines from a replay were logged before
			results[i].Lines = nil
		}
		c.held = append(c.held, results[i])
		c.holding += size(&results[i])
	}
	for len(c.frames) > 0 && c.frames[0] <= c.executed {
		c.frames = slices.Delete(c.frames, 0, 1)
	}
}

// compare checks a result of this host against the log.
func (c *Core) compare(r *wire.Result) {
	if digest, ok := c.replayed.Digest(r.Number); !ok || digest == r.Digest || c.distrust {
		return
	}
	if c.unlike == 0 {
		c.unlike = r.Number
		c.rebuild = fmt.Sprintf("its result of input %d is not that of the log", r.Number)
		c.log.Error("a replayed application gave another result here than at the leader; it is rebuilt by replay",
			"input", r.Number, "here", describe(r))
		return
	}
	if c.rebuild == "" {
		c.distrust = true
		c.status.Diverged = r.Number
		c.log.Error("a replayed application is not deterministic: after a replay it differs again. After a failover "+
			"it may continue from another state. "+
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

// size returns the approximate memory of a result.
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
