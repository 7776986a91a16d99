package learning

import (
	"encoding/binary"
	"testing"

	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// load is a leader with 16 switches, each with 100 hosts that are known, and packets of 60
// bytes between these: each is answered with a flow and a packet-out.
type load struct {
	tb      testing.TB
	core    *ledger.Core
	packets [][]byte
	seqs    [17]uint64
	next    int
}

const switches, hosts = 16, 100

func newLoad(tb testing.TB) *load {
	l := &load{tb: tb, core: newCore(tb)}
	l.must(l.core.Lead(1, 1000))
	features := of13.FeaturesReply{}
	up := experimenter.SwitchUp{Features: features.Append(nil, 0)}.Append(nil, openflow.Version13)
	for i := range switches {
		l.event(i+1, up)
	}
	for h := range hosts {
		data := make([]byte, 60)
		binary.BigEndian.PutUint32(data[2:], uint32((h+1)%hosts)+1)
		binary.BigEndian.PutUint32(data[8:], uint32(h)+1)
		in := of13.PacketIn{BufferID: of13.NoBuffer, TotalLen: 60,
			Match: of13.Match(nil).WithInPort(of13.Port(h%40 + 1)), Data: data}
		l.packets = append(l.packets, in.Append(nil, 0))
	}
	for range switches * hosts {
		l.packet()
	}
	l.drain()
	return l
}

func newCore(tb testing.TB) *ledger.Core {
	core, err := ledger.New([]ledger.Application{New()}, ledger.Limits{})
	if err != nil {
		tb.Fatal(err)
	}
	return core
}

func (l *load) must(err error) {
	if err != nil {
		l.tb.Helper()
		l.tb.Fatal(err)
	}
}

func (l *load) event(sw int, msg []byte) {
	l.seqs[sw]++
	l.must(l.core.EventByDigest(openflow.DatapathID(sw), 1, l.seqs[sw], msg))
}

// packet gives the ledger the next packet, and commits when a batch is full.
func (l *load) packet() {
	if !l.core.Room() {
		l.drain()
	}
	l.event(1+l.next%switches, l.packets[l.next/switches%hosts])
	l.next++
}

// drain commits what waits, and says that every command is done.
func (l *load) drain() (entries [][]byte) {
	for {
		entry, ok := l.core.Cut()
		if !ok {
			return entries
		}
		l.must(l.core.Commit(entry))
		for _, r := range l.core.Releases() {
			if r.Count > 0 {
				l.must(l.core.Done(r.Switch, r.Epoch, r.First+uint64(r.Count)-1))
			}
		}
		entries = append(entries, entry)
	}
}

// BenchmarkLeader is a packet on the leader: executed, cut, committed, released and done.
func BenchmarkLeader(b *testing.B) {
	l := newLoad(b)
	b.ReportAllocs()
	for b.Loop() {
		l.packet()
	}
}

// BenchmarkFollower is a packet on a follower: its share of an entry of 1,000, applied.
func BenchmarkFollower(b *testing.B) {
	l := newLoad(b)
	start, err := l.core.Snapshot()
	l.must(err)
	var entries [][]byte
	for range 64 {
		for range 1000 {
			l.packet()
		}
		entries = append(entries, l.drain()...)
	}
	follower := newCore(b)
	b.ReportAllocs()
	n, next := 0, len(entries)
	for b.Loop() {
		if n++; n%1000 != 0 {
			continue
		}
		if next == len(entries) {
			b.StopTimer()
			l.must(follower.Restore(start))
			next = 0
			b.StartTimer()
		}
		l.must(follower.Commit(entries[next]))
		for next++; next < len(entries) && len(entries[next]) < 10_000; next++ {
			l.must(follower.Commit(entries[next])) // what is done
		}
	}
}

// TestPacketInAllocations holds the hot path to nothing: a known packet is read, executed
// and logged without allocating, but for the growth of entries and queues.
func TestPacketInAllocations(t *testing.T) {
	l := newLoad(t)
	for range 5000 {
		l.packet()
	}
	if n := testing.AllocsPerRun(20_000, l.packet); n != 0 {
		t.Errorf("%v allocations for each packet", n)
	}
}
