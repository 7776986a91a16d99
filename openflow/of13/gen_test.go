package of13

import (
	"strings"

	"pgregory.net/rapid"
)

// Generators of everything that OpenFlow 1.3 can express.

func genBytes(limit int) *rapid.Generator[[]byte] { return rapid.SliceOfN(rapid.Byte(), 0, limit) }

// genName draws names that fit a field of size bytes.
func genName(size int) *rapid.Generator[string] {
	return rapid.Map(rapid.StringN(0, size-1, size-1),
		func(s string) string { return strings.ReplaceAll(s, "\x00", "0") })
}

// genOXM draws fields of OpenFlow basic, some with a mask, and some of other classes.
func genOXM() *rapid.Generator[OXM] {
	return rapid.Custom(func(t *rapid.T) OXM {
		o := OXM{Class: rapid.SampledFrom([]uint16{ClassBasic, ClassBasic, ClassBasic, ClassNXM1,
			ClassExperimenter}).Draw(t, "class")}
		size := rapid.IntRange(1, 16).Draw(t, "size")
		o.Field = Field(rapid.IntRange(0, 127).Draw(t, "field"))
		if o.Class == ClassBasic {
			o.Field %= numFields
			size = o.Field.Size()
		}
		if o.Class == ClassExperimenter {
			o.Experimenter = rapid.Uint32().Draw(t, "experimenter")
		}
		o.Value = rapid.SliceOfN(rapid.Byte(), size, size).Draw(t, "value")
		if rapid.Bool().Draw(t, "masked") {
			o.HasMask = true
			o.Mask = rapid.SliceOfN(rapid.Byte(), size, size).Draw(t, "mask")
		}
		return o
	})
}

func buildMatch(fields []OXM) Match {
	var m Match
	for _, o := range fields {
		m = m.WithOXM(o)
	}
	return m
}

func genMatch() *rapid.Generator[Match] {
	return rapid.Map(rapid.SliceOfN(genOXM(), 0, 8), buildMatch)
}

// genAction draws actions without Raw, and their builders.
func genAction() *rapid.Generator[Action] {
	return rapid.Custom(func(t *rapid.T) Action {
		var types []ActionType
		for a, known := range actionTypes {
			if known.name != "" {
				types = append(types, ActionType(a))
			}
		}
		a := Action{Type: rapid.SampledFrom(append(types, ActionExperimenter)).Draw(t, "type")}
		switch a.Type {
		case ActionOutput:
			a.Port, a.MaxLen = Port(rapid.Uint32().Draw(t, "port")), rapid.Uint16().Draw(t, "max_len")
		case ActionGroup:
			a.Group = rapid.Uint32().Draw(t, "group")
		case ActionSetQueue:
			a.Queue = rapid.Uint32().Draw(t, "queue")
		case ActionPushVLAN, ActionPushMPLS, ActionPopMPLS, ActionPushPBB:
			a.EtherType = rapid.Uint16().Draw(t, "ether_type")
		case ActionSetMPLSTTL, ActionSetNwTTL:
			a.TTL = rapid.Uint8().Draw(t, "ttl")
		case ActionSetField:
			a.OXM = genOXM().Draw(t, "field")
		case ActionExperimenter:
			a.Experimenter = rapid.Uint32().Draw(t, "experimenter")
		}
		return a
	})
}

func (a Actions) build(x Action) Actions {
	switch x.Type {
	case ActionOutput:
		return a.Output(x.Port, x.MaxLen)
	case ActionCopyTTLOut:
		return a.CopyTTLOut()
	case ActionCopyTTLIn:
		return a.CopyTTLIn()
	case ActionSetMPLSTTL:
		return a.SetMPLSTTL(x.TTL)
	case ActionDecMPLSTTL:
		return a.DecMPLSTTL()
	case ActionPushVLAN:
		return a.PushVLAN(x.EtherType)
	case ActionPopVLAN:
		return a.PopVLAN()
	case ActionPushMPLS:
		return a.PushMPLS(x.EtherType)
	case ActionPopMPLS:
		return a.PopMPLS(x.EtherType)
	case ActionSetQueue:
		return a.SetQueue(x.Queue)
	case ActionGroup:
		return a.Group(x.Group)
	case ActionSetNwTTL:
		return a.SetNwTTL(x.TTL)
	case ActionDecNwTTL:
		return a.DecNwTTL()
	case ActionSetField:
		return a.SetField(x.OXM)
	case ActionPushPBB:
		return a.PushPBB(x.EtherType)
	case ActionPopPBB:
		return a.PopPBB()
	}
	return a.Experimenter(x.Experimenter, []byte("12345"))
}

func buildActions(list []Action) Actions {
	var a Actions
	for _, x := range list {
		a = a.build(x)
	}
	return a
}

func genActions() *rapid.Generator[Actions] {
	return rapid.Map(rapid.SliceOfN(genAction(), 0, 6), buildActions)
}

// genInstruction draws instructions without Raw.
func genInstruction() *rapid.Generator[Instruction] {
	return rapid.Custom(func(t *rapid.T) Instruction {
		in := Instruction{Type: InstructionType(rapid.IntRange(1, 7).Draw(t, "type"))}
		switch in.Type {
		case InstructionGotoTable:
			in.Table = rapid.Uint8().Draw(t, "table")
		case InstructionWriteMetadata:
			in.Metadata, in.MetadataMask = rapid.Uint64().Draw(t, "metadata"), rapid.Uint64().Draw(t, "mask")
		case InstructionWriteActions, InstructionApplyActions:
			in.Actions = genActions().Draw(t, "actions")
		case InstructionMeter:
			in.Meter = rapid.Uint32().Draw(t, "meter")
		case 7:
			in.Type, in.Experimenter = InstructionExperimenter, rapid.Uint32().Draw(t, "experimenter")
		}
		return in
	})
}

func buildInstructions(list []Instruction) Instructions {
	var in Instructions
	for _, x := range list {
		switch x.Type {
		case InstructionGotoTable:
			in = in.Goto(x.Table)
		case InstructionWriteMetadata:
			in = in.WriteMetadata(x.Metadata, x.MetadataMask)
		case InstructionWriteActions:
			in = in.Write(x.Actions)
		case InstructionApplyActions:
			in = in.Apply(x.Actions)
		case InstructionClearActions:
			in = in.Clear()
		case InstructionMeter:
			in = in.Meter(x.Meter)
		case InstructionExperimenter:
			in = in.Experimenter(x.Experimenter, []byte("123"))
		}
	}
	return in
}

func genInstructions() *rapid.Generator[Instructions] {
	return rapid.Map(rapid.SliceOfN(genInstruction(), 0, 4), buildInstructions)
}

func genBucket() *rapid.Generator[Bucket] {
	return rapid.Custom(func(t *rapid.T) Bucket {
		return Bucket{rapid.Uint16().Draw(t, "weight"), Port(rapid.Uint32().Draw(t, "watch_port")),
			rapid.Uint32().Draw(t, "watch_group"), genActions().Draw(t, "actions")}
	})
}

func genBand() *rapid.Generator[Band] {
	return rapid.Custom(func(t *rapid.T) Band {
		b := Band{BandType: rapid.SampledFrom([]uint16{BandDrop, BandDSCPRemark, BandExperimenter}).Draw(t, "type"),
			Rate: rapid.Uint32().Draw(t, "rate"), Burst: rapid.Uint32().Draw(t, "burst")}
		switch b.BandType {
		case BandDSCPRemark:
			b.PrecLevel = rapid.Uint8().Draw(t, "prec_level")
		case BandExperimenter:
			b.Experimenter, b.Data = rapid.Uint32().Draw(t, "experimenter"), genBytes(20).Draw(t, "data")
		}
		return b
	})
}

func genPortDesc() *rapid.Generator[PortDesc] {
	return rapid.Custom(func(t *rapid.T) PortDesc {
		u := func() uint32 { return rapid.Uint32().Draw(t, "number") }
		return PortDesc{Port(u()), MAC(rapid.SliceOfN(rapid.Byte(), 6, 6).Draw(t, "hw_addr")),
			genName(16).Draw(t, "name"), u(), u(), u(), u(), u(), u(), u(), u()}
	})
}

func genFlowStats() *rapid.Generator[FlowStats] {
	return rapid.Custom(func(t *rapid.T) FlowStats {
		u := func() uint64 { return rapid.Uint64().Draw(t, "number") }
		return FlowStats{byte(u()), Duration{uint32(u()), uint32(u())}, uint16(u()), uint16(u()), uint16(u()),
			uint16(u()), u(), u(), u(),
			genMatch().Draw(t, "match"), genInstructions().Draw(t, "instructions")}
	})
}

// genList draws a list built from its elements.
func genList[T element[T]](g *rapid.Generator[T]) *rapid.Generator[List[T]] {
	return rapid.Map(rapid.SliceOfN(g, 0, 4), buildList[T])
}

func buildList[T element[T]](elements []T) List[T] {
	var l List[T]
	for _, x := range elements {
		l = l.With(x)
	}
	return l
}
