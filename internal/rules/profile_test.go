package rules

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

// The profile for the compiler is of this source: at most a tenth of its hottest functions have gone since it was
// recorded. Its effect fades slowly, so the functions need not be the hottest any more.
func TestProfileIsOfThisSource(t *testing.T) {
	const hottest = 60
	code := declarations(t)
	functions := ownFunctions(t, "../../cmd/holdfast/cpu.pgo")
	if len(functions) < hottest {
		t.Fatalf("the profile has %d functions of this module, want %d: record it again with make profile",
			len(functions), hottest)
	}
	var gone []string
	for _, f := range functions[:hottest] {
		if !code.has(f) {
			gone = append(gone, f)
		}
	}
	if len(gone) > hottest/10 {
		t.Errorf("%d of the %d hottest functions in the profile have gone; record it again with make profile: %s",
			len(gone), hottest, strings.Join(gone, ", "))
	}
}

// has reports whether a function of a profile is declared. The name begins with the folder of the package.
func (d declared) has(function string) bool {
	slash := strings.LastIndex(function, "/") + 1
	pkg, name, _ := strings.Cut(function[slash:], ".")
	pkg = function[:slash] + pkg
	parts := strings.Split(receiverName.ReplaceAllString(strings.TrimSuffix(name, "-fm"), "$1."), ".")
	// a method, or a function with another in it
	return d.names[pkg][strings.Join(parts[:min(2, len(parts))], ".")] || d.names[pkg][parts[0]]
}

var (
	receiverName = regexp.MustCompile(`^\(\*?(\w+)\)\.`)
	typeArgument = regexp.MustCompile(`\[[^\[\]]*\]`)
)

// ownFunctions returns the functions of this module in a profile of pprof, without type arguments. Those in which most
// samples were taken, or in what they call, are first.
func ownFunctions(t *testing.T, path string) []string {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	zipped, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	profile, err := io.ReadAll(zipped)
	if err != nil {
		t.Fatal(err)
	}
	p := parsePprof(profile)
	samples := map[string]uint64{}
	for location, n := range p.samples {
		for _, id := range p.functions[location] {
			name, own := strings.CutPrefix(p.texts[p.names[id]], module)
			for typeArgument.MatchString(name) {
				name = typeArgument.ReplaceAllString(name, "")
			}
			if own {
				samples[name] += n
			}
		}
	}
	var list []string
	for name := range samples {
		list = append(list, name)
	}
	slices.SortFunc(list, func(a, b string) int {
		if samples[a] != samples[b] {
			return int(samples[b]) - int(samples[a])
		}
		return strings.Compare(a, b)
	})
	return list
}

// pprof is what is used of a profile (github.com/google/pprof, proto/profile.proto).
type pprof struct {
	samples   map[uint64]uint64   // by location
	functions map[uint64][]uint64 // at a location
	names     map[uint64]uint64   // of functions, in texts
	texts     []string
}

func parsePprof(b []byte) pprof {
	p := pprof{map[uint64]uint64{}, map[uint64][]uint64{}, map[uint64]uint64{}, nil}
	for _, f := range fields(b) {
		switch f.number {
		case 2: // sample: locations, values
			var at, values []uint64
			for _, s := range fields(f.bytes) {
				switch s.number {
				case 1:
					at = append(at, s.numbers()...)
				case 2:
					values = append(values, s.numbers()...)
				}
			}
			slices.Sort(at)
			for _, location := range slices.Compact(at) {
				p.samples[location] += values[0]
			}
		case 4: // location: id, lines with functions
			var id uint64
			for _, l := range fields(f.bytes) {
				switch l.number {
				case 1:
					id = l.value
				case 4:
					for _, line := range fields(l.bytes) {
						if line.number == 1 {
							p.functions[id] = append(p.functions[id], line.value)
						}
					}
				}
			}
		case 5: // function: id, name
			var id uint64
			for _, l := range fields(f.bytes) {
				switch l.number {
				case 1:
					id = l.value
				case 2:
					p.names[id] = l.value
				}
			}
		case 6:
			p.texts = append(p.texts, string(f.bytes))
		}
	}
	return p
}

// field is one of a protobuf message: bytes, or a value.
type field struct {
	number protowire.Number
	value  uint64
	bytes  []byte
}

// numbers are the values of a repeated field: packed, or one.
func (f field) numbers() (list []uint64) {
	if f.bytes == nil {
		return []uint64{f.value}
	}
	for b := bytes.Clone(f.bytes); len(b) > 0; {
		v, n := protowire.ConsumeVarint(b)
		if n < 0 {
			return list
		}
		list, b = append(list, v), b[n:]
	}
	return list
}

func fields(b []byte) (list []field) {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return list
		}
		b = b[n:]
		f := field{number: number}
		switch kind {
		case protowire.VarintType:
			f.value, n = protowire.ConsumeVarint(b)
		case protowire.BytesType:
			f.bytes, n = protowire.ConsumeBytes(b)
		default:
			n = protowire.ConsumeFieldValue(number, kind, b)
		}
		if n < 0 {
			return list
		}
		list, b = append(list, f), b[n:]
	}
	return list
}
