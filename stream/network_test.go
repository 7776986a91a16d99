package stream

import (
	"bytes"
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// network is a sender, a receiver and the connection between them. Both execute first and commit later, as a group
// does. A crash or a loss of the leadership undoes what was not committed. A broken connection loses what is in
// flight.
type network struct {
	// The sender. It sends only committed items.
	box      Outbox
	snapshot []byte // of box, at the last commit
	promised uint64 // last committed item
	sent     uint64
	history  [][]byte // all committed items
	attempts int      // number of executions: an item that is executed again has another content

	items []numbered // in flight
	acks  []uint64

	// The receiver. It acknowledges only committed items.
	mark, committedMark Watermark
	got                 [][]byte
	committed           int // committed part of got
}

type numbered struct {
	first uint64
	items [][]byte
}

func newNetwork() *network {
	n := &network{}
	n.snapshot = n.box.AppendTo(nil)
	return n
}

var window = Bounds{Items: 7, Bytes: 100}

// Each step and each fault leaves the network in a possible state. They report whether they could do anything.
var steps = []struct {
	name string
	do   func(n *network) (bool, error)
}{
	{"execute", func(n *network) (bool, error) {
		if n.box.Full(window) {
			return false, nil
		}
		n.attempts++
		n.box.Push(fmt.Appendf(nil, "item %d of attempt %d", n.box.Last()+1, n.attempts))
		return true, nil
	}},
	{"commit", func(n *network) (bool, error) {
		for n.promised < n.box.Last() {
			n.promised++
			n.history = append(n.history, bytes.Clone(n.box.Item(n.promised)))
		}
		n.snapshot = n.box.AppendTo(nil)
		return true, nil
	}},
	{"send", func(n *network) (bool, error) {
		first, count, run := n.box.Run(n.sent, n.promised, 50)
		x := numbered{first: first}
		for i := range count {
			x.items = append(x.items, bytes.Clone(n.box.Item(first+uint64(i))))
		}
		if !bytes.Equal(run, bytes.Join(x.items, nil)) {
			return false, fmt.Errorf("a run of %d bytes is not its %d items", len(run), count)
		}
		if count > 0 {
			n.sent = first + uint64(count) - 1
			n.items = append(n.items, x)
		}
		return count > 0, nil
	}},
	{"receive", func(n *network) (bool, error) {
		if len(n.items) == 0 {
			return false, nil
		}
		x := n.items[0]
		n.items = n.items[1:]
		dropped, err := n.mark.Accept(x.first, len(x.items))
		n.got = append(n.got, x.items[dropped:]...)
		return true, err
	}},
	{"commit at the receiver", func(n *network) (bool, error) {
		if n.committedMark == n.mark {
			return false, nil
		}
		n.committed, n.committedMark = len(n.got), n.mark
		n.acks = append(n.acks, uint64(n.mark))
		return true, nil
	}},
	{"be acknowledged", func(n *network) (bool, error) {
		if len(n.acks) == 0 {
			return false, nil
		}
		err := n.box.Ack(n.acks[0])
		n.acks = n.acks[1:]
		return true, err
	}},
}

var faults = map[string]func(n *network) error{
	"break": func(n *network) error { n.connect(); return nil },
	"crash of the sender": func(n *network) (err error) {
		n.box, _, err = ParseOutbox(n.snapshot)
		n.connect()
		return err
	},
	"sender deposed": func(n *network) error { return n.box.TakeBack(n.promised) },
	"crash of the receiver": func(n *network) error {
		n.mark, n.got = n.committedMark, n.got[:n.committed]
		n.connect()
		return nil
	},
}

func (n *network) connect() {
	n.sent, n.items, n.acks = 0, nil, []uint64{uint64(n.committedMark)}
}

// check holds at any time: the receiver has what was committed, once and in order.
func (n *network) check() error {
	if len(n.got) > len(n.history) {
		return fmt.Errorf("%d items came of %d", len(n.got), len(n.history))
	}
	for i, x := range n.got {
		if !bytes.Equal(x, n.history[i]) {
			return fmt.Errorf("item %d came as %q, and was %q", i+1, x, n.history[i])
		}
	}
	if n.box.Len() > window.Items || n.box.Bytes() > window.Bytes+len("item 000 of attempt 000") {
		return fmt.Errorf("it keeps %d items of %d bytes", n.box.Len(), n.box.Bytes())
	}
	return nil
}

// settle runs until nothing remains to be done. Then every item has arrived, and nothing is kept.
func (n *network) settle() error {
	for busy := true; busy; {
		busy = false
		for _, s := range steps[1:] {
			did, err := s.do(n)
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			busy = busy || did && s.name != "commit"
		}
	}
	if len(n.got) != len(n.history) || n.box.Len() != 0 {
		return fmt.Errorf("%d of %d items came in the end, and %d are kept", len(n.got), len(n.history), n.box.Len())
	}
	return n.check()
}

// Whatever fails, and whenever, nothing is lost, repeated or reordered.
func TestNetwork(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := newNetwork()
		actions := map[string]func(*rapid.T){"": func(t *rapid.T) { must(t, n.check()) }}
		for _, s := range steps {
			actions[s.name] = func(t *rapid.T) {
				_, err := s.do(n)
				must(t, err)
			}
		}
		for name, fault := range faults {
			actions[name] = func(t *rapid.T) { must(t, fault(n)) }
		}
		t.Repeat(actions)
		must(t, n.settle())
	})
}

// Each pair of faults, at each pair of moments of a run.
func TestNetworkFaultsAtEachStep(t *testing.T) {
	const moments = 40
	for first := range moments {
		for second := first; second < moments; second++ {
			for a, fault := range faults {
				for b, another := range faults {
					n := newNetwork()
					for i := range moments {
						_, err := steps[(i+i/6)%len(steps)].do(n)
						if err == nil && i == first {
							err = fault(n)
						}
						if err == nil && i == second {
							err = another(n)
						}
						if err == nil {
							err = n.check()
						}
						if err != nil {
							t.Fatalf("%s at %d, %s at %d: step %d: %v", a, first, b, second, i, err)
						}
					}
					if err := n.settle(); err != nil {
						t.Fatalf("%s at %d, %s at %d: %v", a, first, b, second, err)
					}
				}
			}
		}
	}
}

func must(t *rapid.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
