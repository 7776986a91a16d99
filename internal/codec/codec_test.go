package codec_test

import (
	"bytes"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/fxamacker/cbor/v2"
	"pgregory.net/rapid"

	"github.com/holdfast-sdn/holdfast/internal/codec"
)

type inner struct {
	_     struct{} `cbor:",toarray"`
	Name  string
	Class Class
}

// Class is embedded.
type Class struct {
	Text string  `json:"text,omitempty"`
	Port uint16  `json:"port,omitempty"`
	VLAN *uint16 `json:"vlan,omitempty"`
	Note string
}

type kind uint8

type outer struct {
	_ struct{} `cbor:",toarray"`
	Class
	A       uint64
	B       int
	C       int64
	D       uint16
	E       bool
	F       float64
	K       kind
	Kinds   []kind
	Raw     []byte
	In      []inner
	At      *inner
	Names   []string
	Numbers []int32
	MACs    [][6]byte
	Z       uint32
}

// plain is a struct for which there is no plan.
type plain struct {
	A int
	B time.Time
	C map[string]int
	D [3]bool
}

func drawInner(t *rapid.T) (v inner) {
	v.Name = rapid.String().Draw(t, "name")
	v.Class = drawClass(t)
	return v
}

func drawClass(t *rapid.T) (c Class) {
	c.Text, c.Note = rapid.String().Draw(t, "text"), rapid.String().Draw(t, "note")
	c.Port = rapid.SampledFrom([]uint16{0, 7, 65535}).Draw(t, "port")
	if rapid.Bool().Draw(t, "there") {
		n := rapid.Uint16().Draw(t, "vlan")
		c.VLAN = &n
	}
	return c
}

// listOf draws a list, which may be nil.
func listOf[E any](t *rapid.T, of *rapid.Generator[E]) []E {
	if rapid.Bool().Draw(t, "nil") {
		return nil
	}
	return rapid.SliceOfN(of, 0, 30).Draw(t, "list")
}

func drawOuter(t *rapid.T) outer {
	v := outer{Class: drawClass(t), A: rapid.Uint64().Draw(t, "a"), B: rapid.Int().Draw(t, "b"),
		C: rapid.Int64().Draw(t, "c"), D: rapid.Uint16().Draw(t, "d"), E: rapid.Bool().Draw(t, "e"),
		F: rapid.Float64().Draw(t, "f"), K: kind(rapid.Uint8().Draw(t, "k")), Z: rapid.Uint32().Draw(t, "z"),
		Kinds: listOf(t, rapid.Custom(func(t *rapid.T) kind { return kind(rapid.Uint8().Draw(t, "kind")) })),
		Raw:   listOf(t, rapid.Byte()), In: listOf(t, rapid.Custom(drawInner)), Names: listOf(t, rapid.OneOf(rapid.String(),
			rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }))),
		Numbers: listOf(t, rapid.Int32()),
		MACs: listOf(t, rapid.Custom(func(t *rapid.T) [6]byte {
			return [6]byte(rapid.SliceOfN(rapid.Byte(), 6, 6).Draw(t, "mac"))
		}))}
	if rapid.Bool().Draw(t, "at") {
		in := drawInner(t)
		v.At = &in
	}
	if rapid.Bool().Draw(t, "odd") {
		v.F = rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1), math.Copysign(0, -1)}).Draw(t, "odd f")
	}
	return v
}

// encodes checks that the bytes of a value are those of fxamacker/cbor, and are it again.
func encodes[T any](t *rapid.T, v T) []byte {
	want, err := cbor.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	got, err := codec.Of[T]().Append([]byte("before"), &v)
	if err != nil || !bytes.Equal(got, append([]byte("before"), want...)) {
		t.Fatalf("%+v is %x, and %x (%v) of fxamacker/cbor", v, got[6:], want, err)
	}
	return want
}

// anyText is fxamacker/cbor with strings that need not be UTF-8.
var anyText, _ = cbor.DecOptions{UTF8: cbor.UTF8DecodeInvalid}.DecMode()

// parses checks that bytes are parsed as fxamacker/cbor does.
func parses[T any](t interface{ Fatalf(string, ...any) }, b []byte) {
	var want, got T
	wrong, failed := anyText.Unmarshal(b, &want), codec.Of[T]().Parse(bytes.Clone(b), &got)
	if (wrong == nil) != (failed == nil) || wrong != nil && wrong.Error() != failed.Error() {
		t.Fatalf("%x: %v, of fxamacker/cbor %v", b, failed, wrong)
	}
	again, _ := cbor.Marshal(got) // NaN is not equal to itself
	same, _ := cbor.Marshal(want)
	odd := bytes.Contains(b, []byte{0xf9})
	if wrong == nil && (!bytes.Equal(again, same) || !reflect.DeepEqual(got, want) && !odd) {
		t.Fatalf("%x is %+v, and %+v of fxamacker/cbor", b, got, want)
	}
}

// Values are encoded and decoded as by fxamacker/cbor, also after a few bytes are changed.
func TestAsFxamacker(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := encodes(t, drawOuter(t))
		parses[outer](t, b)
		for range rapid.IntRange(1, 3).Draw(t, "changes") {
			b[rapid.IntRange(0, len(b)-1).Draw(t, "at")] = rapid.Byte().Draw(t, "byte")
		}
		parses[outer](t, b[:rapid.IntRange(0, len(b)).Draw(t, "length")])
		parses[outer](t, append(b, 0))
	})
}

// What a plan cannot know is left to fxamacker/cbor.
func TestTypesWithoutPlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := plain{A: rapid.Int().Draw(t, "a"), B: time.Unix(rapid.Int64Range(0, 1<<40).Draw(t, "b"), 0).UTC(),
			C: map[string]int{"x": 1}, D: [3]bool{true}}
		parses[plain](t, encodes(t, v))
	})
	parses[[]string](t, encodes(&rapid.T{}, []string{"a", ""}))
	parses[[]**int](t, []byte{0x81, 0xf6})
}

// A parsed value keeps nothing of the bytes.
func TestParsedValuesAreTheirOwn(t *testing.T) {
	v := outer{Raw: []byte{1, 2}, Names: []string{"name"}}
	b, err := codec.Of[outer]().Append(nil, &v)
	if err != nil {
		t.Fatal(err)
	}
	var got outer
	if err := codec.Of[outer]().Parse(b, &got); err != nil {
		t.Fatal(err)
	}
	clear(b)
	if !reflect.DeepEqual(got, v) {
		t.Errorf("%+v became %+v", v, got)
	}
}

func FuzzParse(f *testing.F) {
	v := outer{A: 1 << 40, B: -7, Raw: []byte{1}, In: []inner{{Name: "x"}}, At: &inner{}}
	b, err := cbor.Marshal(v)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) { parses[outer](t, b) })
}

func BenchmarkCodec(b *testing.B) {
	v := outer{A: 1 << 40, B: 7, D: 1000, Names: []string{"learning"}, In: []inner{{Name: "x"}, {Name: "y"}}}
	data, err := cbor.Marshal(v)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("append", func(b *testing.B) {
		b.ReportAllocs()
		for c, dst := codec.Of[outer](), []byte(nil); b.Loop(); {
			dst, _ = c.Append(dst[:0], &v)
		}
	})
	b.Run("append by fxamacker", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = cbor.Marshal(v)
		}
	})
	b.Run("parse", func(b *testing.B) {
		b.ReportAllocs()
		for c := codec.Of[outer](); b.Loop(); {
			var v outer
			_ = c.Parse(data, &v)
		}
	})
	b.Run("parse by fxamacker", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var v outer
			_ = cbor.Unmarshal(data, &v)
		}
	})
}
