package of13

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/holdfast-sdn/holdfast/openflow"
)

func same(t *rapid.T, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got, sameBytes); diff != "" {
		t.Fatalf("-want +got:\n%s", diff)
	}
}

// TestPartsAreWhatTheyWereBuiltFrom: iterators return what the builders were given.
func TestPartsAreWhatTheyWereBuiltFrom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fields := rapid.SliceOfN(genOXM(), 0, 8).Draw(t, "fields")
		match := buildMatch(fields)
		same(t, fields, slices.Collect(match.All()))
		for _, o := range fields {
			if got, ok := match.Get(o.Field); o.Class == ClassBasic && (!ok || got.Field != o.Field) {
				t.Fatalf("Get(%v) = %v, %v", o.Field, got, ok)
			}
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(genAction(), 0, 10).Draw(t, "actions")
		actions := buildActions(list)
		var got []Action
		var again Actions
		for a := range actions.All() {
			again = again.Append(a)
			a.Raw = nil
			got = append(got, a)
		}
		same(t, list, got)
		same(t, actions, again)
		if err := checkActions(actions, 0, len(actions)); err != nil {
			t.Fatal(err)
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(genInstruction(), 0, 6).Draw(t, "instructions")
		var got []Instruction
		for in := range buildInstructions(list).All() {
			in.Raw = nil
			got = append(got, in)
			if first, ok := buildInstructions(list).Get(in.Type); !ok || first.Type != in.Type {
				t.Fatalf("Get(%v) = %v, %v", in.Type, first, ok)
			}
		}
		same(t, list, got)
	})
}

// checkLists: lists of T return their elements, are valid, and their iteration can be stopped early.
func checkLists[T element[T]](t *testing.T, g *rapid.Generator[T]) {
	t.Helper()
	rapid.Check(t, func(t *rapid.T) {
		elements := rapid.SliceOfN(g, 0, 5).Draw(t, "elements")
		l := buildList(elements)
		same(t, elements, slices.Collect(l.All()))
		if l.Len() != len(elements) {
			t.Fatalf("Len() = %d, want %d", l.Len(), len(elements))
		}
		for range l.All() {
			break
		}
		if err := checkList[T](l, 0, len(l)); err != nil {
			t.Fatal(err)
		}
	})
}

func TestListsAreWhatTheyWereBuiltFrom(t *testing.T) {
	checkLists(t, genBucket())
	checkLists(t, genBand())
	checkLists(t, genPortDesc())
	checkLists(t, genFlowStats())
	checkLists(t, rapid.Make[PortStats]())
	checkLists(t, rapid.Make[TableStats]())
	checkLists(t, rapid.Make[QueueStats]())
	checkLists(t, rapid.Make[Counter]())
	checkLists(t, rapid.Make[AggregateStats]())
	checkLists(t, rapid.Make[GroupFeatures]())
	checkLists(t, rapid.Make[MeterFeatures]())
	checkLists(t, rapid.Make[QueueStatsRequest]())
	checkLists(t, rapid.Custom(func(t *rapid.T) Desc {
		return Desc{genName(256).Draw(t, "1"), genName(256).Draw(t, "2"), genName(256).Draw(t, "3"),
			genName(32).Draw(t, "4"), genName(256).Draw(t, "5")}
	}))
	checkLists(t, rapid.Custom(func(t *rapid.T) GroupStats {
		return GroupStats{rapid.Uint32().Draw(t, "id"), rapid.Uint32().Draw(t, "refs"),
			rapid.Make[Counter]().Draw(t, "total"),
			rapid.Make[Duration]().Draw(t, "duration"), genList(rapid.Make[Counter]()).Draw(t, "buckets")}
	}))
	checkLists(t, rapid.Custom(func(t *rapid.T) MeterStatistics {
		return MeterStatistics{rapid.Uint32().Draw(t, "id"), rapid.Uint32().Draw(t, "flows"),
			rapid.Make[Counter]().Draw(t, "in"),
			rapid.Make[Duration]().Draw(t, "duration"), genList(rapid.Make[Counter]()).Draw(t, "bands")}
	}))
	checkLists(t, rapid.Custom(func(t *rapid.T) GroupDesc {
		return GroupDesc{rapid.Uint8().Draw(t, "type"), rapid.Uint32().Draw(t, "id"),
			genList(genBucket()).Draw(t, "buckets")}
	}))
	checkLists(t, rapid.Custom(func(t *rapid.T) MeterConfig {
		return MeterConfig{rapid.Uint16().Draw(t, "flags"), rapid.Uint32().Draw(t, "id"),
			genList(genBand()).Draw(t, "bands")}
	}))
	checkLists(t, rapid.Custom(func(t *rapid.T) TableProperty {
		if rapid.Bool().Draw(t, "experimenter") {
			return TableProperty{TableExperimenter, append([]byte("12345678"), genBytes(9).Draw(t, "data")...)}
		}
		return NextTablesProperty(TableNextTables, genBytes(9).Draw(t, "tables")...)
	}))
	checkLists(t, rapid.Custom(func(t *rapid.T) QueueProperty {
		if rapid.Bool().Draw(t, "experimenter") {
			return QueueProperty{Property: QueueExperimenter, Experimenter: rapid.Uint32().Draw(t, "id"),
				Data: genBytes(9).Draw(t, "data")}
		}
		return QueueProperty{Property: QueueMinRate, Rate: rapid.Uint16().Draw(t, "rate")}
	}))
}

// genMessage draws messages with variable parts. TestRoundTrip covers the others.
func genMessage() *rapid.Generator[Message] {
	return rapid.Custom(func(t *rapid.T) Message {
		u := func() uint64 { return rapid.Uint64().Draw(t, "number") }
		data := func() []byte { return genBytes(100).Draw(t, "data") }
		switch rapid.IntRange(0, 8).Draw(t, "type") {
		case 0:
			return &PacketIn{uint32(u()), uint16(u()), uint8(u()), uint8(u()), u(), genMatch().Draw(t, "match"), data()}
		case 1:
			return &PacketOut{uint32(u()), Port(u()), genActions().Draw(t, "actions"), data()}
		case 2:
			return &FlowMod{u(), u(), uint8(u()), uint8(u()), uint16(u()), uint16(u()), uint16(u()), uint32(u()),
				Port(u()), uint32(u()), uint16(u()),
				genMatch().Draw(t, "match"), genInstructions().Draw(t, "instructions")}
		case 3:
			return &FlowRemoved{u(), uint16(u()), uint8(u()), uint8(u()), uint32(u()), uint32(u()), uint16(u()),
				uint16(u()), u(), u(), genMatch().Draw(t, "match")}
		case 4:
			return &GroupMod{uint16(u()), uint8(u()), uint32(u()), genList(genBucket()).Draw(t, "buckets")}
		case 5:
			return &MeterMod{uint16(u()), uint16(u()), uint32(u()), genList(genBand()).Draw(t, "bands")}
		case 6:
			return &PortStatus{uint8(u()), genPortDesc().Draw(t, "port")}
		case 7:
			r := FlowStatsRequest{uint8(u()), Port(u()), uint32(u()), u(), u(), genMatch().Draw(t, "match")}
			m := &MultipartRequest{Part: rapid.SampledFrom([]Part{PartFlow, PartAggregate}).Draw(t, "part"),
				Flags: uint16(u()), Body: r.AppendTo(nil)}
			got, _ := m.Flow()
			same(t, r, got)
			return m
		}
		return &MultipartReply{Part: PartFlow, Flags: uint16(u()), Body: genList(genFlowStats()).Draw(t, "flows")}
	})
}

// TestMessagesRoundTrip: an encoded message decodes to an equal one, also between others in a stream.
func TestMessagesRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sent := rapid.SliceOfN(genMessage(), 1, 4).Draw(t, "messages")
		var stream []byte
		for i, m := range sent {
			stream = m.Append(stream, uint32(i))
		}
		for i, m := range sent {
			msg, rest, err := openflow.Next(stream)
			if err != nil || openflow.XID(msg) != uint32(i) {
				t.Fatalf("message %d: %x, %v", i, msg, err)
			}
			got, err := Decode(msg)
			if err != nil {
				t.Fatal(err)
			}
			same(t, m, got)
			stream = rest
		}
		if len(stream) != 0 {
			t.Fatalf("%d bytes left", len(stream))
		}
	})
}
