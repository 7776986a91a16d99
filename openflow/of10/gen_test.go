package of10

import (
	"github.com/holdfast-sdn/holdfast/openflow"
	"pgregory.net/rapid"
)

// Generators of arbitrary valid messages, for the property tests and the oracles.

func genBytes(t *rapid.T, label string, most int) []byte {
	return rapid.SliceOfN(rapid.Byte(), 0, most).Draw(t, label)
}

func array[A any](t *rapid.T, label string, n int, from func([]byte) A) A {
	return from(rapid.SliceOfN(rapid.Byte(), n, n).Draw(t, label))
}

func mac(b []byte) [6]byte     { return [6]byte(b) }
func name16(b []byte) [16]byte { return [16]byte(b) }

func u8(t *rapid.T, l string) uint8   { return rapid.Uint8().Draw(t, l) }
func u16(t *rapid.T, l string) uint16 { return rapid.Uint16().Draw(t, l) }
func u32(t *rapid.T, l string) uint32 { return rapid.Uint32().Draw(t, l) }
func u64(t *rapid.T, l string) uint64 { return rapid.Uint64().Draw(t, l) }

func genMatch(t *rapid.T) Match {
	return Match{
		Wildcards: Wildcards(u32(t, "wildcards")), InPort: Port(u16(t, "in_port")),
		DLSrc: array(t, "dl_src", 6, mac), DLDst: array(t, "dl_dst", 6, mac),
		DLVLAN: u16(t, "dl_vlan"), DLVLANPCP: u8(t, "dl_vlan_pcp"), DLType: u16(t, "dl_type"),
		NWTOS: u8(t, "nw_tos"), NWProto: u8(t, "nw_proto"), NWSrc: u32(t, "nw_src"), NWDst: u32(t, "nw_dst"),
		TPSrc: u16(t, "tp_src"), TPDst: u16(t, "tp_dst"),
	}
}

func genActions(t *rapid.T) Actions {
	var a Actions = []byte{}
	for range rapid.IntRange(0, 6).Draw(t, "actions") {
		switch ActionType(rapid.IntRange(0, 12).Draw(t, "action")) {
		case ActionOutput:
			a = a.Output(Port(u16(t, "port")), u16(t, "max_len"))
		case ActionSetVLANVID:
			a = a.SetVLANVID(u16(t, "vid"))
		case ActionSetVLANPCP:
			a = a.SetVLANPCP(u8(t, "pcp"))
		case ActionStripVLAN:
			a = a.StripVLAN()
		case ActionSetDLSrc:
			a = a.SetDLSrc(array(t, "src", 6, mac))
		case ActionSetDLDst:
			a = a.SetDLDst(array(t, "dst", 6, mac))
		case ActionSetNWSrc:
			a = a.SetNWSrc(u32(t, "src"))
		case ActionSetNWDst:
			a = a.SetNWDst(u32(t, "dst"))
		case ActionSetNWTOS:
			a = a.SetNWTOS(u8(t, "tos"))
		case ActionSetTPSrc:
			a = a.SetTPSrc(u16(t, "src"))
		case ActionSetTPDst:
			a = a.SetTPDst(u16(t, "dst"))
		case ActionEnqueue:
			a = a.Enqueue(Port(u16(t, "port")), u32(t, "queue"))
		default:
			a = a.Vendor(u32(t, "vendor"), genBytes(t, "data", 20))
		}
	}
	return a
}

func genPort(t *rapid.T) PortDesc {
	return PortDesc{Port: Port(u16(t, "port")), HWAddr: array(t, "hw", 6, mac), Name: array(t, "name", 16, name16),
		Config: u32(t, "config"), State: u32(t, "state"), Current: u32(t, "curr"),
		Advertised: u32(t, "adv"), Supported: u32(t, "supp"), Peer: u32(t, "peer")}
}

func genStatsRequest(t *rapid.T) *StatsRequest {
	m := &StatsRequest{StatsType: StatsType(rapid.IntRange(0, 5).Draw(t, "stats")), Flags: u16(t, "flags"),
		Body: []byte{}}
	switch m.StatsType {
	case StatsFlow, StatsAggregate:
		r := FlowStatsRequest{genMatch(t), u8(t, "table"), Port(u16(t, "out_port"))}
		m.Body = r.Append(m.Body)
	case StatsPort:
		m.Body = PortStatsRequest{Port(u16(t, "port"))}.Append(m.Body)
	case StatsQueue:
		m.Body = QueueStatsRequest{Port(u16(t, "port")), u32(t, "queue")}.Append(m.Body)
	}
	return m
}

func genStatsReply(t *rapid.T) *StatsReply {
	m := &StatsReply{StatsType: StatsType(rapid.IntRange(0, 5).Draw(t, "stats")), Flags: u16(t, "flags") & 1,
		Body: []byte{}}
	entries := rapid.IntRange(0, 3).Draw(t, "entries")
	switch m.StatsType {
	case StatsDesc:
		d := Desc{Serial: [32]byte{'1'}}
		copy(d.Manufacturer[:], "maker")
		m.Body = d.Append(m.Body)
	case StatsAggregate:
		m.Body = Aggregate{u64(t, "packets"), u64(t, "bytes"), u32(t, "flows")}.Append(m.Body)
	case StatsFlow:
		for range entries {
			f := genFlowStats(t)
			m.Body = f.Append(m.Body)
		}
	case StatsTable:
		for range entries {
			e := TableStats{TableID: u8(t, "id"), Name: [32]byte{'t'}, Wildcards: Wildcards(u32(t, "wild")),
				MaxEntries: u32(t, "max"),
				Active:     u32(t, "active"), Lookup: u64(t, "lookup"), Matched: u64(t, "matched")}
			m.Body = e.Append(m.Body)
		}
	case StatsPort:
		for range entries {
			e := PortStats{Port: Port(u16(t, "port"))}
			for _, c := range e.counters() {
				*c = u64(t, "counter")
			}
			m.Body = e.Append(m.Body)
		}
	case StatsQueue:
		for range entries {
			e := QueueStats{Port(u16(t, "port")), u32(t, "queue"), u64(t, "bytes"), u64(t, "packets"), u64(t, "errors")}
			m.Body = e.Append(m.Body)
		}
	}
	return m
}

func genFlowStats(t *rapid.T) FlowStats {
	return FlowStats{TableID: u8(t, "table"), Match: genMatch(t), DurationSec: u32(t, "sec"),
		DurationNsec: u32(t, "nsec"),
		Priority:     u16(t, "prio"), IdleTimeout: u16(t, "idle"), HardTimeout: u16(t, "hard"),
		Cookie: u64(t, "cookie"), Packets: u64(t, "packets"), Bytes: u64(t, "bytes"), Actions: genActions(t)}
}

func genMessage(t *rapid.T, typ uint8) Message {
	switch typ {
	case TypeHello:
		return &Hello{genBytes(t, "data", 16)}
	case TypeError:
		return &Error{u16(t, "type"), u16(t, "code"), genBytes(t, "data", 64)}
	case TypeEchoRequest:
		return &EchoRequest{genBytes(t, "data", 64)}
	case TypeEchoReply:
		return &EchoReply{genBytes(t, "data", 64)}
	case TypeVendor:
		return &Vendor{u32(t, "id"), genBytes(t, "data", 64)}
	case TypeFeaturesReply:
		m := &FeaturesReply{DatapathID: openflow.DatapathID(u64(t, "dpid")), NBuffers: u32(t, "buffers"),
			NTables:      u8(t, "tables"),
			Capabilities: u32(t, "capabilities"), Actions: u32(t, "actions"), Ports: []byte{}}
		for range rapid.IntRange(0, 4).Draw(t, "ports") {
			m.Ports = m.Ports.With(genPort(t))
		}
		return m
	case TypeGetConfigReply:
		return &GetConfigReply{u16(t, "flags"), u16(t, "len")}
	case TypeSetConfig:
		return &SetConfig{u16(t, "flags"), u16(t, "len")}
	case TypePacketIn:
		return &PacketIn{u32(t, "buffer"), u16(t, "total"), Port(u16(t, "port")), u8(t, "reason"),
			genBytes(t, "data", 64)}
	case TypeFlowRemoved:
		return &FlowRemoved{Match: genMatch(t), Cookie: u64(t, "cookie"), Priority: u16(t, "prio"),
			Reason:      u8(t, "reason"),
			DurationSec: u32(t, "sec"), DurationNsec: u32(t, "nsec"), IdleTimeout: u16(t, "idle"),
			Packets: u64(t, "packets"), Bytes: u64(t, "bytes")}
	case TypePortStatus:
		return &PortStatus{u8(t, "reason"), genPort(t)}
	case TypePacketOut:
		return &PacketOut{u32(t, "buffer"), Port(u16(t, "port")), genActions(t), genBytes(t, "data", 64)}
	case TypeFlowMod:
		return &FlowMod{Match: genMatch(t), Cookie: u64(t, "cookie"), Command: u16(t, "command") % 5,
			IdleTimeout: u16(t, "idle"),
			HardTimeout: u16(t, "hard"), Priority: u16(t, "prio"), BufferID: u32(t, "buffer"),
			OutPort: Port(u16(t, "out")),
			Flags:   u16(t, "flags"), Actions: genActions(t)}
	case TypePortMod:
		return &PortMod{Port(u16(t, "port")), array(t, "hw", 6, mac), u32(t, "config"), u32(t, "mask"), u32(t, "adv")}
	case TypeStatsRequest:
		return genStatsRequest(t)
	case TypeStatsReply:
		return genStatsReply(t)
	}
	return New(typ)
}

const lastType = TypeBarrierReply

func anyMessage(t *rapid.T) Message {
	return genMessage(t, uint8(rapid.IntRange(0, int(lastType)).Draw(t, "type")))
}

// example returns a message of a type, the same one each time for the same seed.
func example(typ uint8, seed int) Message {
	return rapid.Custom(func(t *rapid.T) Message {
		rapid.Bool().Draw(t, "unused") // a generator has to draw, and some messages are empty
		return genMessage(t, typ)
	}).Example(seed)
}

// examples returns a dozen messages of each type.
func examples() []Message {
	var out []Message
	for typ := range lastType + 1 {
		for seed := range 12 {
			out = append(out, example(typ, seed))
		}
	}
	return out
}
