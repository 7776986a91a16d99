package cells

import (
	"encoding/binary"
	"hash/maphash"
	"iter"
	"math/bits"
	"math/rand/v2"
	"slices"
	"unsafe"
)

// owner is who may modify a node in place. Its address is its identity.
type owner struct{ _ byte }

// hashed is a map by Key: extendible hashing. A directory, indexed by the first bits of the hash, has buckets. A full
// bucket is split in two, so growth never takes the time of all keys. It is shared by tables until one changes it: the
// struct with its directory, and each bucket, belong to an owner, and another one copies them first.
//
// A nil *hashed is empty, and can be read.
type hashed[V any] struct {
	owner *owner
	n     int   // keys
	shift uint8 // of a hash, to the index in dir: 64 minus the number of bits
	dir   []*bucket[V]

	sorted bool // order has the keys
	order  order
}

// bucketSize is how many keys a bucket has at most, and maxDepth how many bits a directory distinguishes. At that depth
// buckets grow. Nobody knows the seeds of the hash, so only chance could lead there.
const (
	bucketSize = 30
	maxDepth   = 28
)

// bucket is keys in any order. tags has a byte of the hash of each of the first bucketSize.
//
// In most buckets the keys are one number each, and the values are short. Then nothing but the list and the first 64
// bytes is used, which are one line of the processor's cache, and the list has no pointers for the garbage collector.
type bucket[V any] struct {
	list  []entry[V]
	owner *owner
	tags  [bucketSize]byte
	depth uint8   // the keys have the same so many first bits of the hash
	more  bool    // there is rest or long
	rest  []rest  // of the keys; nil if all are {}
	long  []*byte // pointers of the values; nil if all are nil
	_     [16]byte
}

type entry[V any] struct {
	a uint64
	v V
}

// place is where a key is, until the next change; the zero place is nowhere.
type place[V any] struct {
	in *bucket[V]
	i  int
}

// v returns where the value is.
func (p place[V]) v() *V { return &p.in.list[p.i].v }

// long returns the pointer beside the value.
func (p place[V]) long() *byte {
	if !p.in.more || p.in.long == nil {
		return nil
	}
	return p.in.long[p.i]
}

// setLong sets it.
func (p place[V]) setLong(to *byte) {
	switch b := p.in; {
	case b.more && b.long != nil:
		b.long[p.i] = to
	case to != nil:
		b.long, b.more = make([]*byte, len(b.list), cap(b.list)), true
		b.long[p.i] = to
	}
}

// The seeds are secret: an attacker who chooses keys must not know their hashes.
var (
	seeds    = [...]uint64{rand.Uint64(), rand.Uint64() | 1, rand.Uint64() | 1}
	textSeed = maphash.MakeSeed()
)

// hash multiplies a number twice: after one multiplication, keys in steps are in few buckets with some seeds.
func hash(k Key) uint64 {
	hi, lo := bits.Mul64(k.A^seeds[0], seeds[1])
	hi, lo = bits.Mul64(hi^lo^k.B, seeds[2])
	if k.S == "" {
		return hi ^ lo
	}
	return hi ^ lo ^ maphash.String(textSeed, k.S)
}

const eachByte = 0x0101010101010101

// word returns eight tags, or the last six.
func (b *bucket[V]) word(w int) uint64 {
	if t := b.tags[:]; w < bucketSize/8 {
		return binary.LittleEndian.Uint64(t[8*w:])
	}
	const at = bucketSize / 8 * 8
	return uint64(binary.LittleEndian.Uint32(b.tags[at:])) | uint64(binary.LittleEndian.Uint16(b.tags[at+4:]))<<32
}

// find returns the index of a key; -1 if it is not there.
func (b *bucket[V]) find(k Key, h uint64) int {
	pattern := h & 0xff * eachByte
	for w := 0; 8*w < min(len(b.list), bucketSize); w++ {
		x := b.word(w) ^ pattern
		// A zero byte of x is a match. A byte above one may be taken for one, so the key is compared too.
		for m := (x - eachByte) &^ x & (eachByte << 7); m != 0; m &= m - 1 {
			if i := 8*w + bits.TrailingZeros64(m)/8; i < len(b.list) && b.is(i, k) {
				return i
			}
		}
	}
	for i := bucketSize; i < len(b.list); i++ {
		if b.is(i, k) {
			return i
		}
	}
	return -1
}

func (b *bucket[V]) is(i int, k Key) bool {
	if b.list[i].a != k.A {
		return false
	}
	if !b.more || b.rest == nil {
		return k.B == 0 && k.S == ""
	}
	return b.rest[i].b == k.B && b.rest[i].s == k.S
}

func (b *bucket[V]) key(i int) Key {
	if !b.more || b.rest == nil {
		return Key{A: b.list[i].a}
	}
	return Key{b.list[i].a, b.rest[i].b, b.rest[i].s}
}

func (b *bucket[V]) setTag(i int, tag uint64) {
	if i < bucketSize {
		b.tags[i] = byte(tag)
	}
}

// add adds a key and returns where it is, with the zero value.
func (b *bucket[V]) add(k Key, h uint64) place[V] {
	i := len(b.list)
	if i == cap(b.list) {
		size := max(1, 2*i)
		if i < bucketSize {
			size = min(size, bucketSize)
		}
		b.list = append(make([]entry[V], 0, size), b.list...)
	}
	b.list = append(b.list, entry[V]{a: k.A})
	if b.more && b.long != nil {
		b.long = append(b.long, nil)
	}
	switch {
	case b.more && b.rest != nil:
		b.rest = append(b.rest, rest{k.B, k.S})
	case k.B != 0 || k.S != "":
		b.rest, b.more = make([]rest, len(b.list), cap(b.list)), true
		b.rest[i] = rest{k.B, k.S}
	}
	b.setTag(i, h&0xff)
	return place[V]{b, i}
}

// addFrom adds key i of another bucket, with its value.
func (b *bucket[V]) addFrom(from *bucket[V], i int, h uint64) {
	to := b.add(from.key(i), h)
	*to.v() = from.list[i].v
	to.setLong(place[V]{from, i}.long())
}

// remove removes a key. The last one takes its place.
func (b *bucket[V]) remove(i int) {
	last := len(b.list) - 1
	b.move(i, last, hash(b.key(last)))
	b.cut(last)
}

// room returns a copy with room for so many elements; nil of nil.
func room[T any](from []T, size int) []T {
	if from == nil {
		return nil
	}
	return append(make([]T, 0, size), from...)
}

// takeRoom copies what a bucket has, with room for so many keys.
func (b *bucket[V]) takeRoom(size int) {
	b.list, b.rest, b.long = room(b.list, size), room(b.rest, size), room(b.long, size)
}

func (m *hashed[V]) len() int {
	if m == nil {
		return 0
	}
	return m.n
}

// find returns where a key is; nowhere if it is not there.
func (m *hashed[V]) find(k Key) place[V] {
	if m == nil {
		return place[V]{}
	}
	h := hash(k)
	b := m.dir[h>>m.shift]
	if i := b.find(k, h); i >= 0 {
		return place[V]{b, i}
	}
	return place[V]{}
}

// owned returns a map with the same content that o may modify.
func (m *hashed[V]) owned(o *owner) *hashed[V] {
	switch {
	case m == nil:
		return &hashed[V]{owner: o, shift: 64, dir: []*bucket[V]{{owner: o}}}
	case m.owner == o:
		return m
	}
	c := *m
	c.owner, c.dir = o, room(m.dir, len(m.dir))
	return &c
}

// bucket returns the bucket for a hash, which may be modified. The map belongs to its owner.
func (m *hashed[V]) bucket(h uint64) *bucket[V] {
	b := m.dir[h>>m.shift]
	if b.owner != m.owner {
		c := *b
		c.owner = m.owner
		c.takeRoom(cap(b.list))
		b = &c
		m.set(h, b)
	}
	return b
}

// set makes b the bucket of all hashes that have the same first bits as h.
func (m *hashed[V]) set(h uint64, b *bucket[V]) {
	width := uint(1) << (64 - m.shift - b.depth)
	first := uint(h>>m.shift) &^ (width - 1)
	for i := range width {
		m.dir[first+i] = b
	}
}

// put returns where a key is, which is there afterwards, with the zero value if it is new. The map belongs to its
// owner.
func (m *hashed[V]) put(k Key) place[V] {
	h := hash(k)
	b := m.bucket(h)
	if i := b.find(k, h); i >= 0 {
		return place[V]{b, i}
	}
	for len(b.list) >= bucketSize && b.depth < maxDepth {
		m.split(h, b)
		b = m.dir[h>>m.shift]
	}
	m.n++
	if m.sorted {
		m.order.insert(m.owner, k)
	}
	return b.add(k, h)
}

// split divides a bucket by the next bit of the hash.
func (m *hashed[V]) split(h uint64, b *bucket[V]) {
	if 64-m.shift == b.depth {
		dir := make([]*bucket[V], 2*len(m.dir))
		for i, x := range m.dir {
			dir[2*i], dir[2*i+1] = x, x
		}
		m.dir = dir
		m.shift--
	}
	b.depth++
	bit := uint64(1) << (64 - b.depth)
	right := &bucket[V]{owner: m.owner, depth: b.depth, list: make([]entry[V], 0, bucketSize)}
	kept := 0
	for i := range b.list {
		if to := hash(b.key(i)); to&bit != 0 {
			right.addFrom(b, i, to)
		} else {
			b.move(kept, i, to)
			kept++
		}
	}
	b.cut(kept)
	m.set(h|bit, right)
}

// move moves key i to the place of another one that comes before it, or is gone.
func (b *bucket[V]) move(to, i int, h uint64) {
	b.list[to] = b.list[i]
	if b.more && b.rest != nil {
		b.rest[to] = b.rest[i]
	}
	if b.more && b.long != nil {
		b.long[to] = b.long[i]
	}
	b.setTag(to, h&0xff)
}

// cut removes the keys from i on.
func (b *bucket[V]) cut(i int) {
	clear(b.list[i:])
	b.list = b.list[:i]
	if b.more && b.rest != nil {
		clear(b.rest[i:])
		b.rest = b.rest[:i]
	}
	if b.more && b.long != nil {
		clear(b.long[i:])
		b.long = b.long[:i]
	}
}

// delete removes a key, which is there. The map belongs to its owner.
func (m *hashed[V]) delete(k Key) {
	h := hash(k)
	b := m.bucket(h)
	b.remove(b.find(k, h))
	if n := len(b.list); n < cap(b.list)/4 {
		b.takeRoom(2 * n)
		m.join(h, b)
	}
	m.n--
	if m.sorted {
		m.order.delete(m.owner, k)
	}
	if len(m.dir) > smallDir && m.n < len(m.dir)/8 {
		m.shrink()
	}
}

// smallDir is the length of a directory that is not made shorter.
const smallDir = 64

// shrink moves all keys, of which there are few, to a directory of the right length.
func (m *hashed[V]) shrink() {
	small := (*hashed[V])(nil).owned(m.owner)
	for k, from := range m.all() {
		to := small.put(k)
		*to.v() = *from.v()
		to.setLong(from.long())
	}
	m.shift, m.dir = small.shift, small.dir
}

// join makes one bucket of two small ones which were one before they were split.
func (m *hashed[V]) join(h uint64, b *bucket[V]) {
	for b.depth > 0 {
		o := m.dir[(h^1<<(64-b.depth))>>m.shift]
		if o.depth != b.depth || len(o.list)+len(b.list) > bucketSize/2 {
			return
		}
		b.depth--
		for i := range o.list {
			b.addFrom(o, i, hash(o.key(i)))
		}
		m.set(h, b)
	}
}

// all yields the keys, in any order, and where they are. The map must not change meanwhile.
func (m *hashed[V]) all() iter.Seq2[Key, place[V]] {
	return func(yield func(Key, place[V]) bool) {
		if m == nil {
			return
		}
		for i := uint(0); i < uint(len(m.dir)); {
			m.loadNext(i)
			b := m.dir[i]
			for j := range b.list {
				if !yield(b.key(j), place[V]{b, j}) {
					return
				}
			}
			i += 1 << (64 - m.shift - b.depth)
		}
	}
}

// aheadOf is how many places of the directory a scan looks ahead.
const aheadOf = 4

// loadNext has the processor load the keys of a bucket after place i of the directory, and a bucket further on, which
// has the address of its keys.
func (m *hashed[V]) loadNext(i uint) {
	if i += aheadOf; i+aheadOf < uint(len(m.dir)) {
		prefetch(unsafe.Pointer(m.dir[i+aheadOf]))
		prefetch(unsafe.Pointer(unsafe.SliceData(m.dir[i].list)))
	}
}

// inParts returns a function that yields the keys, a bucket at a time, and false at the end. The map must not change
// meanwhile. A slice is valid until the next call.
func (m *hashed[V]) inParts() func() ([]Key, bool) {
	i, keys := uint(0), []Key(nil)
	return func() ([]Key, bool) {
		if m == nil || i >= uint(len(m.dir)) {
			return nil, false
		}
		b := m.dir[i]
		i += 1 << (64 - m.shift - b.depth)
		keys = keys[:0]
		for j := range b.list {
			keys = append(keys, b.key(j))
		}
		return keys, true
	}
}

// without returns the map without a key, which is there; nil if it was the last one.
func (m *hashed[V]) without(o *owner, k Key) *hashed[V] {
	if m.n == 1 {
		return nil
	}
	m = m.owned(o)
	m.delete(k)
	return m
}

// sort makes order, which has the keys from then on. The map belongs to its owner.
func (m *hashed[V]) sort() {
	keys := make([]Key, 0, m.n)
	for k := range m.all() {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, Key.Compare)
	for _, k := range keys {
		m.order.insert(m.owner, k)
	}
	m.sorted = true
}

// few returns the keys from one on, in order.
func (m *hashed[V]) few(from Key) (keys []Key) {
	for k := range m.all() {
		if k.Compare(from) >= 0 {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, Key.Compare)
	return keys
}
