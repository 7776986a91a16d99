package agent

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/openflow/of10"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// message returns a complete message with a body.
func message(version, typ uint8, xid uint32, body ...byte) []byte {
	m := append(openflow.AppendHeader(nil, version, typ, xid), body...)
	openflow.SetLength(m)
	return m
}

func packetIn(tag uint64, size int) []byte {
	return message(4, 10, 0, binary.BigEndian.AppendUint64(make([]byte, size), tag)...)
}

func command(tag uint64) []byte {
	return message(4, 14, 7, binary.BigEndian.AppendUint64(nil, tag)...)
}

func split(t interface{ Fatalf(string, ...any) }, b []byte) [][]byte {
	var list [][]byte
	for len(b) > 0 {
		msg, rest, err := openflow.Next(b)
		if err != nil || msg == nil {
			t.Fatalf("the agent wrote what is not OpenFlow: %x: %v", b, err)
		}
		list, b = append(list, msg), rest
	}
	return list
}

func concat(parts ...[]byte) []byte {
	var all []byte
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

func roleRequest(term uint64) []byte {
	r := of13.RoleRequest{Role: of13.RoleMaster, GenerationID: term}
	return r.Append(nil, 5)
}

func commands(term, epoch, first uint64, msgs ...[]byte) []byte {
	all := concat(msgs...)
	b := experimenter.Block{Generation: term, Epoch: epoch, First: first, Count: uint32(len(msgs)),
		Bytes: uint32(len(all))}
	return append(b.Append(nil, 4, experimenter.TypeCommands), all...)
}

func eventAck(epoch, seq uint64) []byte {
	return experimenter.Ack{Epoch: epoch, Seq: seq}.Append(nil, 4, experimenter.TypeEventAck)
}

var helloBytes = message(4, 0, 1)

// upCore returns a core whose switch is up in epoch 100, with one controller that has sent HELLO.
func upCore(t *testing.T) (*Core, *Peer) {
	t.Helper()
	c := NewCore(64, 1<<16)
	if _, err := c.SwitchUp(100, 4, message(4, 6, 0, make([]byte, 24)...), nil); err != nil {
		t.Fatal(err)
	}
	p := c.Connect()
	mustController(t, c, p, helloBytes)
	c.Take(p, nil)
	return c, p
}

func mustController(t *testing.T, c *Core, p *Peer, b []byte) {
	t.Helper()
	if err := c.FromController(p, b); err != nil {
		t.Fatal(err)
	}
}

// events splits the output of Take: "epoch/seq" for each message of a block, and all other messages.
func events(t *testing.T, out []byte) (ids []string, others [][]byte) {
	t.Helper()
	var b experimenter.Block
	for _, m := range split(t, out) {
		if b.Count > 0 {
			ids = append(ids, fmt.Sprintf("%d/%d", b.Epoch, b.First))
			b.First, b.Count = b.First+1, b.Count-1
			continue
		}
		if typ, ok := experimenter.Is(m); ok && typ == experimenter.TypeEvents {
			var err error
			if b, err = experimenter.ParseBlock(m, typ); err != nil {
				t.Fatal(err)
			}
			continue
		}
		others = append(others, m)
	}
	return ids, others
}

func TestConnectBeginsWithHelloAndAttach(t *testing.T) {
	c := NewCore(64, 1<<16)
	c.SwitchUp(100, 4, message(4, 6, 0), nil)
	c.FromSwitch(concat(packetIn(1, 0), packetIn(2, 0)))
	msgs := split(t, c.Take(c.Connect(), nil))
	if len(msgs) != 2 || msgs[0][1] != openflow.TypeHello {
		t.Fatalf("wrote %x, want HELLO and ATTACH", msgs)
	}
	a, err := experimenter.ParseAttach(msgs[1])
	if want := (experimenter.Attach{Epoch: 100, FirstHeld: 1, NextEvent: 4}); err != nil || a != want {
		t.Fatalf("attach = %+v, %v; want %+v", a, err, want)
	}
	p := c.Connect()
	claim := of13.RoleRequest{Role: of13.RoleMaster, GenerationID: experimenter.Generation(1<<16+7, 9, 3)}
	mustController(t, c, p, concat(helloBytes, claim.Append(nil, 1)))
	if v := c.attach().Version; v != 7 {
		t.Errorf("after a claim of version 7 it attaches with %d", v)
	}
}

func TestOnlyTheMasterGetsEventsAndAllThatAreHeld(t *testing.T) {
	c, p := upCore(t)
	c.FromSwitch(concat(packetIn(1, 0), packetIn(2, 0)))
	if out := c.Take(p, nil); len(out) != 0 {
		t.Fatalf("a follower got %x", out)
	}
	mustController(t, c, p, concat(roleRequest(3), eventAck(100, 1)))
	ids, others := events(t, c.Take(p, nil))
	if got := strings.Join(ids, " "); got != "100/2 100/3" {
		t.Fatalf("the new master got %q: what is acknowledged in one breath with the claim is not to be sent", got)
	}
	if len(others) != 1 || others[0][1] != of13.TypeRoleReply {
		t.Fatalf("others = %x", others)
	}
	q := c.Connect()
	mustController(t, c, q, concat(helloBytes, eventAck(100, 1), roleRequest(4)))
	if ids, _ := events(t, c.Take(q, nil)); strings.Join(ids, " ") != "100/2 100/3" {
		t.Fatalf("the next master got %v", ids)
	}
	c.FromSwitch(packetIn(3, 0))
	if c.Pending(p) {
		t.Fatal("the deposed master gets events")
	}
}

func TestFencing(t *testing.T) {
	c, old := upCore(t)
	mustController(t, c, old, concat(roleRequest(3), commands(3, 100, 1, command(1))))
	now := c.Connect()
	mustController(t, c, now, concat(helloBytes, roleRequest(4)))
	c.Take(old, nil)

	mustController(t, c, old, concat(commands(3, 100, 2, command(99), command(99)), commands(4, 100, 2, command(99)),
		roleRequest(3)))
	_, others := events(t, c.Take(old, nil))
	var e of13.Error
	var codes []string
	for _, m := range others {
		if err := e.Decode(m); err != nil {
			t.Fatal(err)
		}
		codes = append(codes, of13.ErrorName(e.ErrType, e.Code))
	}
	if len(others) != 3 || c.count.RefusedBlocks != 2 || c.count.RefusedRoles != 1 || c.master != now {
		t.Fatalf("errors %v, counters %+v", codes, c.count)
	}
	mustController(t, c, now, commands(4, 100, 1, command(1), command(2)))
	if c.commands.passed != 2 || c.count.Duplicates != 1 {
		t.Fatalf("forwarded %d, %+v", c.commands.passed, c.count)
	}
}

func TestDeposedInTheMiddleOfABlock(t *testing.T) {
	c, old := upCore(t)
	block := commands(3, 100, 1, command(1), command(99))
	cut := len(block) - len(command(99))
	mustController(t, c, old, concat(roleRequest(3), block[:cut]))
	now := c.Connect()
	mustController(t, c, now, concat(helloBytes, roleRequest(4), commands(4, 100, 1, command(1), command(2))))
	mustController(t, c, old, block[cut:])
	if tags := taken(t, c); fmt.Sprint(tags) != "[1 2]" {
		t.Fatalf("the switch got %v", tags)
	}
}

// taken returns the tags of the commands that the switch receives.
func taken(t *testing.T, c *Core) (tags []uint64) {
	t.Helper()
	for _, m := range split(t, c.TakeSwitch(nil)) {
		if m[1] == 14 {
			tags = append(tags, binary.BigEndian.Uint64(m[8:]))
		}
	}
	return tags
}

// Commands without a sequence are forwarded at once, in order with the numbered ones. They are not filtered, and do
// not change the numbering of the others. But they are fenced, and are discarded with their epoch.
func TestBestEffortCommands(t *testing.T) {
	c, p := upCore(t)
	mustController(t, c, p, concat(roleRequest(3), commands(3, 100, 1, command(1)),
		commands(3, 100, 0, command(2), command(3)),
		commands(3, 100, 0, command(3)), commands(3, 100, 2, command(4)), commands(3, 99, 0, command(98))))
	if tags := taken(t, c); fmt.Sprint(tags) != "[1 2 3 3 4]" {
		t.Errorf("the switch got %v", tags)
	}
	if s := c.Status(); s.Forwarded != 2 || s.Counters.Forwarded != 2 || s.Counters.BestEffort != 3 ||
		s.Counters.Stale != 1 || p.void.Seq != 0 {
		t.Errorf("status %+v, void %+v", s, p.void)
	}
	now := c.Connect()
	mustController(t, c, now, concat(helloBytes, roleRequest(4)))
	c.Take(p, nil)
	mustController(t, c, p, concat(commands(3, 100, 0, command(99), command(99)), commands(4, 100, 0, command(99))))
	if tags := taken(t, c); len(tags) != 0 || c.count.RefusedBlocks != 2 {
		t.Errorf("after it was deposed a controller sent %v; %d blocks refused", tags, c.count.RefusedBlocks)
	}
	c.SwitchDown(experimenter.ReasonSilent)
	mustController(t, c, now, commands(4, 100, 0, command(99)))
	if _, err := c.SwitchUp(200, 4, message(4, 6, 0), nil); err != nil {
		t.Fatal(err)
	}
	mustController(t, c, now, commands(4, 100, 0, command(99)))
	if tags := taken(t, c); len(tags) != 0 || now.void.Seq != 0 {
		t.Errorf("the next epoch got %v; void %+v", tags, now.void)
	}
}

func TestBarrierTellsWhatIsDone(t *testing.T) {
	c, p := upCore(t)
	mustController(t, c, p, concat(roleRequest(3), commands(3, 100, 1, command(1), command(2))))
	c.Take(p, nil)
	msgs := split(t, c.TakeSwitch(nil))
	if len(msgs) != 3 || msgs[2][1] != of13.TypeBarrierRequest {
		t.Fatalf("to the switch: %x", msgs)
	}
	mustController(t, c, p, commands(3, 100, 3, command(3)))
	if len(split(t, c.TakeSwitch(nil))) != 1 {
		t.Fatal("a second barrier is outstanding")
	}
	c.FromSwitch(message(4, of13.TypeBarrierReply, openflow.XID(msgs[2])))
	_, acks := events(t, c.Take(p, nil))
	if len(acks) != 1 {
		t.Fatalf("acks = %x", acks)
	}
	if ack, err := experimenter.ParseAck(acks[0], experimenter.TypeCommandAck); err != nil || ack.Seq != 2 ||
		ack.Epoch != 100 {
		t.Fatalf("ack = %+v, %v", ack, err)
	}
	if again := split(t, c.TakeSwitch(nil)); len(again) != 1 || again[0][1] != of13.TypeBarrierRequest {
		t.Fatalf("no barrier for command 3: %x", again)
	}
	if c.events.Len() != 1 {
		t.Fatalf("the answer to the agent's barrier became an event")
	}
}

// The commands of a switch that answers no barrier are done when they are written to it, and not before.
func TestSwitchThatAnswersNoBarrier(t *testing.T) {
	for _, reads := range []bool{true, false} {
		c := NewCore(64, 1<<16)
		c.SwitchUp(100, 1, message(1, 6, 0), nil)
		p := c.Connect()
		c1 := message(1, 14, 0, make([]byte, 64)...)
		b := experimenter.Block{Generation: 1, Epoch: 100, First: 1, Count: 1, Bytes: uint32(len(c1))}
		mustController(t, c, p, concat(helloBytes, roleRequest(1), b.Append(nil, 1, experimenter.TypeCommands), c1))
		for range 3 {
			c.Tick(nil)
			if reads {
				c.TakeSwitch(nil)
			}
		}
		if done := c.commands.done == 1; done != reads || p.ackDue != reads {
			t.Errorf("the switch reads: %t; after patience it is done: %t, %t", reads, done, p.ackDue)
		}
		if c.TakeSwitch(nil); c.commands.done != 1 || !p.ackDue {
			t.Errorf("the switch reads: %t; it is not done though it is written", reads)
		}
	}
}

// A full agent does not see the answer to its barrier behind the events. So it does not take the switch for one that
// answers none, unless it stays full for long.
func TestFullAgentWaitsForTheBarrierReply(t *testing.T) {
	full := func() (c *Core, rest []byte) {
		c = NewCore(4, 1<<20)
		c.SwitchUp(100, 1, message(1, 6, 0), nil)
		c1 := message(1, 14, 0, make([]byte, 64)...)
		b := experimenter.Block{Generation: 1, Epoch: 100, First: 1, Count: 1, Bytes: uint32(len(c1))}
		mustController(t, c, c.Connect(), concat(helloBytes, roleRequest(1),
			b.Append(nil, 1, experimenter.TypeCommands), c1))
		out := split(t, c.TakeSwitch(nil))
		batch := concat(bytes.Repeat(message(1, of13.TypePacketIn, 0, make([]byte, 10)...), 5),
			message(1, of10.TypeBarrierReply, openflow.XID(out[len(out)-1])))
		n, err := c.FromSwitch(batch)
		if err != nil || n == len(batch) {
			t.Fatal(n, err)
		}
		return c, batch[n:]
	}
	c, rest := full()
	for range patienceBehind - 1 {
		c.Tick(nil)
		c.TakeSwitch(nil)
	}
	if c.commands.done != 0 {
		t.Fatal("its command is done, though its answer waits")
	}
	_ = c.events.Ack(c.events.Last())
	if n, err := c.FromSwitch(rest); err != nil || n != len(rest) || c.commands.done != 1 || !c.commands.answers {
		t.Fatalf("%d of %d bytes, %v; %+v", n, len(rest), err, c.commands)
	}
	c, _ = full()
	for range patienceBehind {
		c.Tick(nil)
	}
	if c.TakeSwitch(nil); c.commands.done != 1 {
		t.Fatal("it waits for ever, and so do the controllers for their command")
	}
}

func TestFullBufferTakesPartAndStillSaysDown(t *testing.T) {
	c, p := upCore(t)
	var batch []byte
	for i := range 100 {
		batch = append(batch, packetIn(uint64(i), 0)...)
	}
	n, err := c.FromSwitch(batch)
	if err != nil || n != 62*len(packetIn(0, 0)) {
		t.Fatalf("took %d bytes, %v", n, err)
	}
	if n, _ := c.FromSwitch(batch[n:]); n != 0 || c.count.Full != 2 {
		t.Fatalf("took %d bytes with a full buffer", n)
	}
	c.SwitchDown(experimenter.ReasonConnectionLost)
	if c.events.Len() != 64 {
		t.Fatalf("held %d", c.events.Len())
	}
	if _, err := c.SwitchUp(200, 4, message(4, 6, 0), nil); err == nil {
		t.Fatal("an epoch began without room for its first event")
	}
	mustController(t, c, p, concat(roleRequest(1), eventAck(100, 64)))
	if _, err := c.SwitchUp(200, 4, message(4, 6, 0), nil); err != nil {
		t.Fatal(err)
	}
}

func TestWhatIsAnEvent(t *testing.T) {
	for _, tc := range []struct {
		name    string
		version uint8
		msg     []byte
		event   bool
		fails   string
	}{
		{"packet-in", 4, packetIn(1, 0), true, ""},
		{"packet-in with a high xid", 4, message(4, 10, 0xffffffff), true, ""},
		{"port status with a high xid", 4, message(4, 12, 0x80000005), true, ""},
		{"echo request", 4, message(4, 2, 1), false, ""},
		{"echo reply", 4, message(4, 3, 1), false, ""},
		{"hello", 4, message(4, 0, 1), false, ""},
		{"answer to a command's barrier", 4, message(4, 21, 5), true, ""},
		{"answer to an own barrier", 4, message(4, 21, 0x80000101), false, ""},
		{"answer to an own barrier, 1.0", 1, message(1, 19, 0x80000101), false, ""},
		{"late port description", 4, message(4, 19, 0x80000002), false, ""},
		{"multipart reply to a command", 4, message(4, 19, 9), true, ""},
		{"error about a command", 4, message(4, 1, 9, 0, 1, 0, 1), true, ""},
		{"error about an echo of ours", 4, message(4, 1, 0x80000000, 0, 1, 0, 1), false, ""},
		{"somebody's experimenter", 4, message(4, 4, 9, 0, 0, 0x23, 0x20, 0, 0, 0, 1), true, ""},
		{"another agent", 4, experimenter.Attach{}.Append(nil, 4), false, "only an agent"},
		{"another version", 4, message(1, 10, 1), false, "version 1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := NewCore(64, 1<<16)
			c.SwitchUp(100, tc.version, message(tc.version, 6, 0), nil)
			n, err := c.FromSwitch(tc.msg)
			if tc.fails != "" {
				if err == nil || !strings.Contains(err.Error(), tc.fails) {
					t.Fatalf("error %v", err)
				}
				return
			}
			if err != nil || n != len(tc.msg) || (c.events.Len() == 2) != tc.event {
				t.Fatalf("took %d, %v, held %d", n, err, c.events.Len())
			}
		})
	}
}

func TestWrongController(t *testing.T) {
	c1 := command(1)
	short := commands(1, 100, 1, c1)
	long := experimenter.Block{Generation: 1, Epoch: 100, First: 1, Count: 1, Bytes: 100}.Append(nil, 4,
		experimenter.TypeCommands)
	for _, tc := range []struct {
		name, fails string
		in          []byte
	}{
		{"gap", "gap", commands(1, 100, 2, c1)},
		{"flow-mod without block", "outside of a block", c1},
		{"another version", "version 2", message(2, 2, 0)},
		{"ack of the future", "acknowledges event 9", eventAck(100, 9)},
		{"bytes without commands", "block of 0 commands of 8 bytes",
			experimenter.Block{Generation: 1, Epoch: 100, First: 1, Bytes: 8}.Append(nil, 4,
				experimenter.TypeCommands)},
		{"best-effort command of another version", "OpenFlow version 1 to", commands(1, 100, 0, message(1, 14, 0))},
		{"block too long for its header", "longer", concat(experimenter.Block{Generation: 1, Epoch: 100, First: 1,
			Count: 1, Bytes: 8}.Append(nil, 4, experimenter.TypeCommands), c1)},
		{"block too short for its header", "shorter", concat(long, c1)},
		{"command of another version", "OpenFlow version 1 to", commands(1, 100, 1, message(1, 14, 0))},
		{"truncated role request", "truncated", message(4, 24, 1)},
		{"refusal", "stale epoch", experimenter.Refuse{Reason: experimenter.ReasonStaleEpoch, Epoch: 5}.Append(nil, 4)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, p := upCore(t)
			mustController(t, c, p, roleRequest(1))
			err := c.FromController(p, tc.in)
			if err == nil || !strings.Contains(err.Error(), tc.fails) {
				t.Fatalf("error %v, want %q in it", err, tc.fails)
			}
		})
	}
	c, p := upCore(t)
	mustController(t, c, p, concat(roleRequest(1), short))
}

func TestControllerThatOnlyAsks(t *testing.T) {
	c, p := upCore(t)
	flood := strings.Repeat(string(message(4, 2, 1, make([]byte, 1000)...)), 1200)
	if err := c.FromController(p, []byte(flood)); err != errNotReading {
		t.Fatalf("error %v after 1.2 MB of echo requests whose answers nobody read", err)
	}
}

func TestLargeBacklogGoesInSeveralWrites(t *testing.T) {
	c := NewCore(1<<16, 32<<20)
	c.SwitchUp(100, 4, message(4, 6, 0), nil)
	for i := range 2000 {
		c.FromSwitch(packetIn(uint64(i), 1000))
	}
	p := c.Connect()
	mustController(t, c, p, concat(helloBytes, roleRequest(1)))
	got, writes := 0, 0
	for c.Pending(p) {
		out := c.Take(p, nil)
		if len(out) > takeAtMost+openflow.MaxMessageLen {
			t.Fatalf("%d bytes at once", len(out))
		}
		ids, _ := events(t, out)
		got += len(ids)
		writes++
	}
	if got != 2001 || writes < 7 {
		t.Fatalf("%d events in %d writes", got, writes)
	}
}

// FuzzCore feeds the core arbitrary bytes from a switch and a controller. It must neither panic nor send anything
// that is not OpenFlow.
func FuzzCore(f *testing.F) {
	f.Add(concat(packetIn(1, 3), message(4, 21, 0x80000101)),
		concat(roleRequest(1), eventAck(100, 1), commands(1, 100, 1, command(1))))
	f.Add(message(4, 2, 1), concat(message(4, 5, 1), experimenter.Refuse{Epoch: 5}.Append(nil, 4)))
	f.Fuzz(func(t *testing.T, fromSwitch, fromController []byte) {
		c := NewCore(8, 1<<12)
		c.SwitchUp(100, 4, message(4, 6, 0), nil)
		p := c.Connect()
		if err := c.FromController(p, helloBytes); err != nil {
			t.Fatal(err)
		}
		if _, err := c.FromSwitch(wholeMessages(fromSwitch)); err != nil {
			c.SwitchDown(experimenter.ReasonGarbage)
		}
		if err := c.FromController(p, wholeMessages(fromController)); err != nil {
			c.Disconnect(p)
		}
		split(t, c.TakeSwitch(nil))
		split(t, c.Take(p, nil))
	})
}

// wholeMessages cuts b after its last complete message, as ofconn does.
func wholeMessages(b []byte) []byte {
	n := 0
	for {
		msg, _, err := openflow.Next(b[n:])
		if msg == nil || err != nil {
			return b[:n]
		}
		n += len(msg)
	}
}
