package of13

import (
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-sdn/holdfast/openflow"
)

// checkAny checks what holds for every input: Decode returns a typed error with an offset within the message, or a
// message that can be read completely, printed, and encoded to something that decodes to an equal message.
func checkAny(t *testing.T, wire []byte) {
	t.Helper()
	m, err := Decode(wire)
	if err != nil {
		var e *openflow.Error
		if !errors.As(err, &e) {
			t.Fatalf("%x: error of type %T: %v", wire, err, err)
		}
		if e.Offset < 0 || e.Offset > len(wire) || e.Kind == 0 || e.Message == "" || e.Detail == "" {
			t.Fatalf("%x: useless error %#v", wire, e)
		}
		if len(wire) > 1 && (e.Type != wire[1] || e.Version != wire[0]) {
			t.Fatalf("%x: error about another message: %#v", wire, e)
		}
		if r := Refusal(e, wire); r.String() == "" || len(r.Data) > 64 {
			t.Fatalf("%x: refusal %v", wire, &r)
		}
		return
	}
	checkParts(t, m)
	again, err := Decode(m.Append(nil, openflow.XID(wire)))
	if err != nil {
		t.Fatalf("%x decodes, but encoded again it does not: %v", wire, err)
	}
	if !reflect.DeepEqual(m, again) {
		t.Fatalf("%x decodes differently after encoding (-first +second):\n%s", wire, cmp.Diff(m, again, sameBytes))
	}
}

// checkParts reads all the parts of m, and builds them again.
func checkParts(t *testing.T, m Message) {
	t.Helper()
	if s, ok := m.(fmt.Stringer); ok && s.String() == "" {
		t.Fatalf("%T prints as nothing", m)
	}
	switch m := m.(type) {
	case *PacketIn:
		checkOXMs(t, m.Match)
	case *PacketOut:
		checkBuiltActions(t, m.Actions)
	case *FlowMod:
		checkOXMs(t, m.Match)
		checkBuiltInstructions(t, m.Instructions)
		for x := range m.Instructions.All() {
			_ = x.Actions.ValidateFor(m.Match)
		}
	case *FlowRemoved:
		checkOXMs(t, m.Match)
	case *GroupMod:
		checkBuckets(t, m.Buckets)
	case *MeterMod:
		checkBuilt(t, m.Bands)
	case *QueueGetConfigReply:
		checkBuilt(t, m.Queues)
		for q := range m.Queues.All() {
			checkBuilt(t, q.Properties)
		}
	case *MultipartRequest:
		checkRequest(t, m)
	case *MultipartReply:
		checkReply(t, m)
	}
}

func checkOXMs(t *testing.T, m Match) {
	t.Helper()
	var again Match
	for o := range m.All() {
		again = again.WithOXM(o)
	}
	if string(again) != string(m) {
		t.Fatalf("match %x rebuilt as %x", m, again)
	}
	_ = m.Validate()
}

// checkBuiltActions: the actions of experimenters are opaque, padding is not preserved, and the rest is rebuilt.
func checkBuiltActions(t *testing.T, a Actions) {
	t.Helper()
	var again Actions
	for x := range a.All() {
		switch x.Type {
		case ActionOutput:
			again = again.Output(x.Port, x.MaxLen)
		case ActionSetField:
			again = again.SetField(x.OXM)
		case ActionExperimenter:
			again = again.Experimenter(x.Experimenter, x.Raw[8:])
		case ActionSetMPLSTTL, ActionSetNwTTL:
			again = again.plain(x.Type, uint32(x.TTL)<<24)
		case ActionPushVLAN, ActionPushMPLS, ActionPopMPLS, ActionPushPBB:
			again = again.plain(x.Type, uint32(x.EtherType)<<16)
		default:
			again = again.plain(x.Type, x.Group|x.Queue)
		}
	}
	if again.String() != a.String() || len(again) != len(a) {
		t.Fatalf("actions %v rebuilt as %v", a, again)
	}
	if err := checkActions(again, 0, len(again)); err != nil {
		t.Fatalf("actions %v rebuilt: %v", a, err)
	}
	_ = a.Validate()
}

func checkBuiltInstructions(t *testing.T, in Instructions) {
	t.Helper()
	var again Instructions
	for x := range in.All() {
		switch x.Type {
		case InstructionGotoTable:
			again = again.Goto(x.Table)
		case InstructionWriteMetadata:
			again = again.WriteMetadata(x.Metadata, x.MetadataMask)
		case InstructionWriteActions:
			again = again.Write(x.Actions)
		case InstructionApplyActions:
			again = again.Apply(x.Actions)
		case InstructionClearActions:
			again = again.Clear()
		case InstructionMeter:
			again = again.Meter(x.Meter)
		case InstructionExperimenter:
			again = again.Experimenter(x.Experimenter, x.Raw[8:])
		}
		checkBuiltActions(t, x.Actions)
	}
	if again.String() != in.String() || len(again) != len(in) {
		t.Fatalf("instructions %v rebuilt as %v", in, again)
	}
}

// checkBuilt builds a list from its elements and compares the elements of both.
func checkBuilt[T element[T]](t *testing.T, l List[T]) {
	t.Helper()
	var again List[T]
	var first, second []T
	for x := range l.All() {
		first, again = append(first, x), again.With(x)
	}
	if err := checkList[T](again, 0, len(again)); err != nil {
		t.Fatalf("list of %T rebuilt: %v", first, err)
	}
	for x := range again.All() {
		second = append(second, x)
	}
	if l.Len() != len(first) {
		t.Fatalf("%T: Len is %d, All gives %d", first, l.Len(), len(first))
	}
	if !reflect.DeepEqual(first, second) {
		t.Fatalf("list of %T rebuilt (-want +got):\n%s", first, cmp.Diff(first, second, sameBytes))
	}
}

func checkBuckets(t *testing.T, l Buckets) {
	t.Helper()
	checkBuilt(t, l)
	for b := range l.All() {
		checkBuiltActions(t, b.Actions)
	}
}

func checkRequest(t *testing.T, m *MultipartRequest) {
	t.Helper()
	if r, ok := m.Flow(); ok {
		checkOXMs(t, r.Match)
	}
	_, port := m.Port()
	_, group := m.Group()
	_, meter := m.Meter()
	_, queue := m.Queue()
	_, exp := m.Experimenter()
	for p, found := range map[Part]bool{PartPortStats: port, PartGroup: group, PartQueue: queue,
		PartExperimenter: exp} {
		if found != (m.Part == p) {
			t.Fatalf("a request for %v says %v of %v", m.Part, found, p)
		}
	}
	if meter != (m.Part == PartMeter || m.Part == PartMeterConfig) {
		t.Fatalf("a request for %v says %v of meters", m.Part, meter)
	}
	checkTableFeatures(t, m.TableFeatures())
}

func checkReply(t *testing.T, m *MultipartReply) {
	t.Helper()
	_, desc := m.Desc()
	_, aggregate := m.Aggregate()
	_, groups := m.GroupFeatures()
	_, meters := m.MeterFeatures()
	_, exp := m.Experimenter()
	for p, found := range map[Part]bool{PartDesc: desc, PartAggregate: aggregate, PartGroupFeatures: groups,
		PartMeterFeatures: meters, PartExperimenter: exp} {
		if found != (m.Part == p) {
			t.Fatalf("a reply with %v says %v of %v", m.Part, found, p)
		}
	}
	checkBuilt(t, m.Flows())
	for f := range m.Flows().All() {
		checkOXMs(t, f.Match)
		checkBuiltInstructions(t, f.Instructions)
	}
	checkBuilt(t, m.Tables())
	checkBuilt(t, m.PortStats())
	checkBuilt(t, m.Queues())
	checkBuilt(t, m.PortDescs())
	checkBuilt(t, m.Groups())
	for g := range m.Groups().All() {
		checkBuilt(t, g.Buckets)
	}
	checkBuilt(t, m.GroupDescs())
	for g := range m.GroupDescs().All() {
		checkBuckets(t, g.Buckets)
	}
	checkBuilt(t, m.Meters())
	for s := range m.Meters().All() {
		checkBuilt(t, s.Bands)
	}
	checkBuilt(t, m.MeterConfigs())
	for c := range m.MeterConfigs().All() {
		checkBuilt(t, c.Bands)
	}
	checkTableFeatures(t, m.TableFeatures())
}

func checkTableFeatures(t *testing.T, l List[TableFeatures]) {
	t.Helper()
	checkBuilt(t, l)
	for f := range l.All() {
		checkBuilt(t, f.Properties)
		for p := range f.Properties.All() {
			for range p.Types() {
			}
			for range p.Fields() {
			}
		}
	}
}
