package ledger

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
