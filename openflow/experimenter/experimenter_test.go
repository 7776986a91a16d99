package experimenter

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/holdfast-sdn/holdfast/openflow"
)

var versions = []uint8{openflow.Version10, openflow.Version13}

// checkMessage checks what holds for every message: header, length, type.
func checkMessage(t interface{ Fatalf(string, ...any) }, msg []byte, version uint8, want Type) {
	h, err := openflow.ParseHeader(msg)
	if err != nil || h.Version != version || h.Type != openflow.TypeExperimenter || int(h.Length) != len(msg) {
		t.Fatalf("%v: header %+v of %d bytes, %v", want, h, len(msg), err)
	}
	if got, ok := Is(msg); !ok || got != want {
		t.Fatalf("message of type %v, %v; want %v", got, ok, want)
	}
}

// TestRoundTrip: every message is parsed to what was encoded, in both versions, after other bytes.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		version := rapid.SampledFrom(versions).Draw(t, "version")
		before := []byte("before")
		strip := func(b []byte) []byte {
			if !bytes.HasPrefix(b, before) {
				t.Fatalf("Append does not append")
			}
			return b[len(before):]
		}

		attach := rapid.Make[Attach]().Draw(t, "attach")
		msg := strip(attach.Append(before, version))
		checkMessage(t, msg, version, TypeAttach)
		if got, err := ParseAttach(msg); err != nil || got != attach {
			t.Fatalf("%+v, %v; want %+v", got, err, attach)
		}
		block := rapid.Make[Block]().Draw(t, "block")
		for _, typ := range []Type{TypeEvents, TypeCommands} {
			msg = strip(block.Append(before, version, typ))
			checkMessage(t, msg, version, typ)
			if got, err := ParseBlock(msg, typ); err != nil || got != block || len(msg) != BlockLen {
				t.Fatalf("%+v, %v; want %+v", got, err, block)
			}
		}
		ack := rapid.Make[Ack]().Draw(t, "ack")
		for _, typ := range []Type{TypeEventAck, TypeCommandAck} {
			msg = strip(ack.Append(before, version, typ))
			checkMessage(t, msg, version, typ)
			if got, err := ParseAck(msg, typ); err != nil || got != ack || len(msg) != AckLen {
				t.Fatalf("%+v, %v; want %+v", got, err, ack)
			}
		}
		up := SwitchUp{rapid.SliceOfN(rapid.Byte(), 0, 50).Draw(t, "features"),
			rapid.SliceOfN(rapid.Byte(), 0, 50).Draw(t, "ports")}
		msg = strip(up.Append(before, version))
		checkMessage(t, msg, version, TypeSwitchUp)
		if got, err := ParseSwitchUp(msg); err != nil || !bytes.Equal(got.Features, up.Features) ||
			!bytes.Equal(got.Ports, up.Ports) {
			t.Fatalf("%+v, %v; want %+v", got, err, up)
		}
		reason := Reason(rapid.Uint32().Draw(t, "reason"))
		msg = strip(AppendSwitchDown(before, version, reason))
		checkMessage(t, msg, version, TypeSwitchDown)
		if got, err := ParseSwitchDown(msg); err != nil || got != reason {
			t.Fatalf("%v, %v; want %v", got, err, reason)
		}
		refuse := Refuse{reason, rapid.Uint64().Draw(t, "epoch")}
		msg = strip(refuse.Append(before, version))
		checkMessage(t, msg, version, TypeRefuse)
		if got, err := ParseRefuse(msg); err != nil || got != refuse {
			t.Fatalf("%+v, %v; want %+v", got, err, refuse)
		}
		marker := SyncMarker{rapid.Uint64().Draw(t, "generation"), rapid.Uint64().Draw(t, "number")}
		msg = strip(marker.Append(before, version))
		checkMessage(t, msg, version, TypeSyncMarker)
		if got, err := ParseSyncMarker(msg); err != nil || got != marker {
			t.Fatalf("%+v, %v; want %+v", got, err, marker)
		}
		stream := Stream{rapid.Uint32().Draw(t, "id"), StreamKind(rapid.Uint8().Draw(t, "kind")),
			rapid.Uint32Max(1<<24-1).Draw(t, "number")}
		msg = strip(stream.Append(before))
		checkMessage(t, msg, openflow.Version13, TypeStream)
		if got, err := ParseStream(msg); err != nil || got != stream || len(msg) != StreamLen {
			t.Fatalf("%+v, %v; want %+v", got, err, stream)
		}
	})
}

// parsers has a parser for each type, and an example.
var parsers = map[Type]struct {
	example []byte
	parse   func(msg []byte) error
}{
	TypeAttach: {Attach{1, 2, 3, 4, 5}.Append(nil, openflow.Version13),
		func(b []byte) error { _, err := ParseAttach(b); return err }},
	TypeEvents: {Block{0, 2, 3, 4, 5}.Append(nil, openflow.Version13, TypeEvents),
		func(b []byte) error { _, err := ParseBlock(b, TypeEvents); return err }},
	TypeEventAck: {Ack{1, 2}.Append(nil, openflow.Version13, TypeEventAck),
		func(b []byte) error { _, err := ParseAck(b, TypeEventAck); return err }},
	TypeCommands: {Block{1, 2, 3, 4, 5}.Append(nil, openflow.Version10, TypeCommands),
		func(b []byte) error { _, err := ParseBlock(b, TypeCommands); return err }},
	TypeCommandAck: {Ack{1, 2}.Append(nil, openflow.Version10, TypeCommandAck),
		func(b []byte) error { _, err := ParseAck(b, TypeCommandAck); return err }},
	TypeSwitchUp: {SwitchUp{[]byte("features"), []byte("ports")}.Append(nil, openflow.Version13),
		func(b []byte) error { _, err := ParseSwitchUp(b); return err }},
	TypeStream: {Stream{1, StreamData, 2}.Append(nil),
		func(b []byte) error { _, err := ParseStream(b); return err }},
	TypeSwitchDown: {AppendSwitchDown(nil, openflow.Version13, ReasonSilent),
		func(b []byte) error { _, err := ParseSwitchDown(b); return err }},
	TypeRefuse: {Refuse{ReasonStaleEpoch, 9}.Append(nil, openflow.Version13),
		func(b []byte) error { _, err := ParseRefuse(b); return err }},
	TypeSyncMarker: {SyncMarker{1, 2}.Append(nil, openflow.Version13),
		func(b []byte) error { _, err := ParseSyncMarker(b); return err }},
}

// TestRefused: no parser accepts a message of another type, or one that is truncated or extended.
func TestRefused(t *testing.T) {
	refused := func(typ Type, what string, err error) {
		t.Helper()
		var e *openflow.Error
		if !errors.As(err, &e) || e.Message != typ.String() {
			t.Errorf("%v: %s: %v", typ, what, err)
		}
	}
	for typ, p := range parsers {
		if err := p.parse(p.example); err != nil {
			t.Errorf("%v: %v", typ, err)
		}
		for other, q := range parsers {
			if other != typ {
				refused(typ, "given "+other.String(), p.parse(q.example))
			}
		}
		for n := range p.example {
			refused(typ, "cut", p.parse(p.example[:n]))
		}
		refused(typ, "stretched", p.parse(append(bytes.Clone(p.example), 0)))
	}
}

func TestProtocolVersionIsRefused(t *testing.T) {
	msg := Attach{}.Append(nil, openflow.Version13)
	msg[prefixLen+3]--
	for _, n := range []int{len(msg), len(msg) - 8, prefixLen + 8} { // another release may have other fields
		openflow.SetLength(msg[:n])
		_, err := ParseAttach(msg[:n])
		var e *openflow.Error
		if !errors.As(err, &e) || e.Kind != openflow.Unsupported || !strings.Contains(e.Detail, "protocol 2") {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

// TestSwitchUpParts: lengths that do not add up are refused, even if their sum wraps around.
func TestSwitchUpParts(t *testing.T) {
	for _, lengths := range [][2]uint32{{8, 6}, {0, 0}, {14, 0}, {0xffffffff, 14}, {0xffffffff, 0xffffffff}} {
		msg := bytes.Clone(parsers[TypeSwitchUp].example)
		for i := range 4 {
			msg[prefixLen+i], msg[prefixLen+4+i] = byte(lengths[0]>>(24-8*i)), byte(lengths[1]>>(24-8*i))
		}
		if up, err := ParseSwitchUp(msg); err == nil {
			t.Errorf("%v taken as %q", lengths, up)
		}
	}
}

func TestIs(t *testing.T) {
	other := bytes.Clone(parsers[TypeRefuse].example)
	other[8] = 0
	echo := bytes.Clone(parsers[TypeRefuse].example)
	echo[1] = openflow.TypeEchoRequest
	for name, msg := range map[string][]byte{"empty": nil, "another experimenter": other, "an echo": echo} {
		if typ, ok := Is(msg); ok {
			t.Errorf("%s is taken for %v", name, typ)
		}
	}
}

func TestNames(t *testing.T) {
	for got, want := range map[string]string{
		TypeAttach.String():           "HOLDFAST_ATTACH",
		TypeRefuse.String():           "HOLDFAST_REFUSE",
		Type(99).String():             "HOLDFAST type 99",
		ReasonStaleEpoch.String():     "stale epoch",
		ReasonUnreachable.String():    "unreachable",
		ReasonElsewhere.String():      "served elsewhere",
		Reason(99).String():           "unknown reason",
		ReasonConnectionLost.String(): "connection lost",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestHotMessagesDoNotAllocate(t *testing.T) {
	buf := make([]byte, 0, 256)
	events, ack := parsers[TypeEvents].example, parsers[TypeEventAck].example
	if n := testing.AllocsPerRun(100, func() {
		buf = Block{1, 2, 3, 4, 5}.Append(buf[:0], openflow.Version13, TypeEvents)
		buf = Ack{1, 2}.Append(buf, openflow.Version13, TypeEventAck)
		if _, err := ParseBlock(events, TypeEvents); err != nil {
			t.Fatal(err)
		}
		if _, err := ParseAck(ack, TypeEventAck); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzParse passes arbitrary bytes to every parser. At most one accepts them, and none panics.
func FuzzParse(f *testing.F) {
	for _, p := range parsers {
		f.Add(p.example)
	}
	f.Fuzz(func(t *testing.T, msg []byte) {
		typ, _ := Is(msg)
		for want, p := range parsers {
			err := p.parse(msg)
			var e *openflow.Error
			if err != nil && !errors.As(err, &e) {
				t.Fatalf("%v: error of type %T", want, err)
			}
			if err == nil && typ != want {
				t.Fatalf("%x of type %v taken for %v", msg, typ, want)
			}
		}
		if up, err := ParseSwitchUp(msg); err == nil && !bytes.Equal(up.Append(nil, msg[0])[prefixLen:],
			msg[prefixLen:]) {
			t.Fatalf("%x encodes differently", msg)
		}
	})
}
