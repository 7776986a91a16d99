package agent

import (
	"testing"

	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
)

// BenchmarkEvents reads batches of 100 events of 128 bytes from the switch, writes them to the master, and receives
// the acknowledgements.
func BenchmarkEvents(b *testing.B) {
	c := NewCore(1<<16, 32<<20)
	c.SwitchUp(100, 4, message(4, 6, 0), nil)
	p := c.Connect()
	if err := c.FromController(p, concat(helloBytes, roleRequest(1))); err != nil {
		b.Fatal(err)
	}
	var batch, out, ack []byte
	for i := range 100 {
		batch = append(batch, packetIn(uint64(i), 112)...)
	}
	b.SetBytes(int64(len(batch)))
	b.ReportAllocs()
	seq := uint64(1)
	for b.Loop() {
		if _, err := c.FromSwitch(batch); err != nil {
			b.Fatal(err)
		}
		out = c.Take(p, out[:0])
		seq += 100
		ack = experimenter.Ack{Epoch: 100, Seq: seq}.Append(ack[:0], 4, experimenter.TypeEventAck)
		if err := c.FromController(p, ack); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*100), "ns/event")
}

// BenchmarkCommands forwards blocks of 100 commands of 80 bytes.
func BenchmarkCommands(b *testing.B) {
	c := NewCore(1<<16, 32<<20)
	c.SwitchUp(100, 4, message(4, 6, 0), nil)
	p := c.Connect()
	if err := c.FromController(p, concat(helloBytes, roleRequest(1))); err != nil {
		b.Fatal(err)
	}
	var all, out, block []byte
	for range 100 {
		all = append(all, message(4, 14, 7, make([]byte, 72)...)...)
	}
	b.ReportAllocs()
	seq := uint64(1)
	for b.Loop() {
		h := experimenter.Block{Generation: 1, Epoch: 100, First: seq, Count: 100, Bytes: uint32(len(all))}
		block = append(h.Append(block[:0], 4, experimenter.TypeCommands), all...)
		if err := c.FromController(p, block); err != nil {
			b.Fatal(err)
		}
		out = c.TakeSwitch(out[:0])
		seq += 100
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*100), "ns/command")
}
