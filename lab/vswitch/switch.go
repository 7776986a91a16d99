package vswitch

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// MaxFrame is the longest frame that the switch accepts, in bytes.
const MaxFrame = 65000

// maxSteps bounds the actions, copies and tables that one packet may cost.
const maxSteps = 1 << 14

// Config describes a Switch. The zero value of a field is its default.
type Config struct {
	DatapathID openflow.DatapathID
	Desc       of13.Desc       // what DESC answers
	Ports      []of13.PortDesc // up, unless State has link-down
	Tables     int             // number of flow tables, at most 255; default 64
	MaxFlows   int             // entries of one table; default 1,000,000
	MaxGroups  int             // default 4,096
	MaxMeters  int             // default 4,096

	// Buffers is how many packets are buffered for the controllers, default 256; -1 is none, and every packet-in then
	// has the whole packet. BufferLife is for how long; default 5 s.
	Buffers    int
	BufferLife time.Duration

	// QueueLimit is how many bytes may be pending for a controller before packet-ins to it are dropped; default 1 MiB.
	// Other messages are queued up to 64 times as much; a controller that exceeds even that is disconnected, since
	// messages would be missing.
	QueueLimit int

	// NoBundles: the switch does not know bundles.
	NoBundles bool
	// FewBundled: its bundles take FLOW_MOD and PORT_MOD only, as those of Open vSwitch 2.5 and 2.6.
	FewBundled bool

	// Observe, if set, is called with every executed command that changes the switch or sends a packet, in order:
	// FLOW_MOD, GROUP_MOD, METER_MOD, PORT_MOD, PACKET_OUT. Those of a bundle are passed when it is committed. msg is
	// valid during the call, which must not use the Switch.
	Observe func(conn ConnID, msg []byte)
}

func (c *Config) setDefaults() {
	set := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	set(&c.Tables, 64)
	set(&c.MaxFlows, 1000000)
	set(&c.MaxGroups, 4096)
	set(&c.MaxMeters, 4096)
	set(&c.Buffers, 256)
	set(&c.QueueLimit, 1<<20)
	c.Tables = min(max(c.Tables, 1), int(of13.TableMax)+1)
	c.Buffers = max(c.Buffers, 0)
	if c.BufferLife == 0 {
		c.BufferLife = 5 * time.Second
	}
	if c.Desc == (of13.Desc{}) {
		c.Desc = of13.Desc{Manufacturer: "Holdfast", Hardware: "none", Software: "vswitch", Serial: "none",
			Datapath: fmt.Sprintf("vswitch %v", c.DatapathID)}
	}
}

// Frame is a frame to transmit. Several may share the same Data: do not write to it.
type Frame struct {
	Port of13.Port
	Data []byte
}

// Counters count what happened to a switch since New.
type Counters struct {
	PacketIns        uint64 // packet-ins queued, one for each controller that got one
	PacketInsDropped uint64 // packet-ins that found a controller's queue full
	Steps            uint64 // packets whose processing was cut short by its bound
}

// Switch is an OpenFlow 1.3 switch. It is not safe for concurrent use. Times are durations since an origin that the
// caller chooses, and must not go back. Inputs are copied if they are kept.
type Switch struct {
	config struct {
		Config
		flags       uint16 // SET_CONFIG
		missSendLen uint16
	}
	now      time.Duration
	ports    map[of13.Port]*port
	inOrder  []*port
	tables   []*table
	timeouts timeouts
	serial   uint64
	groups   map[uint32]*group
	meters   map[uint32]*meter
	buffers  buffers

	conns         []*conn
	generation    uint64
	hasGeneration bool

	frames   []Frame
	slab     []byte // the bytes of frames
	taken    bool   // frames were returned, and may be dropped at the next input
	free     []*packet
	budget   int // steps left for the current packet
	tracing  bool
	counters Counters

	// While a bundle is rehearsed nothing is sent, and undo restores the switch.
	rehearsing bool
	undo       []func()
}

// New makes a switch. It panics if ports have invalid or equal numbers.
func New(c Config) *Switch {
	c.setDefaults()
	s := &Switch{
		ports: map[of13.Port]*port{}, groups: map[uint32]*group{}, meters: map[uint32]*meter{},
		buffers: newBuffers(c.Buffers, c.BufferLife),
	}
	s.config.Config = c
	s.config.missSendLen = 128
	for i := range c.Tables {
		s.tables = append(s.tables, newTable(uint8(i)))
	}
	for _, p := range c.Ports {
		if err := s.AddPort(0, p); err != nil {
			panic(err)
		}
	}
	return s
}

// DatapathID is the datapath id of the switch.
func (s *Switch) DatapathID() openflow.DatapathID { return s.config.DatapathID }

// Counters returns the counters.
func (s *Switch) Counters() Counters { return s.counters }

// Frames returns the frames to transmit since the last call, in order. They are valid until
// the next input.
func (s *Switch) Frames() []Frame {
	if s.taken {
		return nil
	}
	s.taken = true
	return s.frames
}

// begin starts an input.
func (s *Switch) begin(now time.Duration) {
	s.now = max(s.now, now)
	s.budget = maxSteps
	if s.taken {
		s.frames, s.slab, s.taken = s.frames[:0], s.slab[:0], false
	}
}

// Frame processes a frame that arrived at a port. Frames that are too short or too long to be
// Ethernet, or arrive at a port that does not receive, are counted and dropped.
func (s *Switch) Frame(now time.Duration, no of13.Port, frame []byte) {
	s.begin(now)
	in := s.ports[no]
	if in == nil {
		return
	}
	if len(frame) < ethLen || len(frame) > MaxFrame {
		in.stats.RxErrors++
		in.stats.RxFrameErrors++
		return
	}
	if in.session != nil && in.Up() && s.frameBFD(in, frame) {
		return
	}
	if !in.receives() {
		in.stats.RxDropped++
		return
	}
	in.stats.RxPackets++
	in.stats.RxBytes += uint64(len(frame))
	p := s.newPacket()
	p.reset(no, frame)
	if s.config.flags&of13.FragDrop == 0 || !isFragment(p) {
		s.pipeline(p)
	}
	s.freePacket(p)
	s.endPacket()
}

// Trace returns what leaves the switch of a frame that arrives at a port, as Frame and Frames do. No flow entry counts
// the frame, and no controller hears of it.
func (s *Switch) Trace(now time.Duration, no of13.Port, frame []byte) []Frame {
	s.tracing = true
	defer func() { s.tracing = false }()
	s.Frame(now, no, frame)
	return s.Frames()
}

// isFragment reports whether p is a fragment of an IP packet.
func isFragment(p *packet) bool {
	switch l3 := p.layers.l3; {
	case l3 == 0:
		return false
	case p.layers.ether == typeIPv4:
		return p.data[l3+6]&0x3f|p.data[l3+7] != 0
	case p.layers.ether == typeIPv6:
		return p.key.uint16(of13.FieldIPv6ExtHdr)&extFrag != 0
	}
	return false
}

// endPacket records whether the processing of a packet reached its bound.
func (s *Switch) endPacket() {
	if s.budget < 0 {
		s.counters.Steps++
	}
	s.budget = maxSteps
}

// Tick removes the flow entries and bundles that have expired, and serves BFD sessions: see Deadline.
func (s *Switch) Tick(now time.Duration) {
	s.begin(now)
	s.expireFlows(s.now)
	for _, c := range s.conns {
		c.expireBundles(s.now)
	}
	for _, p := range s.inOrder {
		if p.session != nil {
			s.tickBFD(p)
		}
	}
}

// pipeline sends p through the tables, from the first, and executes its action set (section 5.1).
func (s *Switch) pipeline(p *packet) {
	for next := 0; next >= 0; {
		if s.budget--; s.budget < 0 {
			return
		}
		p.refresh()
		t := s.tables[next]
		t.lookups++
		f := t.lookup(&p.key)
		if f == nil {
			return // no table-miss entry: dropped (section 5.4)
		}
		t.matched++
		if !s.tracing {
			f.count(s.now, len(p.data))
		}
		p.table, p.cookie, p.miss = t.id, f.cookie, f.isMiss()
		g := f.program
		if m := s.meters[g.meter]; g.meter != 0 && m != nil && !m.pass(s.now, p) {
			return
		}
		if !s.executeAll(p, g.apply, 0) {
			return
		}
		if g.clear {
			p.set.clear()
		}
		p.set.merge(g.write)
		if g.metaMask != 0 {
			p.key.put64(of13.FieldMetadata, p.key.uint64(of13.FieldMetadata)&^g.metaMask|g.metadata)
		}
		next = g.next
	}
	s.executeSet(p, 0)
}

func (f *flow) count(now time.Duration, size int) {
	f.used = now
	if f.flags&of13.FlowNoPktCounts == 0 {
		f.packets++
	}
	if f.flags&of13.FlowNoBytCounts == 0 {
		f.bytes += uint64(size)
	}
}

// packetIn sends p to every controller that wants it (section 6.1.2).
func (s *Switch) packetIn(p *packet, reason uint8, maxLen uint16) {
	if in := s.ports[p.inPort]; s.tracing || in != nil && in.Config&of13.PortConfigNoPacketIn != 0 {
		return
	}
	if !slices.ContainsFunc(s.conns, func(c *conn) bool { return c.wantsPacketIn(reason) }) {
		return
	}
	m := of13.PacketIn{
		BufferID: of13.NoBuffer, TotalLen: uint16(min(len(p.data), 0xffff)), Reason: reason,
		TableID: p.table, Cookie: p.cookie, Data: p.data[:min(len(p.data), MaxFrame)],
	}
	if maxLen != of13.MaxLenNoBuffer {
		if m.BufferID = s.buffers.keep(s.now, p.inPort, p.data); m.BufferID != of13.NoBuffer {
			m.Data = m.Data[:min(len(m.Data), int(maxLen))]
		}
	}
	var room [64]byte
	m.Match = of13.Match(room[:0]).WithInPort(p.inPort)
	if v := p.key.uint64(of13.FieldMetadata); v != 0 {
		m.Match = m.Match.WithUint(of13.FieldMetadata, v)
	}
	if v := p.key.uint64(of13.FieldTunnelID); v != 0 {
		m.Match = m.Match.WithUint(of13.FieldTunnelID, v)
	}
	for _, c := range s.conns {
		if !c.wantsPacketIn(reason) {
			continue
		}
		if c.pending() >= s.config.QueueLimit {
			s.counters.PacketInsDropped++
			continue
		}
		c.out = m.Append(c.out, 0)
		s.counters.PacketIns++
	}
}

func (s *Switch) newPacket() *packet {
	if n := len(s.free); n > 0 {
		p := s.free[n-1]
		s.free = s.free[:n-1]
		return p
	}
	return new(packet)
}

func (s *Switch) freePacket(p *packet) { s.free = append(s.free, p) }

// sortedBy returns the values of m ordered by one of their numbers.
func sortedBy[K comparable, V any, N cmp.Ordered](m map[K]V, number func(V) N) []V {
	return slices.SortedFunc(maps.Values(m), func(a, b V) int { return cmp.Compare(number(a), number(b)) })
}

// refuse is the error that answers a message.
func refuse(errType, code uint16) *of13.Error { return &of13.Error{ErrType: errType, Code: code} }
