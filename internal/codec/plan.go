package codec

import (
	"encoding"
	"encoding/binary"
	"math"
	"reflect"
	"slices"
	"unsafe"

	"github.com/fxamacker/cbor/v2"
)

// plan encodes and decodes what a pointer points to, which is of the type of the plan. parse returns what follows, and
// reports false if the bytes are not what append writes; what it has written by then is of no use.
type plan struct {
	append func(dst []byte, p unsafe.Pointer) []byte
	parse  func(b []byte, p unsafe.Pointer) (rest []byte, is bool)
}

// Major types (RFC 8949, section 3.1), and simple values.
const (
	unsigned byte = iota << 5
	negative
	byteString
	textString
	array
	mapping

	isFalse, isTrue, isNull, isFloat64 byte = 0xf4, 0xf5, 0xf6, 0xfb
)

// special are the interfaces of types that encode themselves.
var special = []reflect.Type{reflect.TypeFor[cbor.Marshaler](), reflect.TypeFor[cbor.Unmarshaler](),
	reflect.TypeFor[encoding.BinaryMarshaler](), reflect.TypeFor[encoding.BinaryUnmarshaler]()}

// planOf returns the plan of a type, if it has one. within are the types around it.
func planOf(t reflect.Type, within []reflect.Type) (plan, bool) {
	if slices.Contains(within, t) || slices.ContainsFunc(special, reflect.PointerTo(t).Implements) {
		return plan{}, false
	}
	within = append(within, t)
	switch t.Kind() {
	case reflect.Bool:
		return plan{appendBool, parseBool}, true
	case reflect.Int:
		return signed[int](), true
	case reflect.Int32:
		return signed[int32](), true
	case reflect.Int64:
		return signed[int64](), true
	case reflect.Uint8:
		return natural[uint8](), true
	case reflect.Uint16:
		return natural[uint16](), true
	case reflect.Uint32:
		return natural[uint32](), true
	case reflect.Uint64:
		return natural[uint64](), true
	case reflect.Float64:
		return plan{appendFloat, parseFloat}, true
	case reflect.String:
		return plan{appendText, parseText}, true
	case reflect.Pointer:
		return pointer(t, within)
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return plan{appendBytes, parseBytes}, true
		}
		return slice(t, within)
	case reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return bytesOf(t.Len()), true
		}
	case reflect.Struct:
		return structure(t, within)
	}
	return plan{}, false
}

// appendHead appends a major type with its number, in the fewest bytes.
func appendHead(dst []byte, major byte, n uint64) []byte {
	switch {
	case n < 24:
		return append(dst, major|byte(n))
	case n <= math.MaxUint8:
		return append(dst, major|24, byte(n))
	case n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(dst, major|25), uint16(n))
	case n <= math.MaxUint32:
		return binary.BigEndian.AppendUint32(append(dst, major|26), uint32(n))
	}
	return binary.BigEndian.AppendUint64(append(dst, major|27), n)
}

// head reads a major type with its number.
func head(b []byte) (major byte, n uint64, rest []byte, is bool) {
	if len(b) == 0 {
		return 0, 0, nil, false
	}
	major, n, b = b[0]&0xe0, uint64(b[0]&0x1f), b[1:]
	if n < 24 {
		return major, n, b, true
	}
	size := 1 << (n - 24)
	if n > 27 || len(b) < size {
		return 0, 0, nil, false
	}
	switch size {
	case 1:
		n = uint64(b[0])
	case 2:
		n = uint64(binary.BigEndian.Uint16(b))
	case 4:
		n = uint64(binary.BigEndian.Uint32(b))
	case 8:
		n = binary.BigEndian.Uint64(b)
	}
	return major, n, b[size:], true
}

func appendBool(dst []byte, p unsafe.Pointer) []byte {
	if *(*bool)(p) {
		return append(dst, isTrue)
	}
	return append(dst, isFalse)
}

func parseBool(b []byte, p unsafe.Pointer) ([]byte, bool) {
	if len(b) == 0 || b[0] != isFalse && b[0] != isTrue {
		return nil, false
	}
	*(*bool)(p) = b[0] == isTrue
	return b[1:], true
}

func natural[N uint8 | uint16 | uint32 | uint64]() plan {
	return plan{
		func(dst []byte, p unsafe.Pointer) []byte { return appendHead(dst, unsigned, uint64(*(*N)(p))) },
		func(b []byte, p unsafe.Pointer) ([]byte, bool) {
			major, n, b, is := head(b)
			*(*N)(p) = N(n)
			return b, is && major == unsigned && uint64(N(n)) == n
		},
	}
}

func signed[N int | int32 | int64]() plan {
	return plan{
		func(dst []byte, p unsafe.Pointer) []byte {
			n := int64(*(*N)(p))
			if n < 0 {
				return appendHead(dst, negative, uint64(^n))
			}
			return appendHead(dst, unsigned, uint64(n))
		},
		func(b []byte, p unsafe.Pointer) ([]byte, bool) {
			major, u, b, is := head(b)
			n := int64(u)
			if major == negative {
				n = ^n
			}
			*(*N)(p) = N(n)
			return b, is && major <= negative && u <= math.MaxInt64 && int64(N(n)) == n
		},
	}
}

func appendFloat(dst []byte, p unsafe.Pointer) []byte {
	f := *(*float64)(p)
	if math.IsNaN(f) || math.IsInf(f, 0) { // they have a short form
		b, _ := cbor.Marshal(f)
		return append(dst, b...)
	}
	return binary.BigEndian.AppendUint64(append(dst, isFloat64), math.Float64bits(f))
}

func parseFloat(b []byte, p unsafe.Pointer) ([]byte, bool) {
	if len(b) < 9 || b[0] != isFloat64 {
		return nil, false
	}
	*(*float64)(p) = math.Float64frombits(binary.BigEndian.Uint64(b[1:]))
	return b[9:], true
}

func appendText(dst []byte, p unsafe.Pointer) []byte {
	s := *(*string)(p)
	return append(appendHead(dst, textString, uint64(len(s))), s...)
}

func parseText(b []byte, p unsafe.Pointer) ([]byte, bool) {
	text, b, is := str(b, textString)
	if is {
		*(*string)(p) = string(text)
	}
	return b, is
}

// str reads a string of a major type.
func str(b []byte, want byte) (text, rest []byte, is bool) {
	major, n, b, is := head(b)
	if !is || major != want || n > uint64(len(b)) {
		return nil, nil, false
	}
	return b[:n], b[n:], true
}

func appendBytes(dst []byte, p unsafe.Pointer) []byte {
	s := *(*[]byte)(p)
	if s == nil {
		return append(dst, isNull)
	}
	return append(appendHead(dst, byteString, uint64(len(s))), s...)
}

func parseBytes(b []byte, p unsafe.Pointer) ([]byte, bool) {
	if len(b) > 0 && b[0] == isNull {
		return b[1:], true
	}
	text, b, is := str(b, byteString)
	if !is {
		return nil, false
	}
	*(*[]byte)(p) = append(make([]byte, 0, len(text)), text...)
	return b, true
}

// bytesOf is the plan of an array of so many bytes, such as an Ethernet address.
func bytesOf(n int) plan {
	return plan{
		func(dst []byte, p unsafe.Pointer) []byte {
			return append(appendHead(dst, byteString, uint64(n)), unsafe.Slice((*byte)(p), n)...)
		},
		func(b []byte, p unsafe.Pointer) ([]byte, bool) {
			text, b, is := str(b, byteString)
			if !is || len(text) != n {
				return nil, false
			}
			copy(unsafe.Slice((*byte)(p), n), text)
			return b, true
		},
	}
}

func pointer(t reflect.Type, within []reflect.Type) (plan, bool) {
	to, is := planOf(t.Elem(), within)
	if k := t.Elem().Kind(); k == reflect.Pointer || k == reflect.Slice { // nothing tells which of the two is nil
		return plan{}, false
	}
	return plan{
		func(dst []byte, p unsafe.Pointer) []byte {
			at := *(*unsafe.Pointer)(p)
			if at == nil {
				return append(dst, isNull)
			}
			return to.append(dst, at)
		},
		func(b []byte, p unsafe.Pointer) ([]byte, bool) {
			if len(b) > 0 && b[0] == isNull {
				return b[1:], true
			}
			at := reflect.New(t.Elem()).UnsafePointer()
			*(*unsafe.Pointer)(p) = at
			return to.parse(b, at)
		},
	}, is
}

// maxElements bounds a slice, as it does by default in fxamacker/cbor.
const maxElements = 131_072

// header is how a slice is in memory.
type header struct {
	first    unsafe.Pointer
	len, cap int
}

func slice(t reflect.Type, within []reflect.Type) (plan, bool) {
	of, is := planOf(t.Elem(), within)
	size := t.Elem().Size()
	return plan{
		func(dst []byte, p unsafe.Pointer) []byte {
			s := (*header)(p)
			if s.first == nil {
				return append(dst, isNull)
			}
			dst = appendHead(dst, array, uint64(s.len))
			for i := range s.len {
				dst = of.append(dst, unsafe.Add(s.first, uintptr(i)*size))
			}
			return dst
		},
		func(b []byte, p unsafe.Pointer) ([]byte, bool) {
			if len(b) > 0 && b[0] == isNull {
				return b[1:], true
			}
			major, n, b, is := head(b)
			if !is || major != array || n > min(uint64(len(b)), maxElements) {
				return nil, false
			}
			made := reflect.MakeSlice(t, int(n), int(n))
			reflect.NewAt(t, p).Elem().Set(made)
			first := made.UnsafePointer()
			for i := range int(n) {
				if b, is = of.parse(b, unsafe.Add(first, uintptr(i)*size)); !is {
					return nil, false
				}
			}
			return b, true
		},
	}, is && size > 0
}
