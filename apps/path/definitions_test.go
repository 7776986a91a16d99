package path

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/network/model"
)

// scansAsJSON checks that what scanAll reads is what encoding/json reads, and reports whether it does read it.
func scansAsJSON(t interface{ Fatalf(string, ...any) }, b []byte) bool {
	list, is := scanAll(b)
	if !is {
		return false
	}
	got := map[string]Definition{}
	for i, n := range list {
		if got[n.name] = n.Definition; i > 0 && list[i-1].name >= n.name {
			t.Fatalf("%s: the order is that of %q", b, n.name)
		}
	}
	want := map[string]Definition{}
	if err := app.ReadJSON(app.Request{Body: b}, &want); err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%s is %+v, and %+v (%v) of encoding/json", b, got, want, err)
	}
	return true
}

// What a program writes is read without encoding/json. Whatever a text has, both agree.
func TestScan(t *testing.T) {
	words := rapid.SampledFrom([]string{"", "a", "00000000000000a1", "10.0.0.0/8", "1-65535", "~ {}[]:,"})
	rapid.Check(t, func(t *rapid.T) {
		all := map[string]Definition{}
		for range rapid.IntRange(0, 3).Draw(t, "paths") {
			d := Definition{From: End{words.Draw(t, "from"), app.Port(rapid.Uint32().Draw(t, "port"))},
				Priority: rapid.Uint16().Draw(t, "priority"), MaxHops: rapid.IntRange(0, 64).Draw(t, "hops"),
				Backup: rapid.Bool().Draw(t, "backup"), Avoid: rapid.SliceOfN(words, 0, 2).Draw(t, "avoid")}
			d.Match.Protocol, d.Match.Source = words.Draw(t, "protocol"), words.Draw(t, "source")
			d.Match.Destination, d.Match.SourcePorts = words.Draw(t, "destination"), words.Draw(t, "from ports")
			if rapid.Bool().Draw(t, "tagged") {
				d.Match.VLAN = new(rapid.Uint16().Draw(t, "vlan"))
			}
			if len(d.Avoid) == 0 {
				d.Avoid = nil // it is left out
			}
			all[words.Draw(t, "name")] = d
		}
		b, err := json.MarshalIndent(all, "", strings.Repeat(" ", rapid.IntRange(0, 2).Draw(t, "indent")))
		if err != nil || !scansAsJSON(t, b) {
			t.Fatalf("%s is not read (%v)", b, err)
		}
		for range rapid.IntRange(1, 3).Draw(t, "changes") {
			at := rapid.IntRange(0, len(b)-1).Draw(t, "at")
			b[at] = rapid.SampledFrom([]byte("\x00\x80 \"\\0123456789-.eEntf{}[]:,")).Draw(t, "byte")
		}
		scansAsJSON(t, b)
		scansAsJSON(t, b[:rapid.IntRange(0, len(b)).Draw(t, "length")])
	})
	for _, text := range []string{"", "{", "{} {}", `{"a":null}`, `{"a":{},"a":{}}`, `{"a":{"priority":01}}`,
		`{"a":{"priority":1.0}}`, `{"a":{"priority":-0}}`, `{"a":{"Priority":1}}`, `{"a\u0062":{}}`, `{"a":{},}`} {
		if scansAsJSON(t, []byte(text)) {
			t.Errorf("%s is read", text)
		}
	}
}

func FuzzScan(f *testing.F) {
	f.Add([]byte(`{"a":{"from":{"switch":"1","port":1},"match":{"vlan":7},"avoid":["2"],"backup":true}, "b": {}}`))
	f.Add([]byte(`{"a":{"priority":1,"max_hops":0}}`))
	f.Fuzz(func(t *testing.T, b []byte) { scansAsJSON(t, b) })
}

func BenchmarkScan(b *testing.B) {
	text := []byte(`{"many1":{"from":{"switch":"0000000000000001","port":1},"to":{"switch":"0000000000000002","port":2},` +
		`"match":{"destination":"10.0.0.1"}}}`)
	b.Run("scan", func(b *testing.B) {
		for b.Loop() {
			if _, is := scanAll(text); !is {
				b.Fatal("not read")
			}
		}
	})
	b.Run("encoding/json", func(b *testing.B) {
		for b.Loop() {
			var all map[string]Definition
			if err := app.ReadJSON(app.Request{Body: text}, &all); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// States are written as encoding/json writes them.
func TestAnswerAll(t *testing.T) {
	text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[ -~]*`))
	rapid.Check(t, func(t *rapid.T) {
		all := map[string]State{}
		for range rapid.IntRange(0, 3).Draw(t, "paths") {
			all[text.Draw(t, "name")] = State{State: model.Installing, Why: text.Draw(t, "why")}
		}
		var list []model.Path
		var states []State
		for _, name := range slices.Sorted(maps.Keys(all)) {
			list, states = append(list, model.Path{Name: name}), append(states, all[name])
		}
		want, err := json.Marshal(all)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := answerAll(list, states); err != nil || string(got.Body) != string(want) {
			t.Errorf("%s, %v; want %s", got.Body, err, want)
		}
	})
}
