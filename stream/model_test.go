package stream

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"
)

// model is an outbox in its simplest form: all items, and how many of them are acknowledged.
type model struct {
	items [][]byte
	acked int
	sent  [3]uint64 // for each of three readers, the last item that it was given
}

func (m *model) kept() []byte { return bytes.Join(m.items[m.acked:], nil) }

// For any sequence of operations an Outbox behaves like the model.
func TestOutboxModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var o Outbox
		var m model
		next := byte(0)
		item := func() []byte {
			next++
			return bytes.Repeat([]byte{next}, rapid.OneOf(rapid.IntRange(0, 40), rapid.IntRange(0, 3000)).Draw(t,
				"length"))
		}
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				m.items = append(m.items, item())
				if n := o.Push(m.items[len(m.items)-1]); n != uint64(len(m.items)) {
					t.Fatalf("item %d got the number %d", len(m.items), n)
				}
			},
			"push a run": func(t *rapid.T) {
				var run []byte
				var lengths []int
				for range rapid.IntRange(0, 40).Draw(t, "items") {
					x := item()
					m.items, run, lengths = append(m.items, x), append(run, x...), append(lengths, len(x))
				}
				o.PushRun(run, lengths)
			},
			"acknowledge": func(t *rapid.T) {
				n := rapid.IntRange(0, len(m.items)+1).Draw(t, "number")
				var out *RangeError
				switch err := o.Ack(uint64(n)); {
				case n > len(m.items):
					if !errors.As(err, &out) || out.Last != uint64(len(m.items)) {
						t.Fatalf("acknowledgement of %d of %d items: %v", n, len(m.items), err)
					}
				case err != nil:
					t.Fatal(err)
				default:
					m.acked = max(m.acked, n)
				}
			},
			"take back": func(t *rapid.T) {
				n := rapid.IntRange(max(0, m.acked-1), len(m.items)).Draw(t, "number")
				var out *RangeError
				switch err := o.TakeBack(uint64(n)); {
				case n < m.acked:
					if !errors.As(err, &out) || out.Acked != uint64(m.acked) {
						t.Fatalf("take-back to %d when %d are acknowledged: %v", n, m.acked, err)
					}
				case err != nil:
					t.Fatal(err)
				default:
					m.items = m.items[:n]
					for i := range m.sent {
						m.sent[i] = min(m.sent[i], uint64(n))
					}
				}
			},
			"read": func(t *rapid.T) {
				m.read(t, &o, rapid.IntRange(0, len(m.sent)-1).Draw(t, "reader"))
			},
			"connect again": func(t *rapid.T) { m.sent[rapid.IntRange(0, len(m.sent)-1).Draw(t, "reader")] = 0 },
			"snapshot": func(t *rapid.T) {
				encoded := o.AppendTo([]byte("before"))
				copied, rest, err := ParseOutbox(append(encoded, "behind"...)[len("before"):])
				if err != nil || string(rest) != "behind" {
					t.Fatalf("%v, rest %q", err, rest)
				}
				if again := copied.AppendTo([]byte("before")); !bytes.Equal(again, encoded) {
					t.Fatal("its own copy is encoded in another way")
				}
				o = copied
			},
			"": func(t *rapid.T) { m.check(t, &o) },
		})
	})
}

// read gives a reader the next run, and checks it.
func (m *model) read(t *rapid.T, o *Outbox, reader int) {
	upTo := rapid.IntRange(0, len(m.items)+1).Draw(t, "up to")
	most := rapid.OneOf(rapid.IntRange(0, 200), rapid.Just(math.MaxInt)).Draw(t, "bytes")
	if want := max(int(m.sent[reader]), m.acked) < len(m.items); o.Unsent(m.sent[reader]) != want {
		t.Fatalf("unsent is %t behind %d", !want, m.sent[reader])
	}
	first, count, run := o.Run(m.sent[reader], uint64(upTo), most)
	from := max(int(m.sent[reader]), m.acked)
	if first != uint64(from)+1 {
		t.Fatalf("reader that has %d got a run from %d on; %d are acknowledged", m.sent[reader], first, m.acked)
	}
	end := from
	for size := 0; end < min(upTo, len(m.items)); end++ {
		if size += len(m.items[end]); size > most && end > from {
			break
		}
	}
	if count != end-from || !bytes.Equal(run, bytes.Join(m.items[from:end], nil)) {
		t.Fatalf("run of %d items from %d on, %d bytes; want %d", count, first, len(run), end-from)
	}
	if count > 0 {
		m.sent[reader] = first + uint64(count) - 1
	}
}

func (m *model) check(t *rapid.T, o *Outbox) {
	kept := m.kept()
	if o.Len() != len(m.items)-m.acked || o.Acked() != uint64(m.acked) || o.Last() != uint64(len(m.items)) {
		t.Fatalf("keeps %d to %d, want %d to %d", o.Acked()+1, o.Last(), m.acked+1, len(m.items))
	}
	if !bytes.Equal(o.All(), kept) || o.Bytes() != len(kept) {
		t.Fatalf("keeps %d bytes, or other ones, want %d", o.Bytes(), len(kept))
	}
	for i, want := range m.items {
		if got := o.Item(uint64(i) + 1); i < m.acked && got != nil || i >= m.acked && !bytes.Equal(got, want) {
			t.Fatalf("item %d is %d bytes, want %d", i+1, len(got), len(want))
		}
	}
	if o.Item(0) != nil || o.Item(uint64(len(m.items))+1) != nil {
		t.Fatal("it has items that were never given")
	}
	bounds := Bounds{Items: o.Len() + 1, Bytes: o.Bytes() + 7}
	if n, size := o.Room(bounds); n != 1 || size != 7 || o.Full(bounds) {
		t.Fatalf("room for %d items and %d bytes, want 1 and 7", n, size)
	}
	if !o.Full(Bounds{o.Len(), math.MaxInt}) || !o.Full(Bounds{math.MaxInt, o.Bytes()}) {
		t.Fatal("not full at its bounds")
	}
}

// A Watermark accepts each number once, in order.
func TestWatermarkModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var w Watermark
		accepted := 0 // all items up to this one are accepted
		t.Repeat(map[string]func(*rapid.T){
			"run": func(t *rapid.T) {
				first, count := rapid.IntRange(1, accepted+4).Draw(t, "first"), rapid.IntRange(0, 5).Draw(t, "count")
				dropped, err := w.Accept(uint64(first), count)
				if first > accepted+1 {
					var gap *GapError
					if !errors.As(err, &gap) || *gap != (GapError{uint64(first), uint64(accepted) + 1}) {
						t.Fatalf("%d after %d: %v", first, accepted, err)
					}
				} else {
					if want := min(count, accepted+1-first); err != nil || dropped != want {
						t.Fatalf("%d from %d on after %d: %d dropped, %v; want %d", count, first, accepted, dropped,
							err, want)
					}
					accepted = max(accepted, first+count-1)
				}
			},
			"": func(t *rapid.T) {
				if w != Watermark(accepted) {
					t.Fatalf("watermark %d, want %d", w, accepted)
				}
			},
		})
	})
}

// The buffer that a stalled outbox once needed is released, and the part in use is kept.
func TestOutboxMemory(t *testing.T) {
	var o Outbox
	item := make([]byte, 1000)
	fill := func(bytes int) {
		for o.Bytes() < bytes {
			o.Push(item)
		}
		if cap(o.buf) > 2*o.Bytes()+keptBytes {
			t.Fatalf("a buffer of %d bytes for %d", cap(o.buf), o.Bytes())
		}
	}
	flush := func() {
		if err := o.Ack(o.Last()); err != nil {
			t.Fatal(err)
		}
	}
	fill(16 << 20)
	flush()
	if cap(o.buf) > mostBytes {
		t.Fatalf("it keeps %d bytes for no item", cap(o.buf))
	}
	fill(2 << 20)
	flush()
	if cap(o.buf) == 0 {
		t.Fatal("it forgets its buffer after each use")
	}
	o.Push(item)
	flush()
	if cap(o.buf) > keptBytes || len(o.ends) > 0 {
		t.Fatalf("it keeps %d bytes for an item of %d", cap(o.buf), len(item))
	}
	if n := o.Push(item); n != o.Last() || !bytes.Equal(o.Item(n), item) {
		t.Fatal("it has forgotten its numbers with its buffer")
	}
}

func TestOutboxAfter(t *testing.T) {
	o := OutboxAfter(41)
	if n := o.Push([]byte("x")); n != 42 || o.Acked() != 41 || string(o.Item(42)) != "x" {
		t.Fatalf("%d after %d", n, o.Acked())
	}
}

// Encoded outboxes that no outbox has written are an error, whatever their numbers are.
func TestParseOutboxErrors(t *testing.T) {
	numbers := func(list ...uint64) (b []byte) {
		for _, n := range list {
			b = binary.AppendUvarint(b, n)
		}
		return b
	}
	for name, b := range map[string][]byte{
		"nothing":                        nil,
		"no count":                       numbers(7),
		"more items than bytes":          numbers(0, 1),
		"no bytes for an item":           numbers(0, 1, 1),
		"bytes for one item of two":      append(numbers(0, 2, 2, 1), "ab"...),
		"lengths that add up to less":    numbers(0, 2, 10, 1<<63),
		"lengths that add up to nothing": numbers(0, 3, 20, math.MaxUint64-19, 0),
		"the last number that there is":  numbers(math.MaxUint64, 0),
		"items up to that":               append(numbers(math.MaxUint64-1, 1, 1), 'a'),
		"a number of more than 64 bits":  bytes.Repeat([]byte{0xff}, 20),
	} {
		if _, _, err := ParseOutbox(b); !errors.Is(err, ErrFormat) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzParseOutbox(f *testing.F) {
	var o Outbox
	f.Add(o.AppendTo(nil))
	o.PushRun([]byte("abcdef"), []int{1, 0, 5})
	f.Add(o.AppendTo(nil))
	if err := o.Ack(1); err != nil {
		f.Fatal(err)
	}
	f.Add(o.AppendTo(nil))
	f.Add(binary.AppendUvarint([]byte{0, 2, 10}, 1<<63))
	f.Fuzz(func(t *testing.T, b []byte) {
		o, rest, err := ParseOutbox(b)
		if err != nil {
			if !errors.Is(err, ErrFormat) {
				t.Fatal(err)
			}
			return
		}
		again, _, err := ParseOutbox(o.AppendTo(nil))
		if err != nil || len(rest) > len(b) || again.Len() != o.Len() || !bytes.Equal(again.All(), o.All()) {
			t.Fatalf("%v: not the same after another turn", err)
		}
	})
}
