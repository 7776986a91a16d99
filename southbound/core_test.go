package southbound

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-sdn/holdfast/internal/handshake"
	"github.com/holdfast-sdn/holdfast/internal/heartbeat"
	"github.com/holdfast-sdn/holdfast/internal/ofconn"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

func raw(version, typ uint8, xid uint32, body ...byte) []byte {
	m := append(openflow.AppendHeader(nil, version, typ, xid), body...)
	openflow.SetLength(m)
	return m
}

func concat(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

func features13(id openflow.DatapathID) []byte {
	f := of13.FeaturesReply{DatapathID: id, NTables: 254}
	return f.Append(nil, 1)
}

func features10(id openflow.DatapathID) []byte {
	body := binary.BigEndian.AppendUint64(nil, uint64(id))
	return raw(openflow.Version10, of13.TypeFeaturesReply, 1, append(body, make([]byte, 16)...)...)
}

func packetIn13(data ...byte) []byte {
	p := of13.PacketIn{BufferID: of13.NoBuffer, Match: of13.Match(nil).WithInPort(1), Data: data}
	return p.Append(nil, 0)
}

// opened is the answer of a switch that supports bundles and roles; opening is the xid of the first request of a
// session.
func opened(xid uint32) []byte {
	reply := of13.BundleControl{CtrlType: of13.BundleOpenReply}
	role := of13.RoleReply{Role: of13.RoleEqual}
	return role.Append(reply.Append(nil, xid), xid+2)
}

const opening = firstXID + 1

func ports13() []byte {
	p := of13.MultipartReply{Part: of13.PartPortDesc}
	return p.Append(nil, handshake.OwnXID+2)
}

func eventBlock(epoch, first uint64, msgs ...[]byte) []byte {
	all := concat(msgs...)
	b := experimenter.Block{Epoch: epoch, First: first, Count: uint32(len(msgs)), Bytes: uint32(len(all))}
	return append(b.Append(nil, 4, experimenter.TypeEvents), all...)
}

func commandBlock(term, epoch, first uint64, count uint32) experimenter.Block {
	return experimenter.Block{Generation: term, Epoch: epoch, First: first, Count: count}
}

func roleReply(term uint64) []byte {
	r := of13.RoleReply{Role: of13.RoleMaster, GenerationID: term}
	return r.Append(nil, handshake.OwnXID)
}

var (
	hello13 = raw(4, 0, 1)
	hello10 = raw(1, 0, 1)
)

// feed gives all of in to the core, and returns the actions.
func feed(c *Core, in []byte) (list []Action, err error) {
	for (len(in) > 0 || c.More()) && err == nil {
		var a Action
		if in, a, err = c.Next(in, 0); a.Kind != Nothing {
			a.Batch.Messages = bytes.Clone(a.Batch.Messages)
			list = append(list, a)
		}
	}
	return list, err
}

func mustFeed(t *testing.T, c *Core, in ...[]byte) []Action {
	t.Helper()
	list, err := feed(c, concat(in...))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// types lists the types of the messages to the peer, and removes the messages.
func (c *Core) types(t *testing.T) string {
	t.Helper()
	var list []string
	for b := c.out; len(b) > 0; {
		msg, rest, err := openflow.Next(b)
		if err != nil || msg == nil {
			t.Fatalf("%x: %v", b, err)
		}
		b = rest
		name := of13.TypeName(msg[1])
		if typ, ours := experimenter.Is(msg); ours {
			name = strings.TrimPrefix(typ.String(), "HOLDFAST_")
		}
		list = append(list, fmt.Sprintf("%d:%s", msg[0], name))
	}
	c.out = c.out[:0]
	return strings.Join(list, " ")
}

func agentCore(t *testing.T) *Core {
	t.Helper()
	c := &Core{}
	got := mustFeed(t, c, hello13, experimenter.Attach{Epoch: 100, FirstHeld: 1, NextEvent: 3, Version: 8}.Append(nil, 4),
		features13(7))
	if len(got) != 1 || got[0].Kind != Attached || c.State().Peer != Agent || c.id != 7 || c.epoch != 100 ||
		c.State().Claimed != 8 {
		t.Fatalf("after the handshake: %+v, mode %s, id %s, epoch %d", got, c.State().Peer, c.id, c.epoch)
	}
	if out := c.types(t); out != "4:HELLO 4:FEATURES_REQUEST" {
		t.Fatalf("wrote %s", out)
	}
	return c
}

func legacyCore(t *testing.T) *Core {
	t.Helper()
	c := &Core{}
	if got := mustFeed(t, c, hello10, features10(7)); len(got) != 1 || got[0].Kind != Attached ||
		c.State().Peer != Legacy {
		t.Fatalf("after the handshake: %+v, mode %s", got, c.State().Peer)
	}
	c.types(t)
	return c
}

func TestAgentEventsInPieces(t *testing.T) {
	c := agentCore(t)
	c.Claim(3, 0, Resume{Epoch: 90, Events: 4})
	if out := c.types(t); out != "4:EVENT_ACK 4:ROLE_REQUEST" {
		t.Fatal(out)
	}
	// Events before the reply belong to an earlier claim.
	if got := mustFeed(t, c, eventBlock(100, 9, packetIn13(9))); len(got) != 0 {
		t.Fatalf("%+v", got)
	}
	all := concat(eventBlock(100, 1, packetIn13(1), packetIn13(2), packetIn13(3)), eventBlock(200, 1, packetIn13(4)))
	if got := mustFeed(t, c, roleReply(3)); len(got) != 0 {
		t.Fatalf("%+v", got)
	}
	one := len(packetIn13(1))
	cut := experimenter.BlockLen + 2*one // so that one read ends between two messages of the block
	var ids []string
	for _, a := range append(mustFeed(t, c, all[:cut]), mustFeed(t, c, all[cut:])...) {
		ids = append(ids, fmt.Sprintf("%d/%d+%d", a.Batch.Epoch, a.Batch.First, a.Batch.Count))
		if len(a.Batch.Messages) != a.Batch.Count*one {
			t.Fatalf("%d bytes in %d messages", len(a.Batch.Messages), a.Batch.Count)
		}
	}
	if got := strings.Join(ids, " "); got != "100/1+2 100/3+1 200/1+1" || c.epoch != 200 {
		t.Fatalf("%s, epoch %d", got, c.epoch)
	}
	ack := experimenter.Ack{Epoch: 200, Seq: 5}
	if got := mustFeed(t, c, ack.Append(nil, 4, experimenter.TypeCommandAck)); len(got) != 1 ||
		got[0].Kind != CommandsDone || got[0].Done != 5 {
		t.Fatalf("%+v", got)
	}
}

func TestAgentCommands(t *testing.T) {
	c := agentCore(t)
	msgs := concat(raw(4, 14, 1), raw(4, 13, 2))
	if err := c.Send(commandBlock(3, 100, 1, 2), msgs); err != ErrNotMaster {
		t.Fatalf("before the claim: %v", err)
	}
	c.Claim(3, 0, Resume{})
	if err := c.Send(commandBlock(3, 100, 1, 2), msgs[:8]); err == nil {
		t.Fatal("one message in a block of two passed")
	}
	if err := c.Send(commandBlock(3, 100, 1, 2), msgs[:12]); err == nil {
		t.Fatal("half a message passed")
	}
	if err := c.Send(commandBlock(3, 100, 1, 2), msgs); err != nil {
		t.Fatal(err)
	}
	c.Acknowledge(100, 1)
	if out := c.types(t); out != "4:ROLE_REQUEST 4:COMMANDS 4:FLOW_MOD 4:PACKET_OUT 4:EVENT_ACK" {
		t.Fatal(out)
	}
	if err := c.Claim(2, 0, Resume{}); err != ErrNotMaster {
		t.Fatalf("an older term: %v", err)
	}
	c.Claim(4, 0, Resume{})
	if err := c.Send(commandBlock(3, 100, 1, 2), msgs); err != ErrNotMaster {
		t.Fatalf("in an older term: %v", err)
	}
	c.Refuse(experimenter.Refuse{Reason: experimenter.ReasonStaleEpoch, Epoch: 9}, 0)
	c.types(t)
	if got := mustFeed(t, c, eventBlock(100, 1, packetIn13(1))); len(got) != 0 {
		t.Fatalf("a refused agent is heard: %+v", got)
	}
}

// State.Fenced tells whether the agent refused this controller's latest claim, until another controller leads.
func TestAgentRefusesTheClaim(t *testing.T) {
	stale := (&of13.Error{ErrType: of13.ErrTypeRoleRequestFailed, Code: of13.RoleRequestFailedStale}).Append(nil,
		handshake.OwnXID)
	for _, tc := range []struct {
		name   string
		then   func(t *testing.T, c *Core)
		fenced bool
	}{
		{"it does", func(*testing.T, *Core) {}, true},
		{"it accepts the claim after all", func(t *testing.T, c *Core) { mustFeed(t, c, roleReply(3)) }, false},
		{"it has not answered the next claim", func(t *testing.T, c *Core) { mustClaim(t, c, 4) }, false},
		{"another leads", func(_ *testing.T, c *Core) { c.Standby(4) }, false},
		{"another leads, and it answers what was asked before",
			func(t *testing.T, c *Core) { c.Standby(4); mustFeed(t, c, stale) }, false},
		{"another has led", func(t *testing.T, c *Core) {
			c.Standby(4)
			mustClaim(t, c, 5)
			mustFeed(t, c,
				stale)
		}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := agentCore(t)
			mustClaim(t, c, 3)
			mustFeed(t, c, stale)
			tc.then(t, c)
			want := "exactly-once"
			if tc.fenced {
				want = "none"
			}
			if st := c.State(); st.Fenced != tc.fenced || st.Guarantee != want {
				t.Errorf("%+v; want fenced %t, and %q", st, tc.fenced, want)
			}
		})
	}
}

// A claim that the agent has refused is repeated once a second, because the other master may be gone, until the agent
// accepts it or another controller leads.
func TestRefusedClaimIsRepeated(t *testing.T) {
	stale := (&of13.Error{ErrType: of13.ErrTypeRoleRequestFailed, Code: of13.RoleRequestFailedStale}).Append(nil,
		handshake.OwnXID)
	c := agentCore(t)
	second := func() string {
		for range 10 {
			if err := c.Tick(0, true); err != nil {
				t.Fatal(err)
			}
		}
		return c.types(t)
	}
	mustClaim(t, c, 3)
	c.types(t)
	for _, step := range []struct {
		what string
		do   func()
		want string
	}{
		{"it is not answered", func() {}, ""},
		{"it is refused", func() { mustFeed(t, c, stale) }, "4:ROLE_REQUEST"},
		{"it is not answered again", func() {}, "4:ROLE_REQUEST"},
		{"it is accepted", func() { mustFeed(t, c, roleReply(3)) }, ""},
		{"another leads", func() { mustFeed(t, c, stale); c.Standby(4) }, ""},
	} {
		step.do()
		if out := second(); out != step.want {
			t.Errorf("%s: it sends %q, want %q", step.what, out, step.want)
		}
	}
}

// An agent that is claimed and silent for three heartbeats ends its session. It hears from this controller in each
// interval. It may be silent while it is not claimed, and while it is not read, and longer on a crowded machine.
func TestSilentAgent(t *testing.T) {
	const limit = heartbeat.Missed * heartbeat.Ticks
	threads := 1
	crowd := func() int { return threads }
	beats := func(c *Core, n int, reading bool) (asked int, err error) {
		for range n {
			if err = c.Beat(reading, crowd); err != nil {
				return asked, err
			}
			if len(c.TakeOut()) > 0 {
				asked++
			}
		}
		return asked, nil
	}
	c := agentCore(t)
	if asked, err := beats(c, 2*limit, true); asked > 0 || err != nil {
		t.Errorf("not claimed: %d heartbeats, %v", asked, err)
	}
	mustClaim(t, c, 1)
	mustFeed(t, c, roleReply(1))
	c.TakeOut()
	if asked, err := beats(c, 10*heartbeat.Ticks, false); asked < 9 || asked > 10 || err != nil {
		t.Errorf("not read: %d heartbeats in 10 intervals, %v", asked, err)
	}
	for threads = 10; threads > 0; threads-- {
		mustFeed(t, c, raw(4, openflow.TypeEchoReply, handshake.OwnXID))
		if _, err := beats(c, threads*limit, true); err != nil || c.State().Silent {
			t.Fatalf("heard, with a crowd of %d: %v", threads, err)
		}
	}
	threads = 1
	if _, err := beats(c, 1, true); !errors.Is(err, ofconn.ErrSilent) || !c.State().Silent {
		t.Errorf("silent: %v, %+v", err, c.State())
	}
}

func mustClaim(t *testing.T, c *Core, term uint64) {
	t.Helper()
	if err := c.Claim(term, 0, Resume{}); err != nil {
		t.Fatal(err)
	}
}

func TestAgentOf10SwitchKeepsTheNumbers(t *testing.T) {
	c := &Core{}
	up := experimenter.SwitchUp{Features: features10(7)}.Append(nil, 1)
	mustFeed(t, c, hello10, experimenter.Attach{Epoch: 100, FirstHeld: 1, NextEvent: 2}.Append(nil, 1), features10(7))
	c.Claim(3, 0, Resume{})
	in := packetIn10([]byte("packet")...)
	strange := raw(1, 99, 4)
	all := concat(up, in, strange, in)
	b := experimenter.Block{Epoch: 100, First: 1, Count: 4, Bytes: uint32(len(all))}
	got := mustFeed(t, c, roleReply(3), b.Append(nil, 1, experimenter.TypeEvents), all)
	if len(got) != 1 || got[0].Batch.Count != 4 || countMessages(got[0].Batch.Messages) != 4 {
		t.Fatalf("%+v", got)
	}
	first, rest, _ := openflow.Next(got[0].Batch.Messages)
	u, err := experimenter.ParseSwitchUp(first)
	var f of13.FeaturesReply
	if err != nil || f.Decode(u.Features) != nil || f.DatapathID != 7 {
		t.Fatalf("SWITCH_UP %+v, %v", u, err)
	}
	for _, typ := range []uint8{of13.TypePacketIn, of13.TypeError, of13.TypePacketIn} {
		var msg []byte
		if msg, rest, _ = openflow.Next(rest); msg[0] != 4 || msg[1] != typ {
			t.Fatalf("%x, want type %d", msg, typ)
		}
	}
}

func TestWrongPeers(t *testing.T) {
	attach := experimenter.Attach{Epoch: 100}.Append(nil, 4)
	agent := concat(hello13, attach, features13(7))
	legacy := concat(hello10, features10(7))
	stock := concat(hello13, features13(7), opened(opening), ports13())
	other := bytes.Clone(attach)
	other[19]++ // protocol version
	for _, tc := range []struct {
		name, fails string
		in          []byte
	}{
		{"no hello", "no OpenFlow HELLO", raw(4, 10, 0)},
		{"old version", "enable 1.3", raw(2, 0, 0)},
		{"changes version", "negotiated", concat(hello13, raw(1, 2, 0))},
		{"attach before hello", "HELLO", attach},
		{"attach twice", "ATTACH", concat(hello13, attach, attach)},
		{"other release", "same release", concat(hello13, other)},
		{"refuses hello", "error type 0", concat(hello13, raw(4, 1, 0, 0, 0, 0, 0))},
		{"auxiliary connection", "auxiliary", concat(hello13, (&of13.FeaturesReply{AuxID: 1}).Append(nil, 0))},
		{"agent: event without block", "outside of a block", concat(agent, packetIn13(1))},
		{"agent: block of nothing", "block of 0", concat(agent, eventBlock(100, 1))},
		{"agent: block too short", "length", concat(agent,
			experimenter.Block{Epoch: 100, First: 1, Count: 1, Bytes: 8}.Append(nil, 4, experimenter.TypeEvents),
			packetIn13(1))},
		{"agent: block too long", "length", concat(agent,
			experimenter.Block{Epoch: 100, First: 1, Count: 1, Bytes: 800}.Append(nil, 4, experimenter.TypeEvents),
			packetIn13(1))},
		{"agent: malformed ack", "truncated", concat(agent, raw(4, 4, 0, 0xff, 0, 0x48, 0x4f, 0, 0, 0, 5))},
		{"legacy: plays agent", "without ATTACH", concat(legacy,
			experimenter.Block{Epoch: 1, First: 1, Count: 1}.Append(nil, 1, experimenter.TypeEvents))},
		{"legacy: other version", "version 4", concat(legacy, packetIn13(1))},
		{"bundles: plays agent", "without ATTACH", concat(stock, eventBlock(1, 1, packetIn13(1)))},
		{"bundles: claims to be marked", "without ATTACH",
			concat(stock, experimenter.SyncMarker{Generation: 1, Number: 1}.Append(nil, 4))},
		{"bundles: other version", "version 1", concat(stock, raw(1, 10, 0))},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := &Core{}
			if _, err := feed(c, tc.in); err == nil || !strings.Contains(err.Error(), tc.fails) {
				t.Fatalf("error %v, want %q in it", err, tc.fails)
			}
		})
	}
}

func TestAgentOfAnotherReleaseIsTold(t *testing.T) {
	other := experimenter.Attach{Epoch: 100}.Append(nil, 4)
	other[19]++ // protocol version
	c := &Core{}
	if _, err := feed(c, concat(hello13, other)); err == nil || !c.Refused() {
		t.Fatalf("error %v, refused: %v", err, c.Refused())
	}
	refusal := c.TakeOut()
	refusal = refusal[len(refusal)-len(experimenter.Refuse{}.Append(nil, 4)):]
	if r, err := experimenter.ParseRefuse(refusal); err != nil || r.Reason != experimenter.ReasonUnsupportedVersion {
		t.Fatalf("%+v, %v", r, err)
	}
}

// FuzzSession: for any input from a peer, the core does not panic, and its counts are right.
func FuzzSession(f *testing.F) {
	attach := experimenter.Attach{Epoch: 100}.Append(nil, 4)
	f.Add(concat(hello13, attach, features13(7), roleReply(1), eventBlock(100, 1, packetIn13(1), packetIn13(2))))
	f.Add(concat(hello13, features13(7), opened(opening), ports13(), packetIn13(1), raw(4, 21, 0x80000101)))
	f.Add(concat(hello13, features13(7), ports13(), packetIn13(1), raw(4, 21, 5)))
	f.Add(concat(hello10, features10(7), raw(1, 10, 0, make([]byte, 20)...)))
	up := experimenter.SwitchUp{}.Append(nil, 1) // without features
	f.Add(concat(hello13, attach, features13(7), roleReply(1), eventBlock(100, 1, up)))
	f.Add(experimenter.Stream{ID: 1, Kind: experimenter.StreamEnd}.Append(nil))
	f.Fuzz(func(t *testing.T, in []byte) {
		c := &Core{}
		whole := in[:0:0]
		for rest := in; ; {
			msg, next, err := openflow.Next(rest)
			if msg == nil || err != nil {
				break
			}
			whole, rest = append(whole, msg...), next
		}
		for len(whole) > 0 || c.More() {
			rest, a, err := c.Next(whole, 0)
			if err != nil {
				return
			}
			switch a.Kind {
			case Carries: // the rest is not for the core
				return
			case Attached:
				if err := c.Claim(1, 50, Resume{}); err != nil {
					t.Fatal(err)
				}
			case Events:
				if n := countMessages(a.Batch.Messages); n != a.Batch.Count || n == 0 {
					t.Fatalf("%d messages in a batch of %d", n, a.Batch.Count)
				}
				for b := a.Batch.Messages; len(b) > 0; {
					var msg []byte
					if msg, b, _ = openflow.Next(b); msg[0] != 4 {
						t.Fatalf("%x is not OpenFlow 1.3", msg)
					}
				}
			}
			if len(rest) >= len(whole) && a.Kind == Nothing { // Attached may deliver early events, Events those held
				t.Fatal("no progress")
			}
			whole = rest
		}
	})
}
