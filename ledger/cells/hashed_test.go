package cells

import (
	"testing"
	"unsafe"
)

// These come first: with a bug of buckets, the tests of tables may not end.

// beginning returns keys whose hashes begin with so many bits.
func beginning(first uint64, length, n int) (keys []Key) {
	for a := uint64(1); len(keys) < n; a++ {
		if k := (Key{A: a}); hash(k)>>(64-length) == first {
			keys = append(keys, k)
		}
	}
	return keys
}

// What most accesses of a bucket need is in one line of the cache, and the allocator places buckets at the beginning of
// one.
func TestTableBucketsBeginWithALine(t *testing.T) {
	const line = 64
	var b bucket[short]
	at, size := unsafe.Offsetof(b.rest), unsafe.Sizeof(b)
	if unsafe.Sizeof(uintptr(0)) == 8 && (at != line || size != 2*line) {
		t.Errorf("a bucket has %d bytes, the first line %d", size, at)
	}
}

// A bucket is divided while the directory distinguishes more bits than it.
func TestTableBucketsHaveTheirPlaces(t *testing.T) {
	m := (*hashed[int])(nil).owned(new(owner))
	for _, k := range append(beginning(0b000, 3, bucketSize+1), beginning(0b1, 1, bucketSize+1)...) {
		*m.put(k).v() = 1
		checkHashed(t, m)
	}
	if len(m.dir) < 16 {
		t.Errorf("the directory has %d places", len(m.dir))
	}
}

// A map and its copy change apart from each other.
func TestTableBucketsAreCopied(t *testing.T) {
	m := (*hashed[int])(nil).owned(new(owner))
	for a := range uint64(10) {
		*m.put(Key{A: a}).v() = 1
	}
	c := m.owned(new(owner))
	*c.put(Key{A: 5}).v() = 2
	*c.put(Key{A: 50}).v() = 2
	c.delete(Key{A: 7})
	if *m.find(Key{A: 5}).v() != 1 || m.find(Key{A: 7}).in == nil || m.find(Key{A: 50}).in != nil {
		t.Error("a map has the changes of its copy")
	}
	if *c.find(Key{A: 5}).v() != 2 || c.find(Key{A: 7}).in != nil || c.find(Key{A: 50}).in == nil {
		t.Error("a copy does not have its changes")
	}
}
