package cells

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
)

// plain is a table as a plain map.
type plain map[[2]Key]string

func compare(a, b [2]Key) int {
	if c := a[0].Compare(b[0]); c != 0 {
		return c
	}
	return a[1].Compare(b[1])
}

func (p plain) cells(from Key) (list []Key) {
	for at := range p {
		if at[0].Compare(from) >= 0 && !slices.Contains(list, at[0]) {
			list = append(list, at[0])
		}
	}
	slices.SortFunc(list, Key.Compare)
	return list
}

func (p plain) check(t *testing.T, got *Table) {
	t.Helper()
	all := plain{}
	for at, v := range got.All() {
		all[at] = string(v)
	}
	if !maps.Equal(all, p) {
		t.Fatalf("All has %d fields, want %d, or other values", len(all), len(p))
	}
	clear(all)
	for at, v := range got.Scan() {
		all[at] = string(v)
	}
	if !maps.Equal(all, p) || got.Rows() != len(p) {
		t.Fatalf("Scan has %d fields, and Rows says %d; want %d, or other values", len(all), got.Rows(), len(p))
	}
	sorted, i := slices.SortedFunc(maps.Keys(p), compare), 0
	for at, v := range got.Sorted() {
		if i == len(sorted) || at != sorted[i] || string(v) != p[at] {
			t.Fatalf("field %d of all is %v = %q; want %v", i, at, v, sorted[min(i, len(sorted)-1):])
		}
		i++
	}
	if i != len(sorted) {
		t.Fatalf("%d fields, want %d", i, len(sorted))
	}
	cells := slices.SortedFunc(got.Cells(), Key.Compare)
	if want := p.cells(Key{}); got.Len() != len(want) || !slices.Equal(cells, want) {
		t.Fatalf("%d cells, %v; want %v", got.Len(), cells, want)
	}
	checkHashed(t, got.cells)
	for _, at := range got.cells.all() {
		checkHashed(t, at.v().fields)
	}
}

// checkHashed checks what holds for each map.
func checkHashed[V any](t *testing.T, m *hashed[V]) {
	t.Helper()
	if m == nil {
		return
	}
	total := 0
	for i := uint(0); i < uint(len(m.dir)); {
		b := m.dir[i]
		width := uint(1) << (64 - m.shift - b.depth)
		for _, same := range m.dir[i : i+width] {
			if same != b {
				t.Fatalf("a bucket of depth %d is not at all %d places from %d on", b.depth, width, i)
			}
		}
		for j := range b.list {
			h := hash(b.key(j))
			if m.dir[h>>m.shift] != b || b.find(b.key(j), h) != j {
				t.Fatalf("key %v is in another bucket, or not found there", b.key(j))
			}
		}
		if b.more != (b.rest != nil || b.long != nil) || b.rest != nil && len(b.rest) != len(b.list) ||
			b.long != nil && len(b.long) != len(b.list) {
			t.Fatalf("a bucket of %d keys has the rest of %d and pointers of %d, more: %v", len(b.list), len(b.rest),
				len(b.long), b.more)
		}
		total += len(b.list)
		i += width
	}
	if total != m.n || total == 0 {
		t.Fatalf("a map of %d keys has %d", m.n, total)
	}
	if !m.sorted {
		return
	}
	if n := checkOrder(t, m.order.root, nil); n != total {
		t.Fatalf("%d keys of %d are in order", n, total)
	}
}

// checkOrder checks what holds for a node, and returns how many keys it has.
func checkOrder(t *testing.T, n *node, above *Key) (total int) {
	t.Helper()
	if len(n.keys) == 0 || len(n.keys) > maxKeys || n.kids != nil && len(n.kids) != len(n.keys) {
		t.Fatalf("a node has %d keys and %d nodes", len(n.keys), len(n.kids))
	}
	for i, k := range n.keys {
		if i > 0 && n.keys[i-1].Compare(k) >= 0 || above != nil && k.Compare(*above) < 0 {
			t.Fatalf("key %v is after %v, and below %v", k, n.keys[:i], above)
		}
		if n.kids != nil {
			total += checkOrder(t, n.kids[i], &k)
		}
	}
	if n.kids == nil {
		return len(n.keys)
	}
	return total
}

// script turns bytes into numbers: 0 after the last one.
type script struct{ b []byte }

func (s *script) next(n int) int {
	if len(s.b) == 0 {
		return 0
	}
	x := int(s.b[0])
	s.b = s.b[1:]
	return x % n
}

func (s *script) key(n int) Key {
	switch x := s.next(n); s.next(4) {
	case 0:
		return Key{A: uint64(x), B: 1}
	case 1:
		return Key{S: strconv.Itoa(x)}
	default:
		return Key{A: uint64(x)}
	}
}

func (s *script) value() []byte {
	return bytes.Repeat([]byte{byte(s.next(256))}, s.next(20))
}

// run executes a script on a table, clones of it and plain maps, and checks that they agree.
func run(t *testing.T, b []byte) {
	s := &script{b}
	table, want := new(Table), plain{}
	var clones []*Table
	var wants []plain
	held := map[string]string{} // values that were read, and what they were
	for len(s.b) > 0 {
		cell, field := s.key(3+s.next(60)), s.key(3+s.next(250))
		switch s.next(13) {
		case 0, 1, 2, 3, 4, 5:
			v := s.value()
			switch s.next(3) {
			case 0:
				table.Put(cell, field, v)
			case 1:
				swap(t, table, want, cell, field, v)
			case 2:
				writeTogether(table, want, cell, v, s)
				table.Put(cell, field, v)
			}
			want[[2]Key{cell, field}] = string(v)
			clear(v) // it was copied
		case 6, 7:
			table.Delete(cell, field)
			delete(want, [2]Key{cell, field})
		case 8:
			moveCell(table, want, cell, s.key(64), s.next(2) == 0)
		case 9:
			if len(clones) < 8 {
				clones, wants = append(clones, table.Clone()), append(wants, maps.Clone(want))
			} else { // the copy goes on
				table, clones[0] = clones[0], table
				want, wants[0] = wants[0], want
			}
		case 10:
			changeInLoop(t, table, want, cell, s)
		case 11:
			if v, ok := table.Get(cell, field); ok && len(held) < 1000 {
				held[string(binary.AppendUvarint(nil, uint64(len(held))))+string(v)] = string(v)
			}
		case 12:
			prefetchSome(table, cell, s)
		}
		v, ok := table.Get(cell, field)
		if w, there := want[[2]Key{cell, field}]; ok != there || string(v) != w || ok && v == nil {
			t.Fatalf("%v %v = %q, %v; want %q, %v", cell, field, v, ok, w, there)
		}
	}
	want.check(t, table)
	for i, c := range clones {
		wants[i].check(t, c)
	}
}

// swap writes a value, and checks what it is told of the one before.
func swap(t *testing.T, table *Table, want plain, cell, field Key, v []byte) {
	before, there := want[[2]Key{cell, field}]
	old, existed, changed := table.Swap(cell, field, v, false)
	if string(old) != before || existed != there || changed != (!there || before != string(v)) {
		t.Fatalf("%v %v was %q, %v, and %q is another value: %v; want %q, %v", cell, field, old, existed, v, changed, before,
			there)
	}
}

// writeTogether writes some fields of a cell and of another one.
func writeTogether(table *Table, want plain, cell Key, v []byte, s *script) {
	var w Writes
	for range s.next(2 * MaxPrefetch) {
		field, v := s.key(250), v[:s.next(len(v)+1)]
		if !w.Add(table, cell, field, v, false) {
			w.Do()
		}
		want[[2]Key{cell, field}] = string(v)
		if s.next(8) == 0 {
			cell = s.key(60)
		}
	}
	w.Do()
}

// prefetchSome prefetches some fields, which are there or not: it changes nothing.
func prefetchSome(table *Table, cell Key, s *script) {
	var p Prefetch
	for range s.next(2 * MaxPrefetch) {
		p.Add(table, cell, s.key(250))
		if s.next(8) == 0 {
			cell = s.key(60)
		}
	}
	p.Do()
}

// moveCell moves a cell to another key, or to another table and back.
func moveCell(table *Table, want plain, from, to Key, other bool) {
	taken := table.Take(from)
	if other {
		var o Table
		o.Put(to, Key{A: 1}, []byte("x"))
		o.Set(to, taken)
		o.Put(to, Key{A: 1 << 40}, []byte("12345678"))
		o.Delete(to, Key{A: 1 << 40})
		taken = o.Take(to)
	}
	table.Set(to, taken)
	moved := plain{}
	for at, v := range want {
		if at[0] == from {
			moved[[2]Key{to, at[1]}] = v
		}
	}
	for at := range want {
		if at[0] == from || at[0] == to {
			delete(want, at)
		}
	}
	maps.Copy(want, moved)
}

// changeInLoop changes a table in loops over it, which yield what there was at their beginning.
func changeInLoop(t *testing.T, table *Table, want plain, cell Key, s *script) {
	before, cells := maps.Clone(want), 0
	for k := range table.Cells() {
		if before.cells(k)[0] != k {
			t.Fatalf("%v is not a cell", k)
		}
		cells++
		from, first, last := s.key(200), true, Key{}
		for f, v := range table.Range(k, from) {
			w, there := want[[2]Key{k, f}]
			if _, before := before[[2]Key{k, f}]; !there || w != string(v) || cells == 1 && !before ||
				f.Compare(from) < 0 || !first && f.Compare(last) <= 0 {
				t.Fatalf("from %v, after %v: %v %v = %q; want %q, %v", from, last, k, f, v, w, there)
			}
			if first, last = false, f; s.next(20) == 0 {
				break
			}
			for _, x := range []Key{s.key(60), k} {
				f := s.key(200)
				table.Put(x, f, []byte("in a loop"))
				want[[2]Key{x, f}] = "in a loop"
			}
			f = s.key(200)
			table.Delete(k, f)
			delete(want, [2]Key{k, f})
		}
		if s.next(5) == 0 {
			return
		}
	}
	if n := len(before.cells(Key{})); cells != n {
		t.Fatalf("%d cells in a loop, of %d", cells, n)
	}
}

func TestTableIsAMap(t *testing.T) {
	for seed := range 100 {
		r := rand.New(rand.NewPCG(uint64(seed), 1))
		b := make([]byte, 1+r.IntN(12_000))
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		run(t, b)
	}
}

func FuzzTable(f *testing.F) {
	f.Add([]byte("some operations, which are bytes, one after the other"))
	f.Fuzz(func(t *testing.T, b []byte) { run(t, b[:min(len(b), 1<<14)]) })
}

// Many keys, in several orders, there and gone again.
func TestManyKeys(t *testing.T) {
	const many = 20_000
	for name, key := range map[string]func(int) Key{
		"rising":  func(i int) Key { return Key{A: uint64(i) + 1} },
		"falling": func(i int) Key { return Key{A: uint64(many - i)} },
		"mixed":   func(i int) Key { return Key{A: uint64(i) * 0x9e3779b97f4a7c15} },
		"text":    func(i int) Key { return Key{S: fmt.Sprint("host-", i*7919%many)} },
		"pairs":   func(i int) Key { return Key{A: uint64(i % 7), B: uint64(i)} },
	} {
		t.Run(name, func(t *testing.T) {
			table, want := new(Table), plain{}
			var w Writes
			var p Prefetch
			for i := range many {
				if p.Add(table, Key{A: 1}, key(i*31)); p.Len() == MaxPrefetch/2 {
					p.Do()
				}
				if !w.Add(table, Key{A: 1}, key(i), []byte(strconv.Itoa(i)), i%2 == 0) {
					w.Do()
				}
				want[[2]Key{{A: 1}, key(i)}] = strconv.Itoa(i)
			}
			w.Do()
			if n := table.Count(Key{A: 1}); n != many {
				t.Fatalf("%d fields", n)
			}
			for range 2 { // the second time they are in order already
				for i := range many - 10 {
					table.Delete(Key{A: 1}, key((i*7919+13)%many))
					delete(want, [2]Key{{A: 1}, key((i*7919 + 13) % many)})
				}
				want.check(t, table)
				for i := range many {
					table.Put(Key{A: 1}, key(i), []byte(strconv.Itoa(i)))
					want[[2]Key{{A: 1}, key(i)}] = strconv.Itoa(i)
				}
				want.check(t, table)
			}
			table.Take(Key{A: 1})
			plain{}.check(t, table)
		})
	}
}

// Parts have the keys that there were in the beginning, whatever happens to the table meanwhile.
func TestInParts(t *testing.T) {
	for _, many := range []uint64{0, 1, few, few + 1, 5000} {
		table := new(Table)
		fill := func(from uint64) {
			for i := range many {
				table.Put(Key{A: 1}, Key{A: from + i}, []byte("field"))
				table.Put(Key{A: from + i}, Key{}, []byte("plain"))
			}
		}
		fill(0)
		cells, fields := slices.Sorted(toNumbers(table.Cells())), slices.Sorted(toNumbers(table.Fields(Key{A: 1})))
		nextCells := table.CellsInParts()
		fill(0) // so that nothing is shared
		nextFields := table.FieldsInParts(Key{A: 1})
		var gotCells, gotFields []uint64
		next := many
		take := func(from func() ([]Key, bool), list *[]uint64) bool {
			keys, ok := from()
			*list = slices.AppendSeq(*list, toNumbers(slices.Values(keys)))
			return ok
		}
		for n := 0; take(nextCells, &gotCells) || take(nextFields, &gotFields); n++ {
			if n == 0 {
				fill(many) // splits buckets
			}
			table.Delete(Key{A: 1}, Key{A: next - many})
			table.Take(Key{A: next})
			next++
		}
		slices.Sort(gotCells)
		slices.Sort(gotFields)
		if !slices.Equal(gotCells, cells) || !slices.Equal(gotFields, fields) {
			t.Errorf("%d: cells %v, want %v; fields %v, want %v", many, gotCells, cells, gotFields, fields)
		}
	}
}

func toNumbers(keys iter.Seq[Key]) iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		for k := range keys {
			if !yield(k.A) {
				return
			}
		}
	}
}

// What is gone gives back its memory.
func TestFewKeysOfMany(t *testing.T) {
	var table Table
	for i := range uint64(20_000) {
		table.Put(Key{A: 1}, Key{A: i + 1}, []byte("value"))
	}
	for range table.Range(Key{A: 1}, Key{}) {
		break // from now on they are in order
	}
	for i := range uint64(20_000 - 10) {
		table.Delete(Key{A: 1}, Key{A: i + 1})
	}
	m, buckets, room := table.cell(Key{A: 1}).fields, map[*bucket[short]]bool{}, 0
	for _, b := range m.dir {
		if !buckets[b] {
			buckets[b], room = true, room+cap(b.list)
		}
	}
	if room > 200 {
		t.Errorf("room for %d keys, in %d buckets, has the last 10", room, len(buckets))
	}
	if len(m.dir) > smallDir {
		t.Errorf("a directory of %d buckets has them", len(m.dir))
	}
	if n := len(m.order.root.kids); n > 3 {
		t.Errorf("%d nodes have them in order", n)
	}
}

// Keys in steps are spread, whatever the seeds are.
func TestKeysInSteps(t *testing.T) {
	for shift := range 45 {
		var table Table
		for i := range uint64(2000) {
			table.Put(Key{}, Key{A: (i + 1) << shift}, []byte("v"))
		}
		if n := len(table.cell(Key{}).fields.dir); n > 2048 {
			t.Errorf("2000 keys in steps of 1<<%d have a directory of %d", shift, n)
		}
	}
}

// Keys that share a bucket at the greatest depth have room all the same.
func TestEqualHashes(t *testing.T) {
	b := &bucket[int]{}
	for i := range 3 * bucketSize {
		*b.add(Key{A: uint64(i)}, 7).v() = i
	}
	for i := range 3 * bucketSize {
		if at := b.find(Key{A: uint64(i)}, 7); at < 0 || b.list[at].v != i {
			t.Fatalf("key %d is at %d", i, at)
		}
	}
}

// A clone is used in another goroutine while the table changes: for the race detector.
func TestCloneInAnotherGoroutine(t *testing.T) {
	var table Table
	for i := range 5000 {
		table.Put(Key{A: uint64(i % 3)}, Key{A: uint64(i)}, []byte("before, and long"))
	}
	clone, done := table.Clone(), make(chan int)
	go func() {
		n := 0
		for _, v := range clone.All() {
			if string(v) == "before, and long" {
				n++
			}
		}
		done <- n
	}()
	for i := range 5000 {
		table.Put(Key{A: uint64(i % 5)}, Key{A: uint64(i)}, []byte("after"))
		table.Delete(Key{A: uint64(i % 3)}, Key{A: uint64(i + 7)})
	}
	if n := <-done; n != 5000 {
		t.Errorf("the clone has %d values of before", n)
	}
}
