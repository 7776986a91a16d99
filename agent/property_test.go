package agent

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
	"pgregory.net/rapid"
)

// world is one core between a switch and controllers that share a log. Controllers come, go, claim the switch with
// any term, and lose their connections in the middle of blocks. Controllers whose term has passed continue to send,
// which must have no effect.
type world struct {
	t     *rapid.T
	core  *Core
	epoch uint64
	tag   uint64

	said map[uint64][][]byte // events that the switch sent in each epoch, SWITCH_UP first
	// The log: watermarks of events, and the number of commands of each epoch, which the leader sends.
	logged   map[uint64]uint64
	newest   uint64 // the latest epoch in the log
	commands map[uint64]uint64
	term     uint64

	controllers    []*controller
	barriers       []uint32
	executed       uint64 // the last numbered command that the switch executed in this epoch
	bestEffort     uint64 // number of commands without a sequence that were sent
	lastBestEffort uint64 // the last of them that the switch received
}

// controller is one connection. Its terms may have passed.
type controller struct {
	*Peer
	term  uint64
	in    []byte // bytes on their way to the agent, cut at message boundaries
	block experimenter.Block
	next  map[uint64]uint64 // per epoch: the sequence that must come next on this connection; 0 means any

	accepted bool // the agent accepted the claim; events before that belong to an earlier claim
}

// fencedTag marks commands that the switch must never receive.
const fencedTag = 1 << 63

// bestEffortTag marks commands without a sequence. The lower bits contain their epoch and their number.
const bestEffortTag = 1 << 62

func TestEveryEventAndEveryCommandWhateverHappens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{t: t, core: NewCore(12, 4096), said: map[uint64][][]byte{}, logged: map[uint64]uint64{},
			commands: map[uint64]uint64{}}
		w.switchUp()
		for range rapid.IntRange(1, 400).Draw(t, "steps") {
			w.step(t, rapid.IntRange(0, 99).Draw(t, "step"))
		}
		w.heal()
	})
}

// step makes one random thing happen: usually normal work, sometimes a fault.
func (w *world) step(t *rapid.T, dice int) {
	switch {
	case dice < 15:
		w.say(rapid.IntRange(1, 6).Draw(t, "events"))
	case dice < 25:
		w.switchReads()
	case dice < 35:
		w.switchAnswers()
	case dice < 50:
		w.with(t, func(c *controller) { w.send(t, c) })
	case dice < 65:
		w.with(t, func(c *controller) { w.arrive(c, rapid.IntRange(1, 8).Draw(t, "messages")) })
	case dice < 72:
		w.with(t, w.read)
	case dice < 77:
		w.with(t, w.acknowledge)
	case dice < 82:
		w.commands[w.newest] += uint64(rapid.IntRange(1, 4).Draw(t, "commands"))
	case dice < 86:
		w.claim(t)
	case dice < 90: // a claim that succeeds, with all that follows
		w.claim(t)
		w.with(t, func(c *controller) { w.arrive(c, 1000); w.read(c) })
	case dice < 93:
		w.connect()
	case dice < 95:
		w.with(t, w.lose)
	case dice < 97:
		w.switchDown()
	case dice < 99:
		w.switchUp()
	default:
		w.core.Tick(nil)
	}
}

func (w *world) with(t *rapid.T, f func(*controller)) {
	if len(w.controllers) > 0 {
		f(rapid.SampledFrom(w.controllers).Draw(t, "controller"))
	}
}

func (w *world) switchUp() {
	if w.core.live {
		return
	}
	features := message(4, 6, 0, make([]byte, 24)...)
	epoch, err := w.core.SwitchUp(w.epoch+10, 4, features, nil)
	if err != nil {
		return // the event buffer is full
	}
	w.epoch = epoch
	w.said[w.epoch] = [][]byte{experimenter.SwitchUp{Features: features}.Append(nil, 4)}
	w.executed, w.barriers = 0, nil
}

func (w *world) switchDown() {
	if w.core.live {
		w.core.SwitchDown(experimenter.ReasonSilent)
		w.said[w.epoch] = append(w.said[w.epoch], experimenter.AppendSwitchDown(nil, 4, experimenter.ReasonSilent))
	}
}

func (w *world) say(n int) {
	if !w.core.live {
		return
	}
	for range n {
		w.tag++
		msg := packetIn(w.tag, int(w.tag%97))
		took, err := w.core.FromSwitch(concat(message(4, 3, 1), msg, message(4, 2, 1)))
		if err != nil {
			w.t.Fatal(err)
		}
		if took > 8 {
			w.said[w.epoch] = append(w.said[w.epoch], msg)
		}
	}
}

// switchReads checks that each command arrives once and in order, and that none is fenced.
func (w *world) switchReads() {
	for _, m := range split(w.t, w.core.TakeSwitch(nil)) {
		switch m[1] {
		case 14:
			tag := binary.BigEndian.Uint64(m[8:])
			if tag&bestEffortTag != 0 {
				number := tag & (1<<20 - 1)
				if tag != bestEffortTag|w.epoch<<20|number || number <= w.lastBestEffort {
					w.t.Fatalf("in epoch %x the switch got command %x, without a sequence, after %x", w.epoch, tag,
						w.lastBestEffort)
				}
				w.lastBestEffort = number
				continue
			}
			if want := w.epoch<<20 | (w.executed + 1); tag != want {
				w.t.Fatalf("the switch got command %x, want %x", tag, want)
			}
			w.executed++
		case of13.TypeBarrierRequest:
			w.barriers = append(w.barriers, openflow.XID(m))
		}
	}
}

func (w *world) switchAnswers() {
	if w.core.live && len(w.barriers) > 0 {
		if _, err := w.core.FromSwitch(message(4, 21, w.barriers[0])); err != nil {
			w.t.Fatal(err)
		}
		w.barriers = w.barriers[1:]
		if w.core.commands.done > w.executed {
			w.t.Fatalf("done %d, executed %d", w.core.commands.done, w.executed)
		}
	}
}

func (w *world) connect() *controller {
	c := &controller{Peer: w.core.Connect(), in: helloBytes, next: map[uint64]uint64{}}
	if len(w.controllers) >= 3 {
		w.lose(w.controllers[0])
	}
	w.controllers = append(w.controllers, c)
	return c
}

func (w *world) lose(c *controller) {
	w.core.Disconnect(c.Peer)
	for i, o := range w.controllers {
		if o == c {
			w.controllers = append(w.controllers[:i:i], w.controllers[i+1:]...)
		}
	}
}

// claim makes a controller the leader of a new term, or lets it believe that it leads in an old one.
func (w *world) claim(t *rapid.T) {
	w.with(t, func(c *controller) {
		if rapid.Bool().Draw(t, "new term") {
			w.term++
			c.term = w.term
		} else if w.term > 1 {
			c.term = w.term - 1
		}
		if c.term > 0 {
			var logged uint64 // by all that led before: a leader of a stale term may know less, and is refused
			if c.term == w.term {
				logged = w.logged[w.newest]
			}
			c.in = concat(c.in, eventAck(w.newest, logged), roleRequest(c.term))
			clear(c.next)
			c.accepted = false
		}
	})
}

// read is the controller's side: it checks what the agent sent, and the leader logs it. Gaps are errors.
func (w *world) read(c *controller) {
	for _, m := range split(w.t, w.core.Take(c.Peer, nil)) {
		if c.block.Count > 0 {
			w.event(c, m)
			continue
		}
		if m[1] == of13.TypeRoleReply {
			var r of13.RoleReply
			if err := r.Decode(m); err != nil {
				w.t.Fatal(err)
			}
			c.accepted = r.Role == of13.RoleMaster && r.GenerationID == c.term
		}
		if typ, _ := experimenter.Is(m); typ == experimenter.TypeEvents {
			var err error
			if c.block, err = experimenter.ParseBlock(m, typ); err != nil {
				w.t.Fatal(err)
			}
		}
	}
}

func (w *world) event(c *controller, m []byte) {
	epoch, seq := c.block.Epoch, c.block.First
	c.block.First, c.block.Count = seq+1, c.block.Count-1
	if said := w.said[epoch]; seq > uint64(len(said)) || !bytes.Equal(said[seq-1], m) {
		w.t.Fatalf("event %d/%d is not what the switch said", epoch, seq)
	}
	if !c.accepted {
		return
	}
	if want := c.next[epoch]; want != 0 && seq > want {
		w.t.Fatalf("event %d/%d, and %d was next on the connection", epoch, seq, want)
	}
	c.next[epoch] = seq + 1
	if c.term != w.term {
		return // an old leader cannot log
	}
	if epoch > w.newest && w.newest != 0 && w.logged[w.newest] < uint64(len(w.said[w.newest])) {
		w.t.Fatalf("epoch %d before the end of %d: %d of %d logged", epoch, w.newest, w.logged[w.newest],
			len(w.said[w.newest]))
	}
	w.newest = max(w.newest, epoch)
	if seq > w.logged[epoch]+1 {
		w.t.Fatalf("gap: %d/%d after %d", epoch, seq, w.logged[epoch])
	}
	w.logged[epoch] = max(w.logged[epoch], seq)
}

func (w *world) acknowledge(c *controller) {
	if c.term == w.term && w.newest > 0 {
		c.in = append(bytes.Clone(c.in), eventAck(w.newest, w.logged[w.newest])...)
	}
}

// send writes a block of commands. A current leader repeats some that the switch has already received, as a leader
// does that does not know better. The commands of a leader whose term has passed are marked: the switch must not
// receive them.
func (w *world) send(t *rapid.T, c *controller) {
	last := w.commands[w.newest]
	if last == 0 || c.term == 0 {
		return
	}
	done := uint64(0)
	if w.newest == w.epoch {
		done = w.core.commands.done
	}
	from := rapid.Uint64Range(1, min(done+1, last)).Draw(t, "from")
	mark := uint64(0)
	if c.term != w.term {
		mark = fencedTag
	}
	var msgs [][]byte
	for seq := from; seq <= last; seq++ {
		msgs = append(msgs, command(mark|w.newest<<20|seq))
	}
	if c.term != w.term && c.term >= w.core.generation {
		return // no controller has told the agent of the newer term yet, so c is the master, or may still become it
	}
	w.bestEffort++
	c.in = append(bytes.Clone(c.in), concat(commands(c.term, w.newest, from, msgs...),
		commands(c.term, w.newest, 0, command(mark|bestEffortTag|w.newest<<20|w.bestEffort)))...)
}

// arrive delivers some messages to the agent. Commands that were sent before the term passed are valid, so marks
// are set when they are sent.
func (w *world) arrive(c *controller, n int) {
	for ; n > 0 && len(c.in) > 0; n-- {
		msg, rest, err := openflow.Next(c.in)
		if err != nil {
			w.t.Fatal(err)
		}
		c.in = rest
		if err := w.core.FromController(c.Peer, msg); err != nil {
			w.lose(c)
			return
		}
	}
}

// heal ends all faults. Afterwards every event must be logged and every command be done.
func (w *world) heal() {
	for len(w.controllers) > 0 {
		w.lose(w.controllers[0])
	}
	c := w.connect()
	w.term++
	c.term = w.term
	c.in = concat(c.in, eventAck(w.newest, w.logged[w.newest]), roleRequest(c.term))
	for range 4 {
		w.switchUp()
		w.arrive(c, 1000)
		w.read(c)
		w.acknowledge(c)
		w.arrive(c, 1000)
	}
	for epoch, said := range w.said {
		if w.logged[epoch] != uint64(len(said)) {
			w.t.Fatalf("epoch %d: %d of %d events logged", epoch, w.logged[epoch], len(said))
		}
	}
	if w.core.events.Len() != 0 || w.newest != w.epoch {
		w.t.Fatalf("%d events held, epoch %d of %d", w.core.events.Len(), w.newest, w.epoch)
	}
	w.commands[w.epoch]++
	var msgs [][]byte
	for seq := uint64(1); seq <= w.commands[w.epoch]; seq++ {
		msgs = append(msgs, command(w.epoch<<20|seq))
	}
	c.in = commands(c.term, w.epoch, 1, msgs...)
	w.arrive(c, 1000)
	for range 3 {
		w.switchReads()
		w.switchAnswers()
	}
	if w.core.commands.done != w.commands[w.epoch] {
		w.t.Fatalf("%d of %d commands done", w.core.commands.done, w.commands[w.epoch])
	}
}
