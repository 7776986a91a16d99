package cells

import (
	"encoding/binary"
	"unsafe"
)

// value is the bytes of a field, which are never modified. Short ones, such as the number of a port, are in the value
// itself: they need no memory of their own, which the garbage collector would have to look at.
//
// The zero value is none.
type value struct {
	p *byte  // nil if the bytes are in n
	n uint64 // their number; or, in the bytes of n: up to maxShort bytes, and in the last one isShort and their number
}

const (
	maxShort = 7
	isShort  = 0x80
)

// valueOf makes a value of bytes, which belong to it afterwards.
func valueOf(b []byte) value {
	if len(b) > maxShort {
		return value{unsafe.SliceData(b), uint64(len(b))}
	}
	var short [8]byte
	copy(short[:maxShort], b)
	short[maxShort] = isShort | byte(len(b))
	return value{n: binary.LittleEndian.Uint64(short[:])}
}

func (v value) none() bool { return v.p == nil && v.n == 0 }

// short is n of a value in a map, which has p beside it.
type short uint64

// valueAt returns the value of a field.
func valueAt(p place[short]) value { return value{p.long(), uint64(*p.v())} }

// write writes a value where a field is.
func (v value) write(to place[short]) {
	*to.v() = short(v.n)
	to.setLong(v.p)
}

// shortLen returns how many bytes a short value has.
func (v value) shortLen() int { return int(v.n >> 56 & maxShort) }

// in returns the bytes of a value, which are in room if it is short.
func (v value) in(room *[8]byte) []byte {
	if v.p != nil {
		return v.long()
	}
	n := v.shortLen()
	binary.LittleEndian.PutUint64(room[:], v.n)
	return room[:n:n]
}

// len returns how many bytes a value has.
func (v value) len() int {
	if v.p != nil {
		return int(v.n)
	}
	return v.shortLen()
}

// long returns the bytes of a value that is not short.
//
// It is safe: p and n are set together, by valueOf only, to the beginning of a slice and to its length; p keeps that
// memory alive; and the capacity is cut off, so that nobody appends to it. FuzzTable tests it.
func (v value) long() []byte { return unsafe.Slice(v.p, v.n)[:v.n:v.n] }
