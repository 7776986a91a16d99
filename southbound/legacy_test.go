package southbound

import (
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-sdn/holdfast/internal/handshake"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/openflow/of10"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

func packetIn10(data ...byte) []byte {
	body := []byte{0, 0, 0, 5, 0, 0, 0, 3, 0, 0} // buffer 5, port 3
	return raw(openflow.Version10, of13.TypePacketIn, 0, append(body, data...)...)
}

func TestLegacyEpochs(t *testing.T) {
	c := legacyCore(t)
	for range freshTicks {
		if !c.Full() {
			t.Fatal("it is read before a leader could claim it")
		}
		c.Tick(1, true)
	}
	if c.Full() || c.More() {
		t.Fatal("it waits for a leader for ever, or an epoch began without one")
	}
	if got := mustFeed(t, c, packetIn10(1)); len(got) != 0 {
		t.Fatalf("events before a leader claimed the switch: %+v", got)
	}
	c.Claim(3, 1000, Resume{})
	if out := c.types(t); out != "1:FEATURES_REQUEST" || c.epoch != 1000 {
		t.Fatalf("%s, epoch %d", out, c.epoch)
	}
	got := mustFeed(t, c, packetIn10(2), features10(7), packetIn10(3), raw(1, 2, 1), packetIn10(4), packetIn10(5))
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
	if _, err := feed(legacyCoreMaster(t), features10(8)); err != nil {
		t.Fatalf("an answer nobody asked for: %v", err)
	}
	c = legacyCoreMaster(t)
	c.Claim(4, 1000, Resume{})
	if _, err := feed(c, features10(8)); err == nil {
		t.Fatal("the switch may not change its name")
	}
}

func TestFreshSwitchIsClaimedBeforeItIsRead(t *testing.T) {
	c := legacyCore(t)
	if !c.Full() || agentCore(t).Full() || stockCore(t).Full() {
		t.Fatal("a switch waits for a leader if it has neither agent nor bundles, and has just connected")
	}
	c.Claim(3, 1000, Resume{})
	if out := c.types(t); out != "" || c.Full() || !c.More() {
		t.Fatalf("wrote %s, full: %v: its features are known", out, c.Full())
	}
	got := mustFeed(t, c, packetIn10(1))
	if len(got) != 2 || got[0].Batch.Epoch != 1000 || got[0].Batch.First != 1 || got[1].Batch.First != 2 {
		t.Fatalf("%+v", got)
	}
	c = legacyCore(t)
	c.Claim(3, 1000, Resume{Epoch: 500}) // earlier events may be in the log
	if out := c.types(t); out != "1:FEATURES_REQUEST" || c.Full() || c.More() {
		t.Fatalf("wrote %s", out)
	}
	if got := mustFeed(t, c, packetIn10(1), features10(7), packetIn10(2)); len(got) != 2 || got[1].Batch.Count != 1 {
		t.Fatalf("%+v", got)
	}
	c = legacyCore(t)
	c.Claim(3, 1000, Resume{})
	c.Claim(4, 1000, Resume{}) // now it requests the features first
	if c.More() {
		t.Fatal("the epoch begins twice")
	}
	if got := mustFeed(t, c, features10(7)); len(got) != 1 || got[0].Kind != Events || got[0].Batch.Epoch != 1001 {
		t.Fatalf("%+v", got)
	}
}

// A switch of a later version without bundles is handled in the same way. It also receives a role request, which
// fences the previous master.
func TestLegacyOf13(t *testing.T) {
	for _, answer := range [][]byte{nil, raw(4, openflow.TypeError, opening, 0, 1, 0, 3)} {
		c := &Core{}
		mustFeed(t, c, hello13, features13(7), answer, ports13())
		if st := c.State(); st.Peer != Legacy || st.Guarantee != "at-most-once" || st.Why != noBundles {
			t.Fatalf("%+v", st)
		}
		if out := c.types(t); strings.Contains(out, "SET_ASYNC") {
			t.Fatal(out)
		}
		c.Claim(3, 1000, Resume{Epoch: 2000})
		if out := c.types(t); out != "4:ROLE_REQUEST 4:FEATURES_REQUEST" {
			t.Fatal(out)
		}
		role := of13.RoleReply{Role: of13.RoleMaster, GenerationID: 3}
		again := raw(4, of13.TypeFeaturesReply, handshake.OwnXID+1, features13(7)[openflow.HeaderLen:]...)
		got := mustFeed(t, c, role.Append(nil, firstXID+5), packetIn13(0), again, ports13(), packetIn13(1),
			raw(4, of13.TypeBarrierReply, 9))
		if len(got) != 2 || got[0].Batch.Epoch != 2001 || got[1].Batch.Count != 2 {
			t.Fatalf("%+v", got)
		}
		c.Standby(4)
		if got := mustFeed(t, c, packetIn13(1)); len(got) != 0 || c.Send(commandBlock(3, 2001, 1, 1), nil) == nil {
			t.Fatalf("it still leads: %+v", got)
		}
		c.Claim(5, 3000, Resume{})
		c.Standby(6) // before the features have arrived again
		if got := mustFeed(t, c, again); len(got) != 0 {
			t.Fatalf("%+v", got)
		}
	}
}

// A switch with bundles and without roles is a legacy switch at every controller, also at those that never claim it.
func TestSwitchWithoutRoles(t *testing.T) {
	bundle := of13.BundleControl{CtrlType: of13.BundleOpenReply}
	refusal := of13.Error{ErrType: of13.ErrTypeRoleRequestFailed, Code: of13.RoleRequestFailedUnsup}
	for _, answer := range [][]byte{nil, refusal.Append(nil, opening+2)} {
		c := &Core{}
		mustFeed(t, c, hello13, features13(7), bundle.Append(nil, opening), answer, ports13())
		c.Standby(3)
		if st := c.State(); st.Peer != Legacy || st.Why != noRoles || !st.InSync {
			t.Fatalf("%+v", st)
		}
	}
}

// A switch that turns out to lack what bundles need is a legacy switch from then on, in a new epoch.
func TestBundlesBecomesLegacy(t *testing.T) {
	refusal := func(xid uint32) []byte {
		e := of13.Error{ErrType: of13.ErrTypeFlowModFailed, Data: make([]byte, 16)}
		return e.Append(nil, xid)
	}
	for name, tc := range map[string]struct {
		why     string
		answers func(c *Core) []byte
	}{
		"no roles":  {noRoles, func(c *Core) []byte { return refusal(c.peer.(*bundles).roleXID) }},
		"no marker": {noMarker, func(c *Core) []byte { return refusal(c.peer.(*bundles).sender.step.marker) }},
	} {
		c := stockCore(t)
		c.Claim(3, 1000, Resume{})
		if tc.why == noMarker {
			role := of13.RoleReply{Role: of13.RoleMaster, GenerationID: 3}
			none := of13.MultipartReply{Part: of13.PartFlow}
			mustFeed(t, c, role.Append(nil, c.peer.(*bundles).roleXID), none.Append(nil, c.peer.(*bundles).markersXID))
		}
		mustFeed(t, c, tc.answers(c))
		if st := c.State(); st.Peer != Legacy || st.Guarantee != "at-most-once" || st.Why != tc.why || !st.InSync {
			t.Fatalf("%s: %+v", name, st)
		}
		got := mustFeed(t, c, packetIn13(1), raw(4, of13.TypeFeaturesReply, handshake.OwnXID+1,
			features13(7)[openflow.HeaderLen:]...), ports13(), packetIn13(2))
		if len(got) != 2 || got[0].Batch.First != 1 || got[1].Batch.Count != 1 || got[0].Batch.Epoch != c.epoch {
			t.Fatalf("%s: %+v", name, got)
		}
	}
}

func TestTold(t *testing.T) {
	a, d := agentCore(t), legacyCoreMaster(t)
	if a.Told(100) || d.Told(1000) {
		t.Fatal("nobody was told anything")
	}
	a.Refuse(experimenter.Refuse{Reason: experimenter.ReasonStaleEpoch, Epoch: 200}, 0)
	d.Refuse(experimenter.Refuse{Reason: experimenter.ReasonStaleEpoch, Epoch: 2000}, 0)
	mustFeed(t, d, features10(7))
	if !a.Told(100) || !d.Told(1000) || d.Told(d.epoch) {
		t.Fatalf("agent: %v, switch: %v, switch in its new epoch: %v", a.Told(100), d.Told(1000), d.Told(d.epoch))
	}
}

func legacyCoreMaster(t *testing.T) *Core {
	t.Helper()
	c := legacyCore(t)
	c.Claim(3, 1000, Resume{})
	mustFeed(t, c)
	c.types(t)
	return c
}

func TestLegacyCommands(t *testing.T) {
	c := legacyCoreMaster(t)
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
	if got := mustFeed(t, c, raw(1, of10.TypeBarrierReply, 5)); len(got) != 1 || got[0].Kind != Events {
		t.Fatalf("the answer to a command's barrier: %+v", got)
	}
}

func TestLegacyTranslates(t *testing.T) {
	c := legacyCoreMaster(t)
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
	if mark := c.WriteMark(); mark != 2 {
		t.Fatal(mark)
	}
	// The switch does not support that message, and refuses it with the xid of the command.
	refusal := raw(openflow.Version10, openflow.TypeError, 2, 0, 1, 0, 3, 1, 4, 0, 16, 0, 0, 0, 2)
	if got := mustFeed(t, c, refusal); len(got) != 1 || openflow.XID(got[0].Batch.Messages) != 2 ||
		got[0].Batch.Messages[1] != openflow.TypeError {
		t.Fatalf("%+v", got)
	}
}

func TestWriteMarkInTheNextEpoch(t *testing.T) {
	c := legacyCoreMaster(t)
	out := of13.PacketOut{BufferID: of13.NoBuffer, Actions: of13.Actions(nil).Output(of13.PortFlood, 0)}
	command := out.Append(nil, 1)
	write := func(epoch uint64) (mark uint64) {
		t.Helper()
		if err := c.Send(commandBlock(c.generation, epoch, 1, 1), command); err != nil {
			t.Fatal(err)
		}
		if out := c.types(t); out != "1:PACKET_OUT" {
			t.Fatalf("wrote %q", out)
		}
		return c.WriteMark()
	}
	first := write(1000)
	if a := c.Written(first); a.Kind != CommandsDone || a.Done != 1 || a.Batch.Epoch != 1000 {
		t.Fatalf("%+v", a)
	}
	c.Claim(4, 2000, Resume{})
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

// No message of an application can change the role of a legacy switch's connection.
func TestNoRolesForApplicationsOfLegacySwitches(t *testing.T) {
	role := of13.RoleRequest{Role: of13.RoleSlave, GenerationID: 1 << 40}
	async := of13.SetAsync{}
	for _, first := range []uint64{1, 0} {
		c := &Core{}
		mustFeed(t, c, hello13, features13(7), ports13())
		c.Claim(3, 1000, Resume{})
		mustFeed(t, c)
		c.types(t)
		b := commandBlock(3, 1000, first, 2)
		if err := c.Send(b, concat(role.Append(nil, 1), async.Append(nil, 2))); err != nil {
			t.Fatal(err)
		}
		n := countMessages(c.out)
		if out := c.types(t); n != 2 || strings.Contains(out, "ROLE") || strings.Contains(out, "ASYNC") {
			t.Fatalf("%d messages: %s", n, out)
		}
	}
}

// If a legacy switch has a master of a later term, it executes no command of this controller. The status says so.
func TestLegacySwitchWithALaterMaster(t *testing.T) {
	for _, epoch := range []uint64{0, 500} { // begins at once; after features were requested again
		c := &Core{}
		mustFeed(t, c, hello13, features13(7), ports13())
		guarantee := func() string {
			t.Helper()
			s := c.State()
			if (s.Guarantee == "none") != (s.Why == whyStale) {
				t.Fatalf("%s: %s", s.Guarantee, s.Why)
			}
			return s.Guarantee
		}
		refuse := func(xid uint32, code uint16) string {
			t.Helper()
			e := of13.Error{ErrType: of13.ErrTypeRoleRequestFailed, Code: code}
			mustFeed(t, c, e.Append(nil, xid))
			return guarantee()
		}
		claim := func(term uint64) (xid uint32) {
			t.Helper()
			c.TakeOut()
			c.Claim(term, 1000, Resume{Epoch: epoch})
			for out := c.out; len(out) > 0; out = out[int(out[2])<<8|int(out[3]):] {
				if out[1] == of13.TypeRoleRequest {
					return openflow.XID(out)
				}
			}
			t.Fatal("no ROLE_REQUEST")
			return 0
		}
		first := claim(3)
		if g := refuse(first+100, of13.RoleRequestFailedStale); g != "at-most-once" {
			t.Fatalf("an ERROR about another request: %s", g)
		}
		if g := refuse(first, of13.RoleRequestFailedUnsup); g != "at-most-once" {
			t.Fatalf("a switch without roles: %s", g)
		}
		if g := refuse(first, of13.RoleRequestFailedStale); g != "none" {
			t.Fatalf("a refused claim: %s", g)
		}
		claim(9)
		if g := guarantee(); g != "at-most-once" {
			t.Fatalf("a claim in a later term: %s", g)
		}
		if g := refuse(first, of13.RoleRequestFailedStale); g != "at-most-once" {
			t.Fatalf("a late answer to the earlier claim: %s", g)
		}
	}
}

// The session of a legacy switch is closed if the switch does not answer when its epoch should begin.
func TestLegacySwitchThatDoesNotAnswer(t *testing.T) {
	c := legacyCore(t)
	c.Claim(3, 1000, Resume{Epoch: 500})
	for i := range patience - 1 {
		if err := c.Tick(1, true); err != nil {
			t.Fatalf("after %d ticks: %v", i, err)
		}
	}
	if c.Tick(1, true) != errNoAnswer {
		t.Fatal("it is waited for, for ever")
	}
	c = legacyCore(t)
	c.Claim(3, 1000, Resume{Epoch: 500})
	mustFeed(t, c, features10(7))
	for range 2 * patience {
		if err := c.Tick(1, true); err != nil {
			t.Fatal(err)
		}
	}
}
