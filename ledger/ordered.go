package ledger

import (
	"cmp"
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

// add adds an element.
func (o *ordered[T]) add(x T) {
	o.list = append(o.list, x)
	for i := len(o.list) - 1; i > 0; {
		parent := (i - 1) / 2
		if o.compare(o.list[parent], o.list[i]) <= 0 {
			return
		}
		o.list[i], o.list[parent] = o.list[parent], o.list[i]
		i = parent
	}
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

func noKeys() orderedKeys {
	return orderedKeys{ordered[uint64]{compare: cmp.Compare[uint64]}, ordered[Key]{compare: Key.Compare}}
}

func (o *orderedKeys) add(k Key) {
	if k == (Key{A: k.A}) {
		o.numbers.add(k.A)
	} else {
		o.others.add(k)
	}
}

func (o *orderedKeys) len() int { return o.numbers.len() + o.others.len() }

func (o *orderedKeys) next() (least Key, ok bool) {
	if n, ok := o.numbers.next(); ok {
		return Key{A: n}, true
	}
	return o.others.next()
}

// gathered is keys in order, which are put there some at a time, because there may be many.
type gathered struct {
	orderedKeys
	more func() ([]Key, bool) // the next ones, false at the end; nil: all are there
	want func(Key) bool       // which of them
}

func gather(more func() ([]Key, bool), want func(Key) bool) gathered {
	return gathered{noKeys(), more, want}
}

// some looks at keys that are not in order yet, about so many at most. It returns how many.
func (g *gathered) some(most int) (n int) {
	for g.more != nil && n < most {
		keys, ok := g.more()
		if !ok {
			g.more = nil
		}
		for _, k := range keys {
			if g.want(k) {
				g.add(k)
			}
		}
		n += max(len(keys), 1)
	}
	return n
}

// next returns the least key; false if there is none, or not all are in order yet.
func (g *gathered) next() (least Key, ok bool) {
	if g.more != nil {
		return least, false
	}
	return g.orderedKeys.next()
}

func (g *gathered) empty() bool { return g.more == nil && g.len() == 0 }
