// Package load makes many fake switches that send packet-ins as fast as a controller, or
// an agent, answers them, or at a rate, and counts and times the answers. In OpenFlow 1.0 a fake switch
// behaves on the wire like one of cbench, the controller benchmark of the oflops project;
// in OpenFlow 1.3 it has the same packets and answers what a 1.3 controller asks. It is not
// a switch: it forwards nothing and remembers no flow. Package vswitch does.
//
// Every packet-in has a buffer id of its own and a source address from a rotation; all go
// to one destination, which the switch announces first, so that a learning switch knows it
// and answers with a flow-mod that names the buffer.
package load

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/address"
	"github.com/holdfast-sdn/holdfast/openflow"
)

// Mode says when packet-ins are sent.
type Mode uint8

// The modes.
const (
	Throughput Mode = iota // as many are outstanding as the window allows
	Latency                // one is outstanding for each switch
	Paced                  // at a rate, whether earlier ones are answered or not
)

// Bounds of a Config.
const (
	MaxSwitches = 4096
	MaxWindow   = 16384
	MaxMACs     = 1 << 24
	MaxRate     = 1_000_000
)

// Config describes a run. Zero fields take the defaults.
type Config struct {
	Mode     Mode
	Version  uint8 // openflow.Version10 or, by default, Version13
	Switches int   // default 16

	// FirstDatapathID is that of switch 0; the others count up from it. Default 1.
	FirstDatapathID openflow.DatapathID

	// MACsPerSwitch is how many source addresses a switch has. A learning switch writes
	// for each of them once. Default 100,000, as cbench.
	MACsPerSwitch int

	// Window is how many packet-ins of one switch may be unanswered in Throughput mode.
	// 0 is no bound but the connection's, as in cbench: then most of the time that an
	// answer takes is queueing, so latency is not measured, and an answer lost is not noticed.
	// In Paced mode the default is 1024. A packet-in that is due while the window is full is
	// sent later, and its latency counts from when it was due.
	Window int

	// Rate is how many packet-ins all switches together send in a second in Paced mode: one
	// switch after the other, at equal distances.
	Rate float64

	// AfterPorts delays the packet-ins of 1.3 until the controller has requested the ports: os-ken drops earlier ones.
	AfterPorts bool

	Duration time.Duration // of the measurement; default 1 s
	Warmup   time.Duration // before it
	// Drain is how long to wait, after the measurement and without sending, until
	// everything is answered.
	Drain time.Duration
	// ReadyTimeout is how long the handshakes may take. Default 10 s.
	ReadyTimeout time.Duration
	// LostAfter is when a packet-in counts as lost and frees its place in the window. This is checked only while
	// nothing else arrives, so it may take up to as much longer. Default 10 s.
	LostAfter time.Duration

	// Beside, if it is not nil, runs beside the measurement, and may ask how many answers there were. When ctx ends,
	// the measurement is over, and waits for it.
	Beside func(ctx context.Context, answered func() uint64) error

	// Dial connects switch i, 0 to Switches-1.
	Dial func(ctx context.Context, i int) (net.Conn, error)
}

// At returns a Dial that connects every switch to one address; see package address.
func At(to string) func(context.Context, int) (net.Conn, error) {
	network, at := address.Of(to)
	return func(ctx context.Context, _ int) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, at)
	}
}

func (c Config) withDefaults() Config {
	set := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	wait := func(v *time.Duration, d time.Duration) {
		if *v == 0 {
			*v = d
		}
	}
	set(&c.Switches, 16)
	set(&c.MACsPerSwitch, 100_000)
	wait(&c.Duration, time.Second)
	wait(&c.ReadyTimeout, 10*time.Second)
	wait(&c.LostAfter, 10*time.Second)
	if c.Version == 0 {
		c.Version = openflow.Version13
	}
	if c.FirstDatapathID == 0 {
		c.FirstDatapathID = 1
	}
	switch c.Mode {
	case Latency:
		c.Window = 1
	case Paced:
		set(&c.Window, 1024)
	}
	return c
}

func (c Config) validate() error {
	switch {
	case c.Dial == nil:
		return errors.New("load: Dial is missing: use load.At(address)")
	case c.Mode > Paced:
		return fmt.Errorf("load: unknown mode %d", c.Mode)
	case c.Version != openflow.Version10 && c.Version != openflow.Version13:
		return fmt.Errorf("load: OpenFlow version %d: only 1.0 (%d) and 1.3 (%d) are known", c.Version,
			openflow.Version10, openflow.Version13)
	case c.Switches < 1 || c.Switches > MaxSwitches:
		return fmt.Errorf("load: %d switches: choose 1 to %d", c.Switches, MaxSwitches)
	case c.MACsPerSwitch < 1 || c.MACsPerSwitch > MaxMACs:
		return fmt.Errorf("load: %d addresses for each switch: choose 1 to %d", c.MACsPerSwitch, MaxMACs)
	case c.Window < 0 || c.Window > MaxWindow:
		return fmt.Errorf("load: window of %d: choose 1 to %d, or 0 for none", c.Window, MaxWindow)
	case c.Mode == Paced && !(c.Rate >= 1 && c.Rate <= MaxRate): // not if it is NaN, either
		return fmt.Errorf("load: %v packet-ins a second: choose 1 to %d", c.Rate, MaxRate)
	case c.Duration < 0 || c.Warmup < 0 || c.Drain < 0 || c.ReadyTimeout < 0 || c.LostAfter < 0:
		return errors.New("load: a time is negative")
	}
	return nil
}

// Counts is what was sent and received.
type Counts struct {
	Sent     uint64 // packet-ins, without the announcement of the destination
	Answered uint64

	// Unexpected counts flow-mods and packet-outs that answer no outstanding packet-in: second answers, and the
	// controller's own. In 1.0 second answers are in Answered, as in cbench.
	Unexpected uint64
	Lost       uint64 // not answered within LostAfter

	FlowMods   uint64 // all that were received
	PacketOuts uint64
}

func (c Counts) minus(o Counts) Counts {
	return Counts{c.Sent - o.Sent, c.Answered - o.Answered, c.Unexpected - o.Unexpected, c.Lost - o.Lost,
		c.FlowMods - o.FlowMods, c.PacketOuts - o.PacketOuts}
}

func (c Counts) plus(o Counts) Counts {
	return Counts{c.Sent + o.Sent, c.Answered + o.Answered, c.Unexpected + o.Unexpected, c.Lost + o.Lost,
		c.FlowMods + o.FlowMods, c.PacketOuts + o.PacketOuts}
}

// Result is what a run measured.
type Result struct {
	Counts                  // within Elapsed
	Total     Counts        // from the first connection to the end of the drain
	Elapsed   time.Duration // of the measurement
	PerSecond float64       // answers
	Samples   []float64     // answers per second of each second of the measurement
	// Latency is the time from writing a packet-in to the connection until its answer was read. Empty without a window.
	// In Paced mode it counts from when the packet-in was due, so that one which is sent late, because those before it
	// were slow, does not look fast.
	Latency Histogram
	// Late is how long after they were due packet-ins were sent, in Paced mode.
	Late Histogram
	// Unanswered is how many packet-ins were outstanding at the very end; 0 without a window.
	Unanswered uint64
}

// Run connects the switches, waits for all handshakes, and measures. It returns when every connection is closed and
// every goroutine has ended. A failed connection, or ctx, ends the run early; the Result then has what was measured so
// far.
func Run(ctx context.Context, cfg Config) (Result, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return Result{}, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	f := newFleet(cfg)
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.run(ctx, cancel)
	}()
	r, err := f.measure(ctx)
	cancel(nil)
	<-done
	r.Total, r.Unanswered = f.counts(), f.outstanding()
	return r, err
}
