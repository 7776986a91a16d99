package of13

import (
	"iter"

	"github.com/holdfast-sdn/holdfast/openflow"
)

// List is a sequence of elements as wire bytes, such as the ports in a PORT_DESC reply. A list in a decoded message has
// been checked; the zero value is empty.
type List[T element[T]] []byte

// element is an element of a List. Its methods work on the zero value, except AppendTo.
type element[T any] interface {
	shape() shape
	// check checks the nested parts of the element at msg[off:end].
	check(msg []byte, off, end int) error
	// parse decodes the element that fills b, which was checked before.
	parse(b []byte) T
	// AppendTo appends the element.
	AppendTo(dst []byte) []byte
}

// shape is the length of an element: least bytes or, unless lenAt is negative, the 16 bits at lenAt, which must be at
// least that. If padded, zeros up to a multiple of 8 bytes follow, which that length does not count.
type shape struct {
	name   string
	least  int
	lenAt  int
	padded bool
}

const fixed = -1

// stated returns the length that the element at the start of b says it has.
func (s shape) stated(b []byte) int {
	if s.lenAt == fixed {
		return s.least
	}
	return int(u16(b[s.lenAt:]))
}

// length returns the stated length with the padding.
func (s shape) length(b []byte) int {
	if s.padded {
		return padded(s.stated(b))
	}
	return s.stated(b)
}

// All iterates over the elements, which alias the list.
func (l List[T]) All() iter.Seq[T] {
	return func(yield func(T) bool) {
		var t T
		s := t.shape()
		for b := l; len(b) >= s.least; {
			n := s.length(b)
			if !yield(t.parse(b[:n:n])) {
				return
			}
			b = b[n:]
		}
	}
}

// With returns the list with t appended.
func (l List[T]) With(t T) List[T] { return t.AppendTo(l) }

// Len counts the elements.
func (l List[T]) Len() int {
	n := 0
	var t T
	for s := t.shape(); len(l) >= s.least; l = l[s.length(l):] {
		n++
	}
	return n
}

// checkList checks the elements that fill msg[off:end].
func checkList[T element[T]](msg []byte, off, end int) error {
	var t T
	s := t.shape()
	for off < end {
		if end-off < s.least {
			return fail(msg, end, openflow.Truncated, "%s has at least %d bytes, %d left", s.name, s.least, end-off)
		}
		n := s.length(msg[off:])
		if s.stated(msg[off:]) < s.least || n > end-off {
			return fail(msg, off+s.lenAt, openflow.BadLength, "%s of %d bytes, %d left", s.name, n, end-off)
		}
		if err := t.check(msg, off, off+n); err != nil {
			return err
		}
		off += n
	}
	return nil
}
