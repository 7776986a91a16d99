package cells

import "unsafe"

// Prefetch loads the cache lines of fields that will probably be read or written soon. Those of a large map are seldom
// in the cache, and one access after the other would wait for them. Here many are loaded at the same time. No field is
// changed, but like an access it is for the goroutine of the table.
//
// The zero Prefetch is empty.
type Prefetch struct {
	list [MaxPrefetch]look
	n    int
}

// MaxPrefetch is how many fields are looked for together.
const MaxPrefetch = 64

// look is a field, and where it will probably be.
type look struct {
	table       *Table
	cell, field Key
	hash        uint64
	to          **bucket[short] // in the directory; nil if the map is small
}

// Room reports whether Add has room.
func (p *Prefetch) Room() bool { return p.n < MaxPrefetch }

// Add adds a field, and keeps the table until Do. If there is no room it is left out.
func (p *Prefetch) Add(t *Table, cell, field Key) {
	if p.Room() {
		x := &p.list[p.n]
		x.table, x.cell, x.field = t, cell, field
		p.n++
	}
}

// Len returns how many fields were added since the last Do.
func (p *Prefetch) Len() int { return p.n }

// Do loads what was added, and empties the list.
func (p *Prefetch) Do() {
	p.load()
	p.empty()
}

func (p *Prefetch) load() {
	list := p.list[:p.n]
	for i := range list {
		list[i].loadDir()
	}
	for i := range list {
		list[i].loadBucket()
	}
	for i := range list {
		list[i].loadEntry()
	}
}

func (p *Prefetch) empty() {
	clear(p.list[:p.n])
	p.n = 0
}

// The following are the steps to a field. Each has the processor load what the next one needs, so it takes little time
// if other fields have that step in between.

func (l *look) loadDir() {
	c := l.table.cell(l.cell)
	if c == nil || c.fields == nil || l.field == (Key{}) || len(c.fields.dir) < smallDir {
		l.to = nil
		return
	}
	l.hash = hash(l.field)
	l.to = &c.fields.dir[l.hash>>c.fields.shift]
	prefetch(unsafe.Pointer(l.to))
}

func (l *look) loadBucket() {
	if l.to != nil {
		prefetch(unsafe.Pointer(*l.to))
	}
}

// loadEntry loads the entry, or where a new one would be.
func (l *look) loadEntry() {
	if l.to == nil {
		return
	}
	b := *l.to
	i := b.find(l.field, l.hash)
	if i < 0 {
		i = len(b.list)
	}
	if list := b.list[:cap(b.list)]; i < len(list) {
		prefetch(unsafe.Pointer(&list[i]))
	}
}
