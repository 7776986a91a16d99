// Package codec turns values into CBOR (RFC 8949) and back: the same bytes that github.com/fxamacker/cbor makes of
// them, and the same values and errors, in a fraction of the time. It looks at a type once, and makes a plan of it.
//
// A plan knows booleans, numbers, strings, slices, arrays of bytes, pointers, and structs: as maps, or as arrays (with
// the option toarray). Values of all other types go to fxamacker/cbor, and so does each input that is not exactly what
// a plan writes. So this package decides nothing about the format, and reports no error of its own.
//
// Strings may have bytes that are not UTF-8, as in Go: what was written once must be readable ever after.
package codec

import (
	"reflect"
	"sync"
	"unsafe"

	"github.com/fxamacker/cbor/v2"
)

// Codec encodes and decodes values of one type. It is safe for concurrent use.
type Codec[T any] struct {
	name string
	plan *plan // nil: the type has none
}

var known sync.Map // of *Codec[T] by reflect.Type

// Of returns the codec of a type.
func Of[T any]() *Codec[T] {
	t := reflect.TypeFor[T]()
	if c, is := known.Load(t); is {
		return c.(*Codec[T])
	}
	c := &Codec[T]{name: NameOf(t)}
	if p, is := planOf(t, nil); is {
		c.plan = &p
	}
	first, _ := known.LoadOrStore(t, c)
	return first.(*Codec[T])
}

// NameOf returns the name of a type with the path of its package: two may end in the same word.
func NameOf(t reflect.Type) string {
	if t.Name() == "" {
		return t.String()
	}
	return t.PkgPath() + "." + t.Name()
}

// Name returns NameOf the type.
func (c *Codec[T]) Name() string { return c.name }

// Append appends a value.
func (c *Codec[T]) Append(dst []byte, v *T) ([]byte, error) {
	if c.plan != nil {
		return c.plan.append(dst, unsafe.Pointer(v)), nil
	}
	b, err := cbor.Marshal(*v)
	return append(dst, b...), err
}

// Parse decodes a value, which keeps nothing of b. v must be zero.
func (c *Codec[T]) Parse(b []byte, v *T) error {
	if c.plan != nil {
		if rest, is := c.plan.parse(b, unsafe.Pointer(v)); is && len(rest) == 0 {
			return nil
		}
		var zero T
		*v = zero
	}
	return anyText.Unmarshal(b, v)
}

// anyText decodes strings that are not UTF-8, too.
var anyText = func() cbor.DecMode {
	mode, err := cbor.DecOptions{UTF8: cbor.UTF8DecodeInvalid}.DecMode()
	if err != nil {
		panic(err) // the options are constant
	}
	return mode
}()
