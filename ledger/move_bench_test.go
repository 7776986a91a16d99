package ledger

import (
	"encoding/binary"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// BenchmarkMove moves an actor of 1 MiB to another group: what the leaders of the two groups do is the time, and
// longest-µs is the longest time that one of them holds up its other inputs.
func BenchmarkMove(b *testing.B) {
	for _, shape := range []struct {
		name          string
		cells, fields int
	}{{"one-cell", 1, 26_000}, {"many-cells", 26_000, 1}} {
		b.Run(shape.name, func(b *testing.B) { benchmarkMove(b, shape.cells, shape.fields) })
	}
}

func benchmarkMove(b *testing.B, cells, fields int) {
	rows := map[Actor]Assignment{ofApp: {1, 1}}
	var leaders, followers [3]*Core
	for g := uint64(1); g <= 2; g++ {
		for _, at := range []*[3]*Core{&leaders, &followers} {
			c, err := New([]Application{movable{&script{name: "a"}}}, Limits{})
			if err != nil {
				b.Fatal(err)
			}
			c.Join(g, func(a Actor) (Assignment, bool) { at, known := rows[a]; return at, known })
			at[g] = c
		}
		if err := leaders[g].Lead(1, 1); err != nil {
			b.Fatal(err)
		}
	}
	mover := ofApp
	t := leaders[1].state.table(TableName{mover.App, "t"})
	f := followers[1].state.table(TableName{mover.App, "t"})
	for cell := range cells {
		for field := range fields {
			mac := binary.BigEndian.Uint64([]byte{0, 0, 2, 0, byte(field), byte(field >> 8), byte(field >> 16), 1})
			for _, t := range []*table{t, f} {
				t.cells.Put(Key{A: uint64(cell)}, Key{A: mac}, make([]byte, 12))
			}
		}
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	longest, start := time.Duration(0), threadTime()
	var frames [3][]*Frame
	turn := func(g uint64) (more bool) {
		began := threadTime()
		c := leaders[g]
		c.Moves()
		for len(frames[g]) > 0 {
			more = true
			finished, err := c.Execute(frames[g][0])
			if err != nil {
				b.Fatal(err)
			}
			if !finished {
				break
			}
			frames[g] = frames[g][1:]
		}
		entry, cut := c.Cut()
		longest = max(longest, threadTime()-began)
		if cut {
			more = true
			for _, c := range []*Core{c, followers[g]} {
				if err := c.Commit(entry); err != nil {
					b.Fatal(err)
				}
			}
		}
		c.Frames(func(to uint64, frame []byte) { frames[to] = append(frames[to], NewFrame(frame)) })
		for _, a := range c.Unpublished() {
			rows[a], _ = c.Assignment(a)
			leaders[1].Relocated(a)
			leaders[2].Relocated(a)
		}
		return more
	}
	from, to := uint64(1), uint64(2)
	for b.Loop() {
		if err := leaders[from].Move(mover, to); err != nil {
			b.Fatal(err)
		}
		for more := true; more; {
			more = turn(from)
			more = turn(to) || more
		}
		if rows[mover].Group != to {
			b.Fatal("it has not moved")
		}
		from, to = to, from
	}
	b.ReportMetric(float64(longest.Microseconds()), "longest-µs")
	b.ReportMetric(float64((threadTime()-start).Microseconds())/float64(b.N), "cpu-µs/op")
}

// movable is an application of which all cells belong to one actor.
type movable struct{ *script }

func (movable) Shard(string, Key) Shard { return Shard{} }

// threadTime is the processor time of this thread: other work of the machine does not count.
func threadTime() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) // cannot fail
	return time.Duration(t.Nano())
}
