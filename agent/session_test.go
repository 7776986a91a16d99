package agent

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/handshake"
	"github.com/holdfast-sdn/holdfast/internal/heartbeat"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
)

// plainLine is a Line that keeps what its session has said.
type plainLine struct {
	woken bool
	cause error
}

func (l *plainLine) Remote() string    { return "there" }
func (l *plainLine) Wake()             { l.woken = true }
func (l *plainLine) Close(cause error) { l.cause = cause }

// upSession returns a session of two controllers, with the switch up.
func upSession(t *testing.T, version uint8) (*Session, *Switch, *plainLine) {
	t.Helper()
	s := NewSession(8, 1<<16, 64, 2)
	l := &plainLine{}
	sw, err := s.Up(l, 100, shaken(version))
	if err != nil {
		t.Fatal(err)
	}
	return s, sw, l
}

func shaken(version uint8) *handshake.Handshake {
	return &handshake.Handshake{Version: version, Features: message(version, 6, 0, make([]byte, 24)...), Done: true}
}

func connect(t *testing.T, c *Controller) *plainLine {
	t.Helper()
	l := &plainLine{}
	if err := c.Up(l, nil); err != nil {
		t.Fatal(err)
	}
	if !l.woken {
		t.Fatal("a new connection is not woken to write its HELLO")
	}
	takes(t, c, helloBytes)
	c.Take(nil)
	l.woken = false
	return l
}

func takes(t *testing.T, c *Controller, msgs ...[]byte) {
	t.Helper()
	if _, err := c.Input(concat(msgs...)); err != nil {
		t.Fatal(err)
	}
}

func refuse(r experimenter.Reason, epoch uint64) error {
	return &Refused{experimenter.Refuse{Reason: r, Epoch: epoch}}
}

func TestDialOnlyWithAnEpoch(t *testing.T) {
	s := NewSession(8, 1<<16, 64, 1)
	c := s.Controllers()[0]
	if c.Dial() || c.Up(&plainLine{}, nil) == nil {
		t.Error("a controller is dialled before there is an epoch")
	}
	if _, err := s.Up(&plainLine{}, 100, shaken(4)); err != nil || !c.Dial() {
		t.Error("a controller is not dialled though the switch is up", err)
	}
}

// A controller that has no replica of the switch's group is not asked again for some time while another one serves the
// switch.
func TestElsewhere(t *testing.T) {
	s, _, _ := upSession(t, 4)
	c, other := s.Controllers()[0], s.Controllers()[1]
	connect(t, other)
	s.Tick()
	s.Tick()
	connect(t, c)
	if pause, over := c.End(refuse(experimenter.ReasonElsewhere, 0)); pause != BackoffFirst || over != nil ||
		!c.Elsewhere() || other.Elsewhere() {
		t.Errorf("pause %v, %v", pause, over)
	}
	if n := ticksUntilDialled(s, c); n != ElsewhereRest {
		t.Errorf("it is asked again after %d ticks", n)
	}
	connect(t, c)
	if pause, _ := c.End(io.EOF); pause != BackoffFirst || c.Elsewhere() || !c.Dial() {
		t.Errorf("pause %v after it has served the switch", pause)
	}
	connect(t, c)
	c.End(refuse(experimenter.ReasonElsewhere, 0))
	other.End(refuse(experimenter.ReasonElsewhere, 0))
	if !c.Dial() || other.Dial() {
		t.Error("a controller that has served the switch has given it up, and the other is not asked")
	}
}

func ticksUntilDialled(s *Session, c *Controller) (n int) {
	for ; !c.Dial() && n < 1000; n++ {
		s.Tick()
	}
	return n
}

// While no controller serves the switch, none is left alone for long: the group of the switch has moved, and the
// directory of the controller that has it may have been behind when that one was asked.
func TestElsewhereEverywhere(t *testing.T) {
	s, _, _ := upSession(t, 4)
	c, other := s.Controllers()[0], s.Controllers()[1]
	refused := func(c *Controller) {
		connect(t, c)
		c.End(refuse(experimenter.ReasonElsewhere, 0))
	}
	connect(t, other)
	s.Tick()
	s.Tick()
	refused(c)
	s.Tick()
	other.End(io.EOF) // a new connection, which has not lasted when it is refused
	refused(other)
	if c.Dial() {
		t.Error("a controller is asked again at once")
	}
	if n := ticksUntilDialled(s, c); n != 1 {
		t.Errorf("it is asked again after %d ticks", n)
	}
	for _, want := range []int{2, 4, 8, 16, ElsewhereRest, ElsewhereRest} {
		refused(c)
		if n := ticksUntilDialled(s, c); n != want {
			t.Errorf("it is asked again after %d ticks, want %d", n, want)
		}
	}
	connect(t, other)
	s.Tick()
	s.Tick()
	refused(c)
	s.Tick()
	other.End(io.EOF)
	if n := ticksUntilDialled(s, c); n != 1 {
		t.Errorf("after a controller has served the switch, the other one is asked again after %d ticks", n)
	}
}

func TestBackoff(t *testing.T) {
	s, _, _ := upSession(t, 4)
	c := s.Controllers()[0]
	fails := func(err error, want time.Duration) {
		t.Helper()
		if pause, over := c.End(err); pause != want || over != nil {
			t.Errorf("after %v the pause is %v, %v; want %v", err, pause, over, want)
		}
	}
	for want := BackoffFirst; want < BackoffMost; want *= 2 {
		fails(io.EOF, want)
	}
	fails(io.EOF, BackoffMost)
	fails(io.EOF, BackoffMost)

	connect(t, c) // one tick is not enough: the controller may refuse the agent after its HELLO
	s.Tick()
	if c.Lasts() {
		t.Error("a connection lasts at its first tick")
	}
	fails(io.EOF, BackoffMost)

	connect(t, c)
	s.Tick()
	s.Tick()
	if !c.Lasts() {
		t.Error("a connection that was ready for a whole tick does not last")
	}
	fails(io.EOF, BackoffFirst)
	if c.Lasts() {
		t.Error("an ended connection lasts")
	}
	fails(refuse(experimenter.ReasonDuplicateDatapath, 0), RefusedPause)
	fails(io.EOF, BackoffMost)
}

// A REFUSE for a stale epoch closes all connections if the epoch is the newest, and only its own otherwise.
func TestStaleEpochClosesAll(t *testing.T) {
	s, sw, l := upSession(t, 4)
	a, b := s.Controllers()[0], s.Controllers()[1]
	connect(t, a)
	other := connect(t, b)
	pause, over := a.End(refuse(experimenter.ReasonStaleEpoch, 500))
	if pause != BackoffFirst || over != errStale || other.cause != errStale || l.cause != errStale || a.Dial() {
		t.Errorf("pause %v, over %v, causes %v and %v", pause, over, other.cause, l.cause)
	}
	for _, c := range []channel{sw, b} {
		if _, err := c.Input(helloBytes); err != errStale || c.Full() || len(c.Take(nil)) > 0 {
			t.Errorf("%T is still open: %v", c, err)
		}
	}
	sw2, err := s.Up(&plainLine{}, 100, shaken(4)) // before the old connections have ended
	if err != nil || s.Epoch() != 501 {
		t.Fatal(err, s.Epoch())
	}
	sw.End(experimenter.ReasonConnectionLost)
	if pause, _ := b.End(errors.New("closed")); pause != BackoffFirst || !s.Status().Connected || s.sw != sw2 {
		t.Errorf("the end of an old connection is that of the new one: pause %v, %+v", pause, s.Status())
	}

	connect(t, b)
	connect(t, a)
	if pause, over := a.End(refuse(experimenter.ReasonStaleEpoch, 500)); pause != BackoffFirst || over != nil ||
		s.Status().Controllers != 1 || !s.Status().Connected {
		t.Errorf("a newer epoch has begun: pause %v, over %v, %+v", pause, over, s.Status())
	}
}

func TestAnotherVersionClosesControllers(t *testing.T) {
	s, sw, _ := upSession(t, 4)
	l := connect(t, s.Controllers()[0])
	sw.End(experimenter.ReasonConnectionLost)
	if _, err := s.Up(&plainLine{}, 200, shaken(1)); err != nil || l.cause != errVersion {
		t.Errorf("%v, cause %v", err, l.cause)
	}
}

func TestSecondSwitchIsRefused(t *testing.T) {
	s, sw, _ := upSession(t, 4)
	if _, err := s.Up(&plainLine{}, 200, shaken(4)); err == nil || !strings.Contains(err.Error(), "in use by there") {
		t.Error(err)
	}
	sw.End(experimenter.ReasonSilent)
	if _, err := s.Up(&plainLine{}, 200, shaken(4)); err != nil {
		t.Error(err)
	}
}

// A master is not read while its commands wait for the switch. Another controller is read.
func TestFlowControl(t *testing.T) {
	s, sw, l := upSession(t, 4)
	a, b := s.Controllers()[0], s.Controllers()[1]
	connect(t, a)
	connect(t, b)
	takes(t, a, roleRequest(1))
	if !a.Master() || s.Status().Master != "there" || a.Full() || sw.Full() {
		t.Fatalf("%+v", s.Status())
	}
	l.woken = false
	takes(t, a, commands(1, 100, 1, command(1), command(2), command(3), command(4)))
	if !l.woken || !a.Full() || !sw.Full() || b.Full() {
		t.Errorf("woken %t; full: master %t, switch %t, standby %t", l.woken, a.Full(), sw.Full(), b.Full())
	}
	if len(sw.Take(nil)) == 0 || a.Full() || sw.Full() {
		t.Error("what is written makes room")
	}
}

// What has no room in the event buffer is left, until a controller acknowledges events.
func TestInputLeavesARest(t *testing.T) {
	s, sw, _ := upSession(t, 4)
	a := s.Controllers()[0]
	l := connect(t, a)
	takes(t, a, roleRequest(1))
	a.Take(nil)
	l.woken = false
	var events []byte
	for tag := range uint64(10) {
		events = append(events, packetIn(tag, 8)...)
	}
	rest, err := sw.Input(events)
	if err != nil || len(rest) == 0 || len(rest) == len(events) || !l.woken {
		t.Fatalf("%d bytes of %d are left: %v; the master is woken: %t", len(rest), len(events), err, l.woken)
	}
	if again, _ := sw.Input(rest); len(again) != len(rest) {
		t.Error("there is room where there was none")
	}
	a.Take(nil)
	takes(t, a, eventAck(100, 7))
	if rest, err = sw.Input(rest); err != nil || len(rest) > 0 {
		t.Errorf("%d bytes are left: %v", len(rest), err)
	}
}

// heartbeats returns how many echo requests are to be written to a controller.
func heartbeats(t *testing.T, c *Controller) (n int) {
	t.Helper()
	for _, msg := range split(t, c.Take(nil)) {
		if msg[1] == openflow.TypeEchoRequest {
			n++
		}
	}
	return n
}

// silentFor turns the clock until the session closes a connection, and returns after how many ticks; 0 is never.
func silentFor(s *Session, l *plainLine, crowd func() int) int {
	for n := 1; n <= 20*heartbeat.Missed*heartbeat.Ticks; n++ {
		if s.Beat(crowd); l.cause != nil {
			return n
		}
	}
	return 0
}

// A master that is silent for three heartbeats is closed, and dialled again soon. A controller that is not master may
// be silent, and so may a master that is not read.
func TestSilentMaster(t *testing.T) {
	const limit = heartbeat.Missed * heartbeat.Ticks
	for _, c := range []struct {
		name     string
		commands [][]byte // that the switch does not read; several of them are too many
		claims   bool
		crowd    int
		want     int
	}{
		{"master", nil, true, 1, limit + 1}, // the first tick has heard the claim
		{"master, on a crowded machine", nil, true, 5, 5*limit + 1},
		{"standby", nil, false, 1, 0},
		{"master that is not read", [][]byte{command(1), command(2), command(3), command(4)}, true, 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, _, _ := upSession(t, 4)
			a, b := s.Controllers()[0], s.Controllers()[1]
			l, other := connect(t, a), connect(t, b)
			if c.claims {
				takes(t, a, roleRequest(1), commands(1, 100, 1, c.commands...))
			}
			if n := silentFor(s, l, func() int { return c.crowd }); n != c.want {
				t.Fatalf("closed after %d ticks, want %d", n, c.want)
			}
			if other.cause != nil {
				t.Error("the connection to the standby is closed")
			}
			if c.want == 0 {
				return
			}
			if pause, over := a.End(l.cause); l.cause != errSilent || pause != BackoffFirst || over != nil ||
				a.Master() {
				t.Errorf("closed because of %v, pause %v, over %v", l.cause, pause, over)
			}
			takes(t, b, roleRequest(2)) // through another controller
			if !b.Master() {
				t.Error("no other controller can be the master")
			}
			l = connect(t, a)
			takes(t, a, roleRequest(3))
			if n := silentFor(s, l, nil); n != 2*limit+1 {
				t.Errorf("the next time closed after %d ticks, want %d", n, 2*limit+1)
			}
		})
	}
}

// The master hears from the agent in each interval, and others do not.
func TestHeartbeatsToTheMaster(t *testing.T) {
	s, _, _ := upSession(t, 4)
	a, b := s.Controllers()[0], s.Controllers()[1]
	l, _ := connect(t, a), connect(t, b)
	takes(t, a, roleRequest(1))
	a.Take(nil)
	asked := 0
	for range 10 * heartbeat.Ticks {
		takes(t, a, eventAck(100, 1))
		l.woken = false
		s.Beat(nil)
		n := heartbeats(t, a)
		if asked += n; n > 0 && !l.woken {
			t.Error("the writer is not woken for a heartbeat")
		}
	}
	if asked < 5 || asked > 10 || heartbeats(t, b) > 0 {
		t.Errorf("in 10 intervals there were %d heartbeats", asked)
	}
	for range 10 * heartbeat.Ticks { // the master asks, and is answered
		takes(t, a, message(4, openflow.TypeEchoRequest, 9))
		a.Take(nil)
		if s.Beat(nil); heartbeats(t, a) > 0 {
			t.Fatal("both ends ask")
		}
	}
}
