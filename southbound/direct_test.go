package southbound

import (
	"fmt"
	"testing"

	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/openflow/of10"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

func packetIn10(data ...byte) []byte {
	body := []byte{0, 0, 0, 5, 0, 0, 0, 3, 0, 0} // buffer 5, port 3
	return message(openflow.Version10, of13.TypePacketIn, 0, append(body, data...)...)
}

func TestDirectEpochs(t *testing.T) {
	c := directCore(t)
	if a := c.Begin(); a.Kind != Nothing {
		t.Fatalf("an epoch began before a leader took the switch: %+v", a)
	}
	if got := mustFeed(t, c, packetIn10(1)); len(got) != 0 {
		t.Fatalf("events before a leader took the switch: %+v", got)
	}
	c.TakeMaster(3, 1000, Resume{})
	if out := c.types(t); out != "1:FEATURES_REQUEST" || c.epoch != 1000 {
		t.Fatalf("%s, epoch %d", out, c.epoch)
	}
	got := mustFeed(t, c, packetIn10(2), features10(7), packetIn10(3), message(1, 2, 1), packetIn10(4), packetIn10(5))
	want := []string{"1000/1+1", "1000/2+1", "1000/3+2"}
	for i, a := range got {
		if id := fmt.Sprintf("%d/%d+%d", a.Batch.Epoch, a.Batch.First, a.Batch.Count); len(got) != len(want) ||
			id != want[i] {
			t.Fatalf("batch %d of %d is %s", i, len(got), id)
		}
	}
	if typ, _ := experimenter.Is(got[0].Batch.Messages); typ != experimenter.TypeSwitchUp {
		t.Fatal("the epoch does not begin with SWITCH_UP")
	}
	c.types(t)

	if !c.Refuse(experimenter.Refuse{Reason: experimenter.ReasonStaleEpoch, Epoch: 5000}, 1001) {
		t.Fatal("it must stay")
	}
	if got := mustFeed(t, c, packetIn10(6), features10(7)); len(got) != 1 || got[0].Batch.Epoch != 5001 {
		t.Fatalf("%+v", got)
	}
	if a := c.End(experimenter.ReasonSilent); a.Kind != Events || a.Batch.First != 2 || a.Batch.Epoch != 5001 {
		t.Fatalf("%+v", a)
	}
	if a := c.End(experimenter.ReasonSilent); a.Kind != Nothing {
		t.Fatalf("a second end: %+v", a)
	}
	if _, err := feed(directCoreMaster(t), features10(8)); err != nil {
		t.Fatalf("an answer nobody asked for: %v", err)
	}
	c = directCore(t)
	c.Begin()
	c.TakeMaster(3, 1000, Resume{})
	if _, err := feed(c, features10(8)); err == nil {
		t.Fatal("the switch may not change its name")
	}
}

func TestFreshSwitchIsClaimedBeforeItIsRead(t *testing.T) {
	c := directCore(t)
	if !c.Fresh() || agentCore(t).Fresh() {
		t.Fatal("who waits for a leader is the switch without agent that has just connected")
	}
	c.TakeMaster(3, 1000, Resume{})
	if out := c.types(t); out != "" || c.Fresh() {
		t.Fatalf("wrote %s, fresh: %v: its features are known", out, c.Fresh())
	}
	if a := c.Begin(); a.Kind != Events || a.Batch.Epoch != 1000 || a.Batch.First != 1 {
		t.Fatalf("%+v", a)
	}
	if a := c.Begin(); a.Kind != Nothing {
		t.Fatalf("the epoch began twice: %+v", a)
	}
	c = directCore(t)
	c.TakeMaster(3, 1000, Resume{})
	c.TakeMaster(4, 1000, Resume{}) // it is asked for its features then
	if a := c.Begin(); a.Kind != Nothing {
		t.Fatalf("%+v", a)
	}
	if got := mustFeed(t, c, features10(7)); len(got) != 1 || got[0].Kind != Events || got[0].Batch.Epoch != 1001 {
		t.Fatalf("%+v", got)
	}
}

func TestTold(t *testing.T) {
	a, d := agentCore(t), directCoreMaster(t)
	if a.Told(100) || d.Told(1000) {
		t.Fatal("nobody was told anything")
	}
	a.Refuse(experimenter.Refuse{Reason: experimenter.ReasonStaleEpoch, Epoch: 200}, 0)
	d.Refuse(experimenter.Refuse{Reason: experimenter.ReasonStaleEpoch, Epoch: 2000}, 0)
	if !a.Told(100) || !d.Told(1000) || d.Told(d.Epoch()) {
		t.Fatalf("agent: %v, switch: %v, switch in its new epoch: %v", a.Told(100), d.Told(1000), d.Told(d.Epoch()))
	}
}

func directCoreMaster(t *testing.T) *Core {
	t.Helper()
	c := directCore(t)
	c.TakeMaster(3, 1000, Resume{})
	c.Begin()
	c.types(t)
	return c
}

func TestDirectCommands(t *testing.T) {
	c := directCoreMaster(t)
	out := of13.PacketOut{BufferID: of13.NoBuffer, Actions: of13.Actions(nil).Output(of13.PortFlood, 0)}
	msgs := concat(out.Append(nil, 1), out.Append(nil, 2))
	if err := c.Send(commandBlock(3, 1000, 1, 2), msgs); err != nil {
		t.Fatal(err)
	}
	if out := c.types(t); out != "1:PACKET_OUT 1:PACKET_OUT" {
		t.Fatal(out)
	}
	if err := c.Send(commandBlock(3, 1000, 1, 2), msgs); err != nil || c.types(t) != "" {
		t.Fatalf("repeated commands: %v", err)
	}
	if err := c.Send(commandBlock(3, 999, 1, 2), msgs); err != nil || c.types(t) != "" {
		t.Fatalf("commands of another epoch: %v", err)
	}
	if err := c.Send(commandBlock(3, 1000, 4, 2), msgs); err == nil {
		t.Fatal("a gap passed")
	}
	if got := mustFeed(t, c, message(1, of10.TypeBarrierReply, 5)); len(got) != 1 || got[0].Kind != Events {
		t.Fatalf("the answer to a command's barrier: %+v", got)
	}
}

func TestDirectTranslates(t *testing.T) {
	c := directCoreMaster(t)
	in := packetIn10([]byte("packet")...)
	got := mustFeed(t, c, in, in)
	if len(got) != 1 || got[0].Batch.Count != 2 {
		t.Fatalf("%+v", got)
	}
	msg, _, _ := openflow.Next(got[0].Batch.Messages)
	var p of13.PacketIn
	if err := p.Decode(msg); err != nil {
		t.Fatal(err)
	}
	if port, _ := p.Match.InPort(); port != 3 || p.BufferID != 5 || string(p.Data) != "packet" {
		t.Fatalf("%+v", p)
	}
	out := of13.PacketOut{BufferID: 5, InPort: 3, Actions: of13.Actions(nil).Output(of13.PortFlood, 0)}
	group := of13.GroupMod{Command: of13.GroupAdd}
	if err := c.Send(commandBlock(3, 1000, 1, 2), concat(out.Append(nil, 1), group.Append(nil, 2))); err != nil {
		t.Fatal(err)
	}
	if got := c.types(t); got != "1:PACKET_OUT 1:type 0" || c.untranslated != 1 {
		t.Fatalf("%s, %d untranslated", got, c.untranslated)
	}
	if seq, yes := c.DoneAtWrite(); !yes || seq != 2 {
		t.Fatalf("%d, %v", seq, yes)
	}
	// The switch does not know that message, and says so under the command's xid.
	refusal := message(openflow.Version10, openflow.TypeError, 2, 0, 1, 0, 3, 1, 4, 0, 16, 0, 0, 0, 2)
	if got := mustFeed(t, c, refusal); len(got) != 1 || openflow.XID(got[0].Batch.Messages) != 2 ||
		got[0].Batch.Messages[1] != openflow.TypeError {
		t.Fatalf("%+v", got)
	}
}

func TestDoneAtWriteInTheNextEpoch(t *testing.T) {
	c := directCoreMaster(t)
	out := of13.PacketOut{BufferID: of13.NoBuffer, Actions: of13.Actions(nil).Output(of13.PortFlood, 0)}
	command := out.Append(nil, 1)
	write := func(epoch uint64) (mark uint64) {
		t.Helper()
		if err := c.Send(commandBlock(c.term, epoch, 1, 1), command); err != nil {
			t.Fatal(err)
		}
		if out := c.types(t); out != "1:PACKET_OUT" {
			t.Fatalf("wrote %q", out)
		}
		mark, yes := c.DoneAtWrite()
		if !yes {
			t.Fatal("it waits for an answer")
		}
		return mark
	}
	first := write(1000)
	if a := c.Written(first); a.Kind != CommandsDone || a.Done != 1 || a.Batch.Epoch != 1000 {
		t.Fatalf("%+v", a)
	}
	c.TakeMaster(4, 2000, Resume{})
	mustFeed(t, c, features10(7))
	c.types(t)
	second := write(2000)
	if second == first {
		t.Fatal("who tells only what is new would not tell this")
	}
	if a := c.Written(first); a.Kind != Nothing {
		t.Fatalf("what was written in the former epoch counts in this: %+v", a)
	}
	if a := c.Written(second); a.Kind != CommandsDone || a.Done != 1 || a.Batch.Epoch != 2000 {
		t.Fatalf("%+v", a)
	}
}
