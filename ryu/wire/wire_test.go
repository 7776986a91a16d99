package wire

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/holdfast-sdn/holdfast/openflow"
	"pgregory.net/rapid"
)

func u8(t *rapid.T, max uint8) uint8 { return rapid.Uint8Max(max).Draw(t, "byte") }
func u64(t *rapid.T) uint64          { return rapid.Uint64().Draw(t, "number") }
func word(t *rapid.T) string         { return rapid.String().Draw(t, "text") }
func blob(t *rapid.T) []byte         { return rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "bytes") }

func drawHeaders(t *rapid.T) (list []Header) {
	for range u8(t, 3) {
		list = append(list, Header{word(t), word(t)})
	}
	return list
}

func drawInput(t *rapid.T) Input {
	in := Input{Number: u64(t), Time: int64(u64(t)), Kind: Kind(1 + u8(t, 5))}
	if in.Kind != Timer && in.Kind != Request && in.Kind != Files {
		in.Switch = openflow.DatapathID(u64(t))
	}
	switch in.Kind {
	case Up:
		in.Features, in.Ports = blob(t), blob(t)
	case Message:
		in.Message = blob(t)
	case Request:
		in.Request = (&HTTPRequest{word(t), word(t), drawHeaders(t), blob(t)}).Append(nil)
	case Files:
		set := drawFiles(t)
		in.Files = set.Append(nil)
	}
	return in
}

func drawFiles(t *rapid.T) FileSet {
	set := FileSet{First: u8(t, 1) == 1}
	for i := range u8(t, 3) {
		f := File{Path: fmt.Sprintf("/%d%s", i, word(t)), Missing: u8(t, 1) == 1}
		if !f.Missing {
			f.Content = blob(t)
		}
		set.Files = append(set.Files, f)
	}
	return set
}

func TestInputs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		first, second := drawInput(t), drawInput(t)
		b := second.Append(first.Append(nil))
		for _, want := range []Input{first, second} {
			got, rest, err := ParseInput(b)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("not what was written (-want +got):\n%s", diff)
			}
			b = rest
		}
		if len(b) > 0 {
			t.Fatalf("%d bytes are left", len(b))
		}
	})
}

// If its end is missing, an input gives an error that says so.
func TestInputCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		b := in.Append(nil)
		cut := rapid.IntRange(0, len(b)-1).Draw(t, "cut")
		if _, _, err := ParseInput(b[:cut]); err == nil ||
			!strings.Contains(err.Error(), "ends within a field") && cut >= 17 {
			t.Fatalf("%d of %d bytes: %v", cut, len(b), err)
		}
	})
}

// result returns a result that has something of each kind.
func result(number uint64) Result {
	return Result{
		Number: number, Wake: 5_000,
		Commands: []Command{{1, []byte("flow")}, {2, []byte("packet")}},
		Answers:  []Answer{{3, 200, []Header{{"Content-Type", "text/plain"}}, []byte("fine")}},
		Failures: []Failure{{"Switch13", "Traceback"}},
		Lines:    []Line{{20, "switch", "learned"}},
	}
}

// appendResult encodes a result as the host does.
func appendResult(b []byte, r Result) []byte {
	b = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, r.Number), uint64(r.Wake))
	for _, n := range []int{len(r.Commands), len(r.Answers), len(r.Failures), len(r.Lines)} {
		b = binary.BigEndian.AppendUint32(b, uint32(n))
	}
	for _, c := range r.Commands {
		b = appendBytes(binary.BigEndian.AppendUint64(b, uint64(c.Switch)), c.Message)
	}
	for _, a := range r.Answers {
		b = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint64(b, a.Request), uint16(a.Status))
		b = appendBytes(appendHeaders(b, a.Headers), a.Body)
	}
	for _, f := range r.Failures {
		b = appendString(appendString(b, f.App), f.Traceback)
	}
	for _, l := range r.Lines {
		b = appendString(appendString(append(b, l.Level), l.Logger), l.Text)
	}
	return b
}

func resultsBody(results ...Result) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(results)))
	for _, r := range results {
		b = appendResult(b, r)
	}
	return b
}

func readyBody() []byte {
	b := binary.BigEndian.AppendUint16(nil, Version)
	b = binary.BigEndian.AppendUint64(b, 7)
	b = appendStrings(appendString(appendString(b, "3.11.2"), "4.2.2"), []string{"Switch13"})
	return appendString(appendString(append(binary.BigEndian.AppendUint32(b, 1), 20), "switch"), "begun")
}

func checkpointedBody() []byte {
	return appendString(appendBytes(binary.BigEndian.AppendUint64(nil, 9), []byte("state")), "a reason")
}

func TestParse(t *testing.T) {
	results, err := ParseResults(resultsBody(result(1), result(2)))
	if err != nil {
		t.Fatal(err)
	}
	for i := range results {
		results[i].Digest = 0
	}
	if diff := cmp.Diff([]Result{result(1), result(2)}, results); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
	ready, err := ParseReady(readyBody())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Ready{Version, 7, "3.11.2", "4.2.2", []string{"Switch13"}, []Line{{20, "switch", "begun"}}},
		ready); diff != "" {
		t.Errorf("ready (-want +got):\n%s", diff)
	}
	checkpointed, err := ParseCheckpointed(checkpointedBody())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Checkpointed{9, []byte("state"), "a reason"}, checkpointed); diff != "" {
		t.Errorf("checkpointed (-want +got):\n%s", diff)
	}
	if fatal, err := ParseFatal(appendString(nil, "it broke")); err != nil || fatal != "it broke" {
		t.Errorf("fatal: %q, %v", fatal, err)
	}
}

// Hosts are compared by the digest, which covers commands and not log messages.
func TestDigest(t *testing.T) {
	digest := func(change func(*Result)) uint32 {
		t.Helper()
		r := result(1)
		change(&r)
		parsed, rest, err := ParseResult(appendResult(nil, r))
		if err != nil || len(rest) > 0 {
			t.Fatalf("%d bytes left, %v", len(rest), err)
		}
		return parsed.Digest
	}
	want := digest(func(*Result) {})
	for name, change := range map[string]func(*Result){
		"number":    func(r *Result) { r.Number++ },
		"a line":    func(r *Result) { r.Lines = nil },
		"traceback": func(r *Result) { r.Failures[0].Traceback = "at 0x7f" },
	} {
		if digest(change) != want {
			t.Errorf("%s changes the digest", name)
		}
	}
	for name, change := range map[string]func(*Result){
		"wake":         func(r *Result) { r.Wake = NoWake },
		"a command":    func(r *Result) { r.Commands = r.Commands[:1] },
		"their order":  func(r *Result) { r.Commands[0], r.Commands[1] = r.Commands[1], r.Commands[0] },
		"the switch":   func(r *Result) { r.Commands[0].Switch++ },
		"an answer":    func(r *Result) { r.Answers[0].Status = 500 },
		"who failed":   func(r *Result) { r.Failures[0].App = "Switch14" },
		"that it fell": func(r *Result) { r.Failures = nil },
	} {
		if digest(change) == want {
			t.Errorf("%s does not change the digest", name)
		}
	}
}

func TestMalformed(t *testing.T) {
	ready := func(b []byte) error { _, err := ParseReady(b); return err }
	results := func(b []byte) error { _, err := ParseResults(b); return err }
	fatal := func(b []byte) error { _, err := ParseFatal(b); return err }
	checkpointed := func(b []byte) error { _, err := ParseCheckpointed(b); return err }
	input := func(b []byte) error { _, _, err := ParseInput(b); return err }
	otherVersion := readyBody()
	otherVersion[1]++
	unknownKind := (&Input{Number: 3, Kind: Timer}).Append(nil)
	unknownKind[16] = 9
	for _, tt := range []struct {
		name  string
		parse func([]byte) error
		b     []byte
		want  string
	}{
		{"ready of nothing", ready, nil, "READY frame: ends within a field"},
		{"ready of another version", ready, otherVersion, "the host speaks version 2 of the protocol, Holdfast 1"},
		{"ready and more", ready, append(readyBody(), 0, 0), "READY frame: 2 bytes too many"},
		{"ready cut", ready, readyBody()[:30], "READY frame: ends within a field"},
		{"no results", results, resultsBody(), "RESULTS frame: it is empty"},
		{"fewer results than said", results, append([]byte{0, 0, 0, 2}, resultsBody(result(7))[4:]...),
			"result 0: ends within a field"},
		{"many results said", results, []byte{255, 255, 255, 255}, "ends within a field"},
		{"more results than said", results, append([]byte{0, 0, 0, 1}, resultsBody(result(7), result(8))[4:]...),
			"bytes too many"},
		{"a result cut", results, resultsBody(result(7))[:70], "result 7: ends within a field"},
		{"many commands said", results, append([]byte{0, 0, 0, 1}, bytes.Repeat([]byte{255}, 32)...),
			"ends within a field"},
		{"fatal cut", fatal, []byte{0, 0, 0, 9, 'x'}, "FATAL frame: ends within a field"},
		{"fatal and more", fatal, []byte{0, 0, 0, 0, 'x'}, "FATAL frame: 1 bytes too many"},
		{"checkpointed cut", checkpointed, checkpointedBody()[:10], "CHECKPOINTED frame: ends within a field"},
		{"checkpointed and more", checkpointed, append(checkpointedBody(), 1), "CHECKPOINTED frame: 1 bytes too many"},
		{"an input of an unknown kind", input, unknownKind, "input 3 has kind 9"},
	} {
		if err := tt.parse(tt.b); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v; want %q", tt.name, err, tt.want)
		}
	}
}

func TestHeader(t *testing.T) {
	for _, tt := range []struct {
		header [HeaderLen]byte
		typ    FrameType
		body   int
		want   string
	}{
		{[...]byte{0, 0, 0, 1, 6}, TypeCheckpoint, 0, ""},
		{[...]byte{4, 0, 0, 0, 4}, TypeResults, BodyBytes, ""},
		{[...]byte{4, 0, 0, 1, 4}, 0, 0, "a frame says that it has 67108865 bytes: it may have 1 to 67108864"},
		{[...]byte{0, 0, 0, 0, 4}, 0, 0, "a frame says that it has 0 bytes"},
		{[...]byte{0, 0, 0, 1, 0}, 0, 0, "a frame has type 0, which version 1 of the protocol does not know"},
		{[...]byte{0, 0, 0, 1, 9}, 0, 0, "a frame has type 9"},
		{[...]byte{'H', 'T', 'T', 'P', '/'}, 0, 0, "a frame says that it has 1213486160 bytes"},
	} {
		typ, body, err := ParseHeader(tt.header)
		said := ""
		if err != nil {
			said = err.Error()
		}
		if typ != tt.typ || body != tt.body || (tt.want == "") != (err == nil) || !strings.Contains(said, tt.want) {
			t.Errorf("%q: %v with %d bytes, %v; want %v with %d, %q", tt.header, typ, body, err, tt.typ, tt.body,
				tt.want)
		}
	}
}

func TestBounds(t *testing.T) {
	before := []byte("before")
	if b, err := AppendHello(before, &Hello{State: make([]byte, FrameBytes)}); err == nil || !bytes.Equal(b, before) {
		t.Errorf("a checkpoint that is too large: %d bytes, %v", len(b), err)
	}
	if b, err := AppendHello(before, &Hello{State: make([]byte, BodyBytes)}); err == nil || !bytes.Equal(b, before) {
		t.Errorf("a checkpoint that just is too large: %d bytes, %v", len(b), err)
	}
	if b, err := AppendInputs(before, make([]byte, BodyBytes-3), 1); err == nil || !bytes.Equal(b, before) {
		t.Errorf("inputs that are too large: %d bytes, %v", len(b), err)
	}
	if b, err := AppendInputs(before, nil, 0); err == nil || !bytes.Equal(b, before) {
		t.Errorf("no inputs: %d bytes, %v", len(b), err)
	}
}
