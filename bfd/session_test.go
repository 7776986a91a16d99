package bfd

import (
	"errors"
	"testing"
	"time"
)

const ms = time.Millisecond

func newSession(t *testing.T, minTx, minRx time.Duration) *Session {
	t.Helper()
	s, err := New(0, Config{Discriminator: 7, MinTx: minTx, MinRx: minRx, Multiplier: 3,
		Jitter: func() float64 { return 0 }})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// peer returns a packet of the other end, which knows our discriminator.
func peer(state State, tx, rx time.Duration) Packet {
	return Packet{State: state, Multiplier: 3, MyDiscriminator: 9, YourDiscriminator: 7, DesiredMinTx: tx,
		RequiredMinRx: rx}
}

func receive(t *testing.T, s *Session, at time.Duration, p Packet) {
	t.Helper()
	if err := s.Receive(at, p); err != nil {
		t.Fatal(err)
	}
}

// one returns the only packet that is due.
func one(t *testing.T, s *Session, at time.Duration) Packet {
	t.Helper()
	p, ok := s.Tick(at)
	if !ok {
		t.Fatalf("nothing is sent at %v: %+v", at, s.Status())
	}
	none(t, s, at)
	return p
}

func none(t *testing.T, s *Session, at time.Duration) {
	t.Helper()
	if p, ok := s.Tick(at); ok {
		t.Fatalf("sent at %v: %+v", at, p)
	}
}

// up takes a session up at 1 s, with the peer's intervals, and ends the poll sequence that follows.
func up(t *testing.T, minTx, minRx, peerTx, peerRx time.Duration) *Session {
	t.Helper()
	s := newSession(t, minTx, minRx)
	one(t, s, 0)
	receive(t, s, time.Second, peer(Init, time.Second, peerRx))
	if p := one(t, s, time.Second); p.State != Up || !p.Poll {
		t.Fatalf("first packet when up: %+v", p)
	}
	final := peer(Up, peerTx, peerRx)
	final.Final = true
	receive(t, s, time.Second, final)
	none(t, s, time.Second)
	return s
}

// The state machine of 6.2, as specified in 6.8.6.
func TestStates(t *testing.T) {
	enter := map[State]func(s *Session){
		Down: func(s *Session) {},
		Init: func(s *Session) { s.Receive(0, peer(Down, ms, ms)) },
		Up:   func(s *Session) { s.Receive(0, peer(Init, ms, ms)) },
		AdminDown: func(s *Session) {
			s.SetAdminDown(0, true)
		},
	}
	for _, c := range []struct {
		state, says State
		want        State
		diag        Diag
	}{
		{Down, AdminDown, Down, DiagNone},
		{Down, Down, Init, DiagNone},
		{Down, Init, Up, DiagNone},
		{Down, Up, Down, DiagNone},
		{Init, AdminDown, Down, DiagNeighborDown},
		{Init, Down, Init, DiagNone},
		{Init, Init, Up, DiagNone},
		{Init, Up, Up, DiagNone},
		{Up, AdminDown, Down, DiagNeighborDown},
		{Up, Down, Down, DiagNeighborDown},
		{Up, Init, Up, DiagNone},
		{Up, Up, Up, DiagNone},
		{AdminDown, AdminDown, AdminDown, DiagAdminDown},
		{AdminDown, Down, AdminDown, DiagAdminDown},
		{AdminDown, Init, AdminDown, DiagAdminDown},
		{AdminDown, Up, AdminDown, DiagAdminDown},
	} {
		s := newSession(t, ms, ms)
		one(t, s, 0)
		enter[c.state](s)
		if s.state != c.state {
			t.Fatalf("in %v, not %v", s.state, c.state)
		}
		s.Tick(0)
		s.Receive(0, peer(c.says, ms, ms))
		if got := s.Status(); got.State != c.want || got.Diag != c.diag || got.RemoteState != c.says {
			t.Errorf("%v hears %v: %+v, not %v with %q", c.state, c.says, got, c.want, c.diag)
		}
		p, sent := s.Tick(0)
		if sent != (c.want != c.state) || sent && (p.State != c.want || p.Diag != c.diag) {
			t.Errorf("%v hears %v: sends %v %+v: news at once, and nothing else", c.state, c.says, sent, p)
		}
	}
}

func TestNewSession(t *testing.T) {
	s := newSession(t, 5*ms, 10*ms)
	want := Packet{State: Down, Multiplier: 3, MyDiscriminator: 7, DesiredMinTx: time.Second, RequiredMinRx: 10 * ms}
	if p := one(t, s, 0); p != want {
		t.Errorf("first packet %+v, not %+v", p, want)
	}
	if at, ok := s.Deadline(); !ok || at != time.Second {
		t.Errorf("next at %v, %v: a session that is down sends once a second", at, ok)
	}
	none(t, s, time.Second-1)
	one(t, s, time.Second)
	none(t, s, 0) // a clock that goes back has no effect
}

func TestBadConfig(t *testing.T) {
	jitter := func() float64 { return 0 }
	good := Config{Discriminator: 1, MinTx: ms, MinRx: ms, Multiplier: 3, Jitter: jitter}
	for what, change := range map[string]func(c *Config){
		"discriminator":  func(c *Config) { c.Discriminator = 0 },
		"multiplier":     func(c *Config) { c.Multiplier = 0 },
		"jitter":         func(c *Config) { c.Jitter = nil },
		"no transmit":    func(c *Config) { c.MinTx = 0 },
		"slow transmit":  func(c *Config) { c.MinTx = MaxInterval + 1 },
		"no receive":     func(c *Config) { c.MinRx = 0 },
		"minus, receive": func(c *Config) { c.MinRx = -ms },
	} {
		c := good
		change(&c)
		if _, err := New(0, c); err == nil {
			t.Errorf("%s: taken", what)
		}
	}
}

func TestOtherSession(t *testing.T) {
	s := newSession(t, ms, ms)
	p := peer(Init, ms, ms)
	p.YourDiscriminator = 8
	if err := s.Receive(0, p); !errors.Is(err, ErrInvalid) || s.Status().RemoteState != Down {
		t.Errorf("a packet for another session: error %v, %+v", err, s.Status())
	}
}

// 6.8.2 and 6.8.4: each direction uses the interval of its slower end, and the detection time depends on what the
// peer has sent.
func TestNegotiation(t *testing.T) {
	for _, c := range []struct{ tx, rx, peerTx, peerRx, interval, detection time.Duration }{
		{5 * ms, 5 * ms, 5 * ms, 5 * ms, 5 * ms, 15 * ms},
		{5 * ms, 5 * ms, 20 * ms, 10 * ms, 10 * ms, 60 * ms},
		{50 * ms, 30 * ms, 20 * ms, 10 * ms, 50 * ms, 90 * ms},
	} {
		s := up(t, c.tx, c.rx, c.peerTx, c.peerRx)
		if got := s.Status(); got.TxInterval != c.interval || got.DetectionTime != c.detection {
			t.Errorf("%+v: %+v", c, got)
		}
	}
}

func TestDetection(t *testing.T) {
	s := up(t, 5*ms, 5*ms, 5*ms, 5*ms)
	at := time.Second + 12*ms
	receive(t, s, at, peer(Up, 5*ms, 5*ms))
	for s.Status().State == Up {
		next, ok := s.Deadline()
		if !ok || next > at+15*ms {
			t.Fatalf("deadline %v, %v: nothing came since %v", next, ok, at)
		}
		if p, sent := s.Tick(next); sent && p.State == Up && next >= at+15*ms {
			t.Fatal("up after the detection time")
		}
	}
	if got := s.Status(); got.State != Down || got.Diag != DiagExpired || s.last != at+15*ms {
		t.Errorf("at %v: %+v", s.last, got)
	}
	// The peer's discriminator is discarded (6.8.1), and the interval is slow again (6.8.3), with a poll.
	s.changed = true
	if p := one(t, s, s.last); p.YourDiscriminator != 0 || p.DesiredMinTx != time.Second || !p.Poll || p.State != Down {
		t.Errorf("tells %+v", p)
	}
	if at, _ := s.Deadline(); at != s.last+time.Second {
		t.Errorf("next packet at %v, now is %v", at, s.last)
	}
}

// 6.5 and 6.8.7: a poll is answered at once, whatever the timer and the state, without the poll bit. The answer
// does not delay the next packet.
func TestAnswersPolls(t *testing.T) {
	s := up(t, 50*ms, 50*ms, 50*ms, 50*ms)
	before, _ := s.Deadline()
	p := peer(Up, 50*ms, 50*ms)
	p.Poll = true
	receive(t, s, time.Second+ms, p)
	if at, ok := s.Deadline(); !ok || at != s.last {
		t.Errorf("deadline %v, %v: the answer is due at %v", at, ok, s.last)
	}
	if f := one(t, s, time.Second+ms); !f.Final || f.Poll {
		t.Errorf("answered with %+v", f)
	}
	if after, _ := s.Deadline(); after != before {
		t.Errorf("the next packet moved from %v to %v", before, after)
	}
	s.SetAdminDown(s.last, true)
	one(t, s, s.last)
	receive(t, s, s.last, p)
	none(t, s, s.last)
}

// 6.8.3: while up, a longer interval and a shorter detection time take effect when the peer has answered. The
// opposite changes take effect at once.
func TestTimersWaitForFinal(t *testing.T) {
	final := peer(Up, ms, 5*ms)
	final.Final = true
	for _, c := range []struct {
		what                          string
		tx, rx                        time.Duration
		txPolling, rxPolling          time.Duration
		advertisedTx, advertisedMinRx time.Duration
	}{
		{"slower", 50 * ms, 80 * ms, 10 * ms, 80 * ms, 50 * ms, 80 * ms},
		{"faster", 5 * ms, 5 * ms, 5 * ms, 10 * ms, 5 * ms, 5 * ms},
	} {
		s := up(t, 10*ms, 10*ms, ms, 5*ms)
		receive(t, s, s.last, peer(Up, ms, 5*ms))
		if err := s.SetTimers(s.last, c.tx, c.rx); err != nil {
			t.Fatal(err)
		}
		none(t, s, s.last) // the poll is a periodic packet
		check := func(when string, tx, rx time.Duration) {
			t.Helper()
			if got := s.Status(); got.TxInterval != tx || got.DetectionTime != 3*rx {
				t.Errorf("%s, %s: %+v, not %v and %v", c.what, when, got, tx, 3*rx)
			}
		}
		check("before the poll", c.txPolling, c.rxPolling)
		receive(t, s, s.last, final)
		check("a final before the poll", c.txPolling, c.rxPolling)
		at, _ := s.Deadline()
		if p := one(t, s, at); !p.Poll || p.DesiredMinTx != c.advertisedTx || p.RequiredMinRx != c.advertisedMinRx {
			t.Errorf("%s: polls with %+v", c.what, p)
		}
		receive(t, s, s.last, peer(Up, ms, 5*ms))
		check("polling", c.txPolling, c.rxPolling)
		receive(t, s, s.last, final)
		check("answered", c.tx, c.rx)
		at, _ = s.Deadline()
		if p := one(t, s, at); p.Poll {
			t.Errorf("%s: polls again", c.what)
		}
	}
	if err := newSession(t, ms, ms).SetTimers(0, 0, ms); err == nil {
		t.Error("interval 0 is taken")
	}
}

// 6.8.3: two poll sequences must not overlap, because a final does not say which poll it answers.
func TestSecondPollWaits(t *testing.T) {
	s := up(t, 10*ms, 10*ms, ms, ms)
	final := peer(Up, 100*ms, ms)
	final.Final = true
	tell := func(what string, poll bool, tx time.Duration) {
		t.Helper()
		at, _ := s.Deadline()
		if p := one(t, s, at); p.Poll != poll || p.DesiredMinTx != tx {
			t.Errorf("%s: poll %v with %v, not %v with %v", what, p.Poll, p.DesiredMinTx, poll, tx)
		}
	}
	s.SetTimers(s.last, 20*ms, 20*ms)
	for range 3 { // 10 ms apart, because no packet answers
		tell("first sequence", true, 20*ms)
	}
	s.SetTimers(s.last, 40*ms, 40*ms)
	tell("first sequence", true, 20*ms)
	receive(t, s, s.last+ms, final) // 31 ms after the first poll, 1 ms after the last
	tell("a final may come", false, 20*ms)
	receive(t, s, s.last, final)
	tell("a final may still come", true, 40*ms)
	receive(t, s, s.last, final)
	tell("over", false, 40*ms)
}

// 6.8.3: when a peer accepts a shorter interval, it is used at once, counted from the last packet.
func TestFasterPeer(t *testing.T) {
	s := up(t, 5*ms, 5*ms, 5*ms, 500*ms)
	receive(t, s, time.Second+100*ms, peer(Up, 500*ms, 5*ms))
	if at, _ := s.Deadline(); at != time.Second+5*ms {
		t.Errorf("next packet at %v", at)
	}
	one(t, s, time.Second+100*ms)
	if at, _ := s.Deadline(); at != time.Second+105*ms {
		t.Errorf("next packet at %v", at)
	}
}

// 6.8.7: no periodic packets are sent to a peer that does not want any (interval 0, or demand mode). But polls are
// answered, and may be sent.
func TestSilence(t *testing.T) {
	s := up(t, 5*ms, 5*ms, 5*ms, 5*ms)
	receive(t, s, s.last, peer(Up, 5*ms, 0))
	if at, _ := s.Deadline(); at != s.last+15*ms {
		t.Errorf("deadline %v, not the detection time", at)
	}
	s = up(t, 5*ms, 5*ms, 5*ms, 5*ms)
	demand := peer(Up, 5*ms, 5*ms)
	demand.Demand = true
	receive(t, s, s.last, demand)
	if at, _ := s.Deadline(); at != s.last+15*ms {
		t.Errorf("demand: deadline %v, not the detection time", at)
	}
	s.SetTimers(s.last, 8*ms, 5*ms)
	if p := one(t, s, s.last+5*ms); !p.Poll {
		t.Errorf("demand: sends %+v", p)
	}
}

func TestAdminDown(t *testing.T) {
	s := up(t, 5*ms, 5*ms, 5*ms, 5*ms)
	s.SetAdminDown(s.last, true)
	if p := one(t, s, s.last); p.State != AdminDown || p.Diag != DiagAdminDown {
		t.Errorf("tells %+v", p)
	}
	none(t, s, s.last+time.Second-1) // past the detection time
	if got := s.Status(); got.State != AdminDown || got.Diag != DiagAdminDown {
		t.Errorf("later: %+v", got)
	}
	s.SetAdminDown(s.last, false)
	if p := one(t, s, s.last); p.State != Down || p.Diag != DiagNone {
		t.Errorf("enabled: tells %+v", p)
	}
	s.SetAdminDown(s.last, false)
	none(t, s, s.last)
}

// 6.8.7: up to a quarter less, and with multiplier 1 between 75 and 90 %.
func TestJitter(t *testing.T) {
	for _, c := range []struct {
		multiplier uint8
		draw       float64
		want       time.Duration
	}{{3, 0, 1000 * ms}, {3, 0.5, 875 * ms}, {3, 1, 750 * ms}, {1, 0, 900 * ms}, {1, 1, 750 * ms}, {3, 7, 750 * ms}} {
		s, err := New(0, Config{Discriminator: 1, MinTx: ms, MinRx: ms, Multiplier: c.multiplier,
			Jitter: func() float64 { return c.draw }})
		if err != nil {
			t.Fatal(err)
		}
		one(t, s, 0)
		if at, _ := s.Deadline(); at != c.want {
			t.Errorf("multiplier %d, %v drawn: next packet at %v, not %v", c.multiplier, c.draw, at, c.want)
		}
	}
}

// A late caller cannot know yet which side was silent. The delay is excused once.
func TestExcuse(t *testing.T) {
	s := up(t, 10*ms, 10*ms, 10*ms, 10*ms)
	const late = time.Second + 100*ms
	s.Excuse(late, 20*ms)
	for s.Status().State == Up {
		at, ok := s.Deadline()
		if !ok || at > late+20*ms {
			t.Fatalf("the next deadline is %v (%v): up for longer than it was excused", at, ok)
		}
		for packet, sent := s.Tick(max(at, late)); sent; packet, sent = s.Tick(max(at, late)) {
			if at < late+20*ms && packet.State != Up {
				t.Fatalf("down at %v, although it was excused until %v", at, late+20*ms)
			}
		}
	}
	s = up(t, 10*ms, 10*ms, 10*ms, 10*ms)
	s.Excuse(time.Second+ms, 10*ms) // it is excused for longer than that
	if s.Tick(time.Second + 29*ms); s.Status().State != Up {
		t.Error("an excuse made the detection time shorter")
	}
	if s.Tick(time.Second + 30*ms); s.Status().State != Down {
		t.Error("an excuse made the detection time longer than was asked for")
	}
}
