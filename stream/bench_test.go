package stream

import "testing"

// Events of 100 bytes pass through an outbox, in runs. Each run is acknowledged two runs later.
func BenchmarkOutbox(b *testing.B) {
	item := make([]byte, 100)
	run, lengths := make([]byte, 64*len(item)), make([]int, 64)
	for i := range lengths {
		lengths[i] = len(item)
	}
	b.Run("one by one", func(b *testing.B) {
		b.ReportAllocs()
		var o Outbox
		sent := uint64(0)
		for range b.N {
			n := o.Push(item)
			if n%64 == 0 {
				first, count, _ := o.Run(sent, n, 256<<10)
				sent = first + uint64(count) - 1
				_ = o.Ack(max(128, n) - 128)
			}
		}
	})
	b.Run("runs", func(b *testing.B) {
		b.ReportAllocs()
		var o Outbox
		sent := uint64(0)
		for i := 0; i < b.N; i += len(lengths) {
			o.PushRun(run, lengths)
			first, count, _ := o.Run(sent, o.Last(), 256<<10)
			sent = first + uint64(count) - 1
			_ = o.Ack(max(128, sent) - 128)
		}
	})
}

func TestNoAllocations(t *testing.T) {
	var o Outbox
	var w Watermark
	item := make([]byte, 100)
	turn := func() {
		for range 100 {
			n := o.Push(item)
			if _, err := w.Accept(n, 1); err != nil {
				t.Fatal(err)
			}
		}
		if err := o.Ack(o.Last() - 50); err != nil {
			t.Fatal(err)
		}
	}
	turn()
	if n := testing.AllocsPerRun(1000, turn); n > 0 {
		t.Errorf("%v allocations for 100 items", n)
	}
}
