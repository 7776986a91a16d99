package ledger

import (
	"cmp"
	"iter"
)

// ordered yields elements in order. It is a heap, so that the work of sorting is spread over the calls of next: to sort
// the keys of a large cell at once would hold up all inputs of the group.
type ordered[T any] struct {
	list    []T
	compare func(a, b T) int
}

// inOrder makes an ordered of a list, which belongs to it afterwards.
func inOrder[T any](list []T, compare func(a, b T) int) ordered[T] {
	o := ordered[T]{list, compare}
	for i := len(list)/2 - 1; i >= 0; i-- {
		o.down(i)
	}
	return o
}

func (o *ordered[T]) len() int { return len(o.list) }

// next removes and returns the least element; false if there is none.
func (o *ordered[T]) next() (least T, ok bool) {
	last := len(o.list) - 1
	if last < 0 {
		return least, false
	}
	least, o.list[0] = o.list[0], o.list[last]
	o.list = o.list[:last]
	o.down(0)
	return least, true
}

// down moves an element below those that are less.
func (o *ordered[T]) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(o.list) {
			return
		}
		if right := child + 1; right < len(o.list) && o.compare(o.list[right], o.list[child]) < 0 {
			child = right
		}
		if o.compare(o.list[i], o.list[child]) <= 0 {
			return
		}
		o.list[i], o.list[child] = o.list[child], o.list[i]
		i = child
	}
}

// orderedKeys is keys in order: first those that are one number. These are compared as numbers, several times as fast
// as whole keys.
type orderedKeys struct {
	numbers ordered[uint64]
	others  ordered[Key]
}

func keysInOrder(keys iter.Seq[Key]) orderedKeys {
	var numbers []uint64
	var others []Key
	for k := range keys {
		if k == (Key{A: k.A}) {
			numbers = append(numbers, k.A)
		} else {
			others = append(others, k)
		}
	}
	return orderedKeys{inOrder(numbers, cmp.Compare[uint64]), inOrder(others, Key.Compare)}
}

func (o *orderedKeys) len() int { return o.numbers.len() + o.others.len() }

func (o *orderedKeys) next() (least Key, ok bool) {
	if n, ok := o.numbers.next(); ok {
		return Key{A: n}, true
	}
	return o.others.next()
}
