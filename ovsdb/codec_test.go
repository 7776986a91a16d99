package ovsdb

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// messages cuts a stream as a session does.
func messages(r io.Reader) (list []string, err error) {
	scanner := bufio.NewScanner(r)
	scanner.Buffer(nil, 1<<16)
	scanner.Split(new(splitter).split)
	for scanner.Scan() {
		list = append(list, strings.TrimSpace(scanner.Text()))
	}
	return list, scanner.Err()
}

func TestSplit(t *testing.T) {
	for _, c := range []struct {
		in   string
		want []string
		err  error
	}{
		{"", nil, nil},
		{" \n", nil, nil},
		{"{}", []string{"{}"}, nil},
		{"{}{}\n {\"a\":1}", []string{"{}", "{}", `{"a":1}`}, nil},
		{`{"a":"}{"}{"b":"\"}"}`, []string{`{"a":"}{"}`, `{"b":"\"}"}`}, nil},
		{`{"a":"\\"}{}`, []string{`{"a":"\\"}`, "{}"}, nil},
		{`{"a":[{}]}{}`, []string{`{"a":[{}]}`, "{}"}, nil},
		{"{}{", []string{"{}"}, errCutOff},
		{"{} []", []string{"{}"}, errNoObject},
		{"HTTP/1.1 400", nil, errNoObject},
		{`{"` + strings.Repeat("x", 1<<16), nil, bufio.ErrTooLong},
		{strings.Repeat(" ", 1<<16), nil, bufio.ErrTooLong},
	} {
		for _, r := range []io.Reader{strings.NewReader(c.in), iotest.OneByteReader(strings.NewReader(c.in))} {
			got, err := messages(r)
			if !slices.Equal(got, c.want) || !errors.Is(err, c.err) {
				t.Errorf("%.40q: %q, error %v", c.in, got, err)
			}
		}
	}
}

// However a stream comes in pieces, it is cut as the standard library's decoder does.
func TestSplitAsTheStandardLibrary(t *testing.T) {
	value := rapid.Custom(func(t *rapid.T) any {
		m := map[string]any{}
		for range rapid.IntRange(0, 4).Draw(t, "members") {
			var v any = rapid.StringOf(rapid.SampledFrom([]rune(`{}[]"\ a€`))).Draw(t, "string")
			if rapid.Bool().Draw(t, "nested") {
				v = []any{v, map[string]any{"k": v}}
			}
			m[rapid.StringOf(rapid.SampledFrom([]rune(`{}"\k`))).Draw(t, "key")] = v
		}
		return m
	})
	rapid.Check(t, func(t *rapid.T) {
		var stream bytes.Buffer
		var want []string
		for range rapid.IntRange(0, 5).Draw(t, "messages") {
			b, err := json.Marshal(value.Draw(t, "message"))
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, string(b))
			stream.Write(b)
			stream.WriteString(rapid.SampledFrom([]string{"", "\n", " \t"}).Draw(t, "between"))
		}
		got, err := messages(iotest.HalfReader(&stream))
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("error %v\n%s", err, cmp.Diff(want, got))
		}
	})
}

func TestValues(t *testing.T) {
	for _, c := range []struct {
		value any
		want  string
	}{
		{uuid("x"), `["uuid","x"]`},
		{textMap{"b": "2", "a": "1"}, `["map",[["a","1"],["b","2"]]]`},
		{textMap(nil), `["map",[]]`},
		{textSet{"a"}, `["set",["a"]]`},
	} {
		if got, err := json.Marshal(c.value); err != nil || string(got) != c.want {
			t.Errorf("%v: %s, error %v, not %s", c.value, got, err, c.want)
		}
	}
	good := `{"Interface":{"i":{"new":{"name":"p1","ofport":["set",[]],"bfd":["map",[["a","b"]]]}}}}`
	if err := new(tables).apply(json.RawMessage(good)); err != nil {
		t.Errorf("%s: %v", good, err)
	}
	for _, bad := range []string{
		``, `[]`, `{"Interface":[]}`,
		`{"Interface":{"i":{"new":{"name":["set",["a"]]}}}}`,
		`{"Interface":{"i":{"new":{"bfd":["map",[["a"]]]}}}}`,
		`{"Interface":{"i":{"new":{"bfd":["map",{}]}}}}`,
		`{"Interface":{"i":{"new":{"bfd":"a"}}}}`,
		`{"Interface":{"i":{"new":{"ofport":["set",["a"]]}}}}`,
		`{"Bridge":{"b":{"new":{"ports":["set",["p"]]}}}}`,
		`{"Port":{"b":{"new":{"interfaces":["named-uuid","p"]}}}}`,
	} {
		if err := new(tables).apply(json.RawMessage(bad)); err == nil {
			t.Errorf("%s: taken", bad)
		}
	}
}

func TestResults(t *testing.T) {
	for _, c := range []struct{ in, reason string }{
		{`[{"rows":[{"bfd":["map",[]]}]}]`, ""},
		{`[{},{"count":1},null]`, ""},
		{`[]`, ""},
		{`[{},{"error":"timed out","details":"d"}]`, "timed out"},
		{`[{},null,{"error":"constraint violation"}]`, "constraint violation"},
	} {
		_, err := rows(json.RawMessage(c.in))
		var e *DatabaseError
		if errors.As(err, &e); (err == nil) != (c.reason == "") || e != nil && e.Reason != c.reason {
			t.Errorf("%s: error %v", c.in, err)
		}
	}
	if _, err := rows(json.RawMessage(`{}`)); err == nil {
		t.Error("results that are no list: taken")
	}
	for in, want := range map[string]string{`"unknown method"`: "the database says: \"unknown method\"",
		`{"error":"e","details":"d"}`: "the database says: e (d)"} {
		if _, err := (message{Error: json.RawMessage(in)}).result(); err == nil || err.Error() != want {
			t.Errorf("error %s: %v", in, err)
		}
	}
}

const (
	firstUpdate = `{
 "Bridge":{"b1":{"new":{"name":"br0","datapath_id":"0000000000000011","ports":["set",[["uuid","p1"],["uuid","p2"]]]}},
           "b2":{"new":{"name":"br1","datapath_id":["set",[]],"ports":["uuid","p9"]}}},
 "Port":{"p1":{"new":{"interfaces":["uuid","i1"]}},"p2":{"new":{"interfaces":["set",[["uuid","i3"],["uuid","i2"]]]}}},
 "Interface":{"i1":{"new":{"name":"a","ofport":3,"link_state":"up","bfd":["map",[["enable","true"]]],
    "bfd_status":["map",[["diagnostic","No Diagnostic"],["flap_count","1"],["forwarding","true"],["remote_state","up"],["state","up"]]],
    "external_ids":["map",[["holdfast","enable=true"]]]}},
  "i2":{"new":{"name":"b","ofport":1,"link_state":"down","bfd":["map",[]],"bfd_status":["map",[]],"external_ids":["map",[]]}},
  "i3":{"new":{"name":"c","ofport":-1,"link_state":["set",[]],"bfd":["map",[]],"bfd_status":["map",[]],"external_ids":["map",[]]}}}}`
	secondUpdate = `{"Interface":{"i1":{"old":{"ofport":3},"new":{"name":"a","ofport":4,"link_state":"up"}},"i2":{"old":{}}},"Bridge":{"b2":{"old":{"name":"br1"}}}}`
)

var wholly = cmp.Options{cmp.AllowUnexported(Interface{}), cmpopts.EquateEmpty()}

func TestView(t *testing.T) {
	var tb tables
	if err := tb.apply(json.RawMessage(firstUpdate)); err != nil {
		t.Fatal(err)
	}
	enabled := textMap{"enable": "true"}
	a := Interface{Name: "a", Port: 3, LinkUp: true, Ours: true, id: "i1", bfd: enabled, mark: enabled,
		BFD: BFDStatus{State: "up", RemoteState: "up", Forwarding: true, Diagnostic: "No Diagnostic", Flaps: 1}}
	v := tb.view()
	want := View{
		{Name: "br0", DatapathID: 0x11, Interfaces: []Interface{{Name: "c", id: "i3"}, {Name: "b", Port: 1, id: "i2"},
			a}},
		{Name: "br1"},
	}
	if diff := cmp.Diff(want, v, wholly); diff != "" {
		t.Error(diff)
	}
	if got, ok := v.Port(0x11, 3); !ok || got.id != a.id {
		t.Errorf("port 3: %+v, %v", got, ok)
	}
	if got, ok := v.Named("a"); !ok || got.id != a.id {
		t.Errorf("named a: %+v, %v", got, ok)
	}
	_, port := v.Port(0x11, 7)
	_, bridge := v.Port(0x12, 3)
	_, name := v.Named("z")
	if port || bridge || name {
		t.Errorf("what is not there is found: %v %v %v", port, bridge, name)
	}
	if err := tb.apply(json.RawMessage(secondUpdate)); err != nil {
		t.Fatal(err)
	}
	want = View{{Name: "br0", DatapathID: 0x11, Interfaces: []Interface{{Name: "c", id: "i3"},
		{Name: "a", Port: 4, LinkUp: true, id: "i1"}}}}
	if diff := cmp.Diff(want, tb.view(), wholly); diff != "" {
		t.Error(diff)
	}
}

func FuzzMessages(f *testing.F) {
	f.Add([]byte(`{"id":1,"result":` + firstUpdate + `,"error":null}` + `{"method":"update","params":[null,` +
		secondUpdate + `],"id":null}`))
	f.Add([]byte(
		`{"method":"echo","params":["x"],"id":"echo"}{"id":2,"result":[{"rows":[{"bfd":["map",[["a","b"]]]}]},{"error":"timed out"}]}`))
	f.Add([]byte(`{"a":"\"}"} {`))
	f.Fuzz(func(t *testing.T, stream []byte) {
		list, err := messages(bytes.NewReader(stream))
		inPieces, errInPieces := messages(iotest.HalfReader(bytes.NewReader(stream)))
		if !slices.Equal(list, inPieces) || (err == nil) != (errInPieces == nil) {
			t.Fatalf("%q, error %v; in pieces %q, error %v", list, err, inPieces, errInPieces)
		}
		var tb tables
		for _, text := range list {
			m, err := decodeMessage([]byte(text))
			if err != nil {
				continue
			}
			if m.Method == "echo" {
				if _, err := encodeEcho(m); err != nil {
					t.Fatalf("echo of %s: %v", text, err)
				}
			}
			if result, err := m.result(); err == nil {
				_, _ = rows(result)
				_ = tb.apply(result)
			}
			var params []json.RawMessage
			if json.Unmarshal(m.Params, &params) == nil && len(params) == 2 {
				_ = tb.apply(params[1])
			}
			for _, b := range tb.view() {
				for _, i := range b.Interfaces {
					if i.id == "" && tb.interfaces[""].Name != i.Name {
						t.Fatalf("an interface without identity: %+v", i)
					}
				}
			}
		}
	})
}

// A server that names one port and one interface again and again has one of them: the product would fill the memory.
func TestRowsThatAreNamedOften(t *testing.T) {
	const n = 500
	many := func(id string) string {
		return `["set",[` + strings.TrimSuffix(strings.Repeat(`["uuid","`+id+`"],`, n), ",") + `]]`
	}
	var c tables
	err := c.apply([]byte(`{"Bridge":{"b":{"new":{"name":"b","datapath_id":"0000000000000001","ports":` + many("p") +
		`}}},"Port":{"p":{"new":{"interfaces":` + many("i") + `}}},"Interface":{"i":{"new":{"name":"i","ofport":1,` +
		`"link_state":"up","bfd":["map",[]],"bfd_status":["map",[]],"external_ids":["map",[]]}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if v := c.view(); len(v) != 1 || len(v[0].Interfaces) != 1 {
		t.Errorf("%d bridges, the first with %d interfaces, want one of each", len(v), len(v[0].Interfaces))
	}
}
