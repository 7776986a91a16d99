package replay

import (
	"bytes"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/ryu/wire"
)

// messageInput returns an input of about this size.
func messageInput(number uint64, size int) []byte {
	body := bytes.Repeat([]byte{byte(number), byte(number >> 8), 3}, size/3)
	return (&wire.Input{Number: number, Time: int64(number) * 10, Kind: wire.Message, Switch: 1,
		Message: body}).Append(nil)
}

func timerInput(number uint64) []byte {
	return (&wire.Input{Number: number, Time: int64(number) * 10, Kind: wire.Timer}).Append(nil)
}

// TestHistory compares the history with a plain list of inputs.
func TestHistory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := newHistory()
		var all [][]byte // all inputs so far
		var digests []uint32
		var skipped = map[uint64]bool{}
		var lent, copies [][]byte // slices that readers hold, and their original content
		base := uint64(0)
		t.Repeat(map[string]func(*rapid.T){
			"append": func(t *rapid.T) {
				count := rapid.SampledFrom([]int{1, 3, 100}).Draw(t, "count")
				size := rapid.SampledFrom([]int{3, 300, 2000, 70_000}).Draw(t, "size")
				for range min(count, 1+200_000/size) {
					in := messageInput(uint64(len(all)+1), size)
					if err := h.append(uint64(len(all)+1), in); err != nil {
						t.Fatal(err)
					}
					all = append(all, in)
				}
			},
			"append out of turn": func(t *rapid.T) {
				n := uint64(len(all) + 1 + rapid.SampledFrom([]int{-1, 1, 10}).Draw(t, "off"))
				if err := h.append(n, messageInput(n, 9)); err == nil {
					t.Fatalf("input %d after %d: %v", n, len(all), err)
				}
			},
			"result": func(t *rapid.T) {
				n := uint64(len(digests) + 1)
				err := h.result(n, uint32(n*7))
				if (err == nil) != (n <= uint64(len(all))) || h.result(n+1, 0) == nil && n+1 > uint64(len(all)) {
					t.Fatalf("result %d of %d: %v", n, len(all), err)
				}
				if err == nil {
					digests = append(digests, uint32(n*7))
				}
				if h.results() > uint64(len(digests)) {
					digests = append(digests, 0)
				}
			},
			"skip": func(t *rapid.T) {
				n := uint64(rapid.IntRange(1, len(all)+1).Draw(t, "number"))
				h.skip(n)
				skipped[n] = true
			},
			"trim": func(t *rapid.T) {
				if len(digests) > int(base) {
					base = uint64(rapid.IntRange(int(base)+1, len(digests)).Draw(t, "number"))
					h.trim(base, []byte("state"))
				}
			},
			"again": func(t *rapid.T) { h = again(t, &h, base) },
			"read": func(t *rapid.T) {
				number := uint64(rapid.IntRange(0, len(all)+1).Draw(t, "number"))
				count, size := rapid.IntRange(0, 300).Draw(t, "count"),
					rapid.SampledFrom([]int{0, 1, 500, 1 << 20}).Draw(t, "size")
				data, n, err := h.inputs(number, count, size)
				if err != nil {
					t.Fatal(err)
				}
				if none := number <= base || number > uint64(len(all)) || count == 0; none != (n == 0) || n > count {
					t.Fatalf("%d inputs from %d of %d to %d", n, number, base, len(all))
				}
				var want []byte
				for i := range uint64(n) {
					if skipped[number+i] {
						want = append(want, timerInput(number+i)...)
					} else {
						want = append(want, all[number+i-1]...)
					}
				}
				if !bytes.Equal(data, want) {
					t.Fatalf("%d inputs from %d are %d bytes, want %d", n, number, len(data), len(want))
				}
				if raw := bytes.Join(all[max(number, 1)-1:max(number, 1)-1+uint64(max(n-1, 0))], nil); len(raw) > size {
					t.Fatalf("%d inputs from %d: more than one are beyond %d bytes", n, number, size)
				}
				lent, copies = append(lent, data), append(copies, bytes.Clone(data))
			},
			"": func(t *rapid.T) {
				if h.last() != uint64(len(all)) || h.results() != max(uint64(len(digests)), base) || h.base != base {
					t.Fatalf("%d inputs, %d results from %d; want %d, %d from %d", h.last(), h.results(), h.base,
						len(all), len(digests), base)
				}
				for i := range lent {
					if !bytes.Equal(lent[i], copies[i]) {
						t.Fatal("what a reader has was changed")
					}
				}
			},
		})
	})
}

// again returns the history that is restored from a snapshot of h.
func again(t *rapid.T, h *history, base uint64) history {
	now := slices.Collect(h.parts)
	frozen := h.freeze()
	for range rapid.IntRange(0, 100).Draw(t, "beside") { // the original is not used any more
		n := h.last() + 1
		if h.append(n, messageInput(n, 3000)) != nil || h.result(h.results()+1, 5) != nil {
			t.Fatal("it does not go on")
		}
		h.skip(n)
	}
	if b := slices.Collect(iter.Seq[[]byte](frozen)); !equal(b, now) {
		t.Fatal("what was frozen has changed")
	}
	restored := newHistory()
	for _, part := range now {
		r := reader{b: part}
		if err := restored.part(&r, r.byte()); err != nil {
			t.Fatal(err)
		}
	}
	if b := slices.Collect(restored.parts); !equal(b, now) || restored.bytes != chunkSizes(&restored) ||
		restored.base != base {
		t.Fatalf("restored it has %d parts from %d, want %d from %d", len(b), restored.base, len(now), base)
	}
	if err := restored.check(&Hosting{Inputs: restored.last(), Results: restored.results()}); err != nil {
		t.Fatal(err)
	}
	return restored
}

func equal(a, b [][]byte) bool { return slices.EqualFunc(a, b, bytes.Equal) }

func chunkSizes(h *history) (n int) {
	for _, c := range h.chunks {
		n += len(c.data)
	}
	return n
}

// longHistory returns a history with three chunks and an open one, and results of all inputs except the last.
func longHistory(t testing.TB) history {
	h := newHistory()
	for n := uint64(1); len(h.chunks) < 3 || len(h.offsets) < 3; n++ {
		if err := h.append(n, messageInput(n, 5000)); err != nil {
			t.Fatal(err)
		}
		if n > 1 {
			if err := h.result(n-1, uint32(n)); err != nil {
				t.Fatal(err)
			}
		}
	}
	return h
}

// Damaged chunks give an error when they are read, and never a panic.
func TestDamagedChunks(t *testing.T) {
	compressed := func(inputs ...[]byte) []byte {
		h := newHistory()
		h.open, h.offsets = slices.Concat(inputs...), make([]int, 1)
		h.close()
		return h.chunks[0].data
	}
	second := longHistory(t).chunks[1]
	for name, tc := range map[string]struct {
		data []byte
		want string
	}{
		"nothing":       {nil, "unexpected EOF"},
		"garbage":       {[]byte("garbage"), "corrupt input"},
		"half":          {second.data[:100], "unexpected EOF"},
		"half an input": {compressed(messageInput(second.first, 50)[:40]), "ends within a field"},
		"other numbers": {compressed(messageInput(1, 50)), "input 1 stands where"},
		"fewer":         {compressed(messageInput(second.first, 50)), "they are 1, not"},
	} {
		h := longHistory(t)
		c := &h.chunks[1]
		c.data = tc.data
		number := c.first
		if _, n, err := h.inputs(number, 10, 1000); err == nil || !strings.Contains(err.Error(), tc.want) || n != 0 {
			t.Errorf("%s: %d inputs, %v", name, n, err)
		}
		if _, n, err := h.inputs(1, 1, 1); err != nil || n != 1 {
			t.Errorf("%s: the chunk before: %d inputs, %v", name, n, err)
		}
	}
	h := longHistory(t)
	h.chunks = slices.Delete(h.chunks, 0, 1)
	if _, _, err := h.inputs(1, 1, 1); err == nil ||
		!strings.Contains(err.Error(), "replayed input 1 is not in the history") {
		t.Errorf("a chunk that is not there: %v", err)
	}
}

// A snapshot whose history is inconsistent is refused.
func TestDamagedHistoryIsRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		damage func(h *history, o *Hosting)
		want   string // "" for no error
	}{
		"none":                {func(h *history, o *Hosting) {}, ""},
		"trimmed":             {func(h *history, o *Hosting) { h.trim(20, []byte("s")) }, ""},
		"trimmed to the open": {func(h *history, o *Hosting) { h.trim(h.results(), []byte("s")) }, ""},
		"chunk is lost": {func(h *history, o *Hosting) { h.chunks = slices.Delete(h.chunks, 1, 2) },
			"is next"},
		"first chunk is lost": {func(h *history, o *Hosting) { h.chunks = h.chunks[1:] }, "where 1 is next"},
		"last chunk is lost":  {func(h *history, o *Hosting) { h.chunks = h.chunks[:2] }, "is next"},
		"empty chunk":         {func(h *history, o *Hosting) { h.chunks[0].count = 0 }, "0 of them"},
		"negative chunk":      {func(h *history, o *Hosting) { h.chunks[0].count = -1 }, "of them"},
		"all chunks are lost": {func(h *history, o *Hosting) { h.chunks = nil }, "where 1 is next"},
		"digests are lost":    {func(h *history, o *Hosting) { h.digests = h.digests[3:] }, "the history is of"},
		"digests of nothing": {func(h *history, o *Hosting) {
			h.digests = make([]uint32,
				h.last()+1)
			o.Results = h.last() + 1
		}, "the history is of"},
		"other generation": {func(h *history, o *Hosting) { h.generation++ }, "the history is of"},
		"more inputs":      {func(h *history, o *Hosting) { o.Inputs++ }, "the history is of"},
		"checkpoint of the never": {func(h *history, o *Hosting) {
			h.base, h.digests, o.Results = h.last()+5, nil,
				h.last()+5
		}, "is next"},
	} {
		c, source := newReplica(t, ledger.Limits{}, "v1"), newReplica(t, ledger.Limits{}, "v1")
		s := source.log
		s.history = longHistory(t)
		s.history.generation = 1
		s.hosting = Hosting{Generation: 1, Inputs: s.history.last(), Results: s.history.results(), Identity: "v1"}
		tc.damage(&s.history, &s.hosting)
		before := snapshot(t, c)
		err := c.Restore(snapshot(t, source))
		if (err == nil) != (tc.want == "") || err != nil && (!strings.Contains(err.Error(), tc.want) ||
			!bytes.Equal(before, snapshot(t, c))) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// If a damaged replica cannot apply an entry, Commit returns an error.
func TestReplayedDivergence(t *testing.T) {
	p := newReplayedPair(t, ledger.Limits{})
	p.up(1)
	p.commit()
	header := bytes.Clone(p.entries[0][:6]) // of term 1, batch 1, and a time of two bytes
	entry := func(records ...Record) []byte {
		b := bytes.Clone(header)
		for _, r := range records {
			record := r.append(nil)
			b = append(append(b, byte(ledger.OpTransaction), byte(len(record))), record...)
		}
		return b
	}
	for name, tc := range map[string]struct {
		entry []byte
		want  string
	}{
		"result out of turn": {entry(Record{Kind: Result, Number: 2}), "result of replayed input 2 after 0, of 2"},
		"result of the future": {entry(Record{Kind: Result, Number: 1}, Record{Kind: Result, Number: 2},
			Record{Kind: Result, Number: 3}), "result of replayed input 3 after 2, of 2"},
		"unknown record": {entry(Record{Kind: 99}), "record of kind 99"},
		"half an asked":  {entry(Record{Kind: Asked, asked: []byte{2, 0, 0}}), "is damaged"},
	} {
		c := newReplica(t, ledger.Limits{}, "v1")
		p.must(c.Restore(snapshot(t, p.leader)))
		if err := c.Commit(tc.entry); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	c := newReplica(t, ledger.Limits{}, "v1")
	p.must(c.Restore(snapshot(t, p.leader)))
	c.log.hosting.Inputs += 3 // as if its memory was damaged
	request := Record{Kind: Request, Request: (&wire.HTTPRequest{}).Append(nil)}
	if err := c.Commit(entry(request)); err == nil || !strings.Contains(err.Error(), "replayed input 6 after 2") ||
		!strings.Contains(err.Error(), "this replica diverged") {
		t.Errorf("a gap: %v", err)
	}
}

// A replica that kept a checkpoint and trimmed its history continues like the others. So does one that has its
// snapshot.
func TestTrim(t *testing.T) {
	p := newReplayedPair(t, ledger.Limits{})
	p.up(1)
	seq := uint64(1)
	packets := func(n int) {
		for range n {
			seq++
			p.event(1, 1, seq, packetIn(fmt.Sprint(seq, string(make([]byte, 1000)))))
		}
		p.commit()
		for p.leader.log.Committed().Result+2 < p.leader.log.Committed().Input {
			p.result(wire.Result{Number: p.leader.log.Committed().Result + 1, Wake: wire.NoWake, Digest: uint32(seq)})
		}
	}
	packets(200)
	whole := p.leader.log.HistoryBytes()
	c := newReplica(t, ledger.Limits{}, "v1", &script{name: "native"})
	p.must(c.Restore(snapshot(t, p.leader)))
	done := c.log.Committed()
	for _, number := range []uint64{0, done.Result + 1, done.Input + 1} {
		c.log.Trim(number, []byte("no")) // has no effect
	}
	if n, state := c.log.Checkpoint(); n != 0 || len(state) > 0 || !bytes.Equal(snapshot(t, c), snapshot(t, p.leader)) {
		t.Errorf("checkpoint %d %q", n, state)
	}
	c.log.Trim(150, []byte("state"))
	c.log.Trim(149, []byte("older"))
	other := newReplica(t, ledger.Limits{}, "v1", &script{name: "native"})
	p.must(other.Restore(snapshot(t, c)))
	from := len(p.entries)
	packets(100)
	for _, replica := range []replica{c, other} {
		for _, e := range p.entries[from:] {
			p.must(replica.Commit(e))
		}
		if n, state := replica.log.Checkpoint(); n != 150 || string(state) != "state" ||
			replica.log.Committed() != p.leader.log.Committed() {
			t.Errorf("checkpoint %d %q, committed %+v, want %+v", n, state, replica.log.Committed(),
				p.leader.log.Committed())
		}
		if _, n, err := replica.log.Inputs(150, 1, 1); n != 0 || err != nil {
			t.Errorf("%d inputs that were forgotten, %v", n, err)
		}
		if got, want := fedSince(t, replica, 151), fedSince(t, p.leader, 151); !slices.Equal(got, want) ||
			len(got) < 100 {
			t.Errorf("it feeds %d inputs, not the %d", len(got), len(want))
		}
		for n := range p.leader.log.Committed().Input + 2 {
			got, ok := replica.log.Digest(n)
			if want, there := p.leader.log.Digest(n); ok != (there && n > 150) || ok && got != want {
				t.Errorf("digest of %d is %x %v, want %x", n, got, ok, want)
			}
		}
	}
	if !bytes.Equal(snapshot(t, c), snapshot(t, other)) {
		t.Error("who was restored from a snapshot differs")
	}
	if after := c.log.HistoryBytes(); after >= p.leader.log.HistoryBytes() || whole < 800 {
		t.Errorf("the history has %d bytes after it was trimmed, %d before", after, whole)
	}
}
