package southbound

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// heldMessage makes an event from a name: M1, M2, … are sync markers, P1, P2, … port-status messages, all others
// packet-ins.
func heldMessage(name string) []byte {
	var n uint64
	if _, err := fmt.Sscanf(name, "M%d", &n); err == nil {
		return experimenter.SyncMarker{Generation: 1, Number: n}.Append(nil, 4)
	}
	if _, err := fmt.Sscanf(name, "P%d", &n); err == nil {
		return (&of13.PortStatus{Reason: of13.PortModify, Port: of13.PortDesc{Port: of13.Port(n)}}).Append(nil, 0)
	}
	return packetIn13([]byte(name)...)
}

// play gives a standby events: +a arrives from the switch; -a also, but for this controller only; =a is logged; ~n
// means that n unknown events are logged; ! that the log continues at an unknown point; / ends a leadership.
func (h *held) play(t *testing.T, script string) {
	t.Helper()
	for _, step := range strings.Fields(script) {
		switch msg := heldMessage(step[1:]); step[0] {
		case '+':
			h.received(msg, false)
		case '-':
			h.received(msg, true)
		case '=':
			h.logged(msg)
		case '~':
			h.skipped(int(step[1] - '0'))
		case '!':
			h.lost()
		case '/':
			h.restart(0, nil)
		default:
			t.Fatalf("what is %q?", step)
		}
	}
}

// names lists the events that are held.
func (h *held) names() string {
	all := h.All()
	var list []string
	for len(all) > 0 {
		var msg []byte
		msg, all, _ = openflow.Next(all)
		if m, err := experimenter.ParseSyncMarker(msg); err == nil {
			list = append(list, fmt.Sprintf("M%d", m.Number))
			continue
		}
		var status of13.PortStatus
		if status.Decode(msg) == nil {
			list = append(list, fmt.Sprintf("P%d", status.Port.Port))
			continue
		}
		var p of13.PacketIn
		_ = p.Decode(msg)
		list = append(list, string(p.Data))
	}
	return strings.Join(list, " ")
}

func TestHeld(t *testing.T) {
	for _, tc := range []struct {
		name, script string
		inSync       bool
		held         string
		ahead        int
	}{
		{"nothing", "", false, "", 0},
		{"no mark", "+a +b =a", false, "a b", 0},
		{"the log has the mark first", "=M1 =a +x +M1 +a +b", true, "b", 0},
		{"the switch has the mark first", "+x +M1 +a +b =M1 =a", true, "b", 0},
		{"a mark the switch has not sent yet", "=M1 =M2 +M1 +a", false, "M1 a", 0},
		{"a port-status for all", "+M1 =M1 +a +P1 +b =a =P1 +c", true, "b c", 0},
		{"a port-status that the log has first", "+M1 =M1 =P1 =a +P1 +a +b", true, "b", 0},
		{"a port-status that the master did not get", "+M1 =M1 +P1 +P2 +a =a +P3 +b =b +P4", true, "P4", 0},
		{"and what the log has comes later", "+M1 =M1 +P1 =a =b +P2 +a +P3 +b +c", true, "c", 0},
		{"others are still missed", "+M1 =M1 +P1 +a =b", false, "a", 0},
		{"the newest counts", "=M1 =a =M2 =b +M1 +a +M2 +b +c", true, "c", 0},
		{"a mark from before the connection", "=M1 =a =M2 +a +M2", true, "", 0},
		{"a mark from before the session heard of the log", "+M1 +a +M2 =a =M2 +b", true, "b", 0},
		{"the log is ahead", "=M1 +M1 =a =b +a", true, "", 1},
		{"the log is behind", "=M1 +M1 +a +b =a", true, "b", 0},
		{"back and forth", "=M1 +M1 =a =b +a +b +c +d =c =d =e +e +f", true, "f", 0},
		{"marks like other events", "=M1 +M1 +a +M2 +b =a =M2", true, "b", 0},
		{"equal events are as many as they are", "+M1 =M1 +a +a +a =a", true, "a a", 0},
		{"and in the log", "+M1 =M1 =a =a =a +a", true, "", 2},
		{"an event was dropped on the way here", "+M1 =M1 +b =a", false, "b", 0},
		{"and the log was first", "+M1 =M1 =a +b", false, "b", 0},
		{"until the next mark", "+M1 =M1 +b =a =b +M2 =M2 +c", true, "c", 0},
		{"a mark that the log had before that is no point", "+M1 =M1 =a =b =M2 =c +b +M2 +c", false, "b M2 c", 0},
		{"which the log has first", "+M1 =M1 =a =b +b =M2 =c +M2 +c +d", true, "d", 0},
		{"a mark was dropped", "+M1 =M1 =M2 +a =a +M3 =M3 +b", true, "b", 0},
		{"a mark ends it itself", "+M1 =M1 +a +M2 +b =M2", true, "b", 0},
		{"only the number is known, behind", "+M1 =M1 +a +b +c ~2", true, "c", 0},
		{"only the number is known, ahead", "+M1 =M1 ~2 +a +b +c", true, "c", 0},
		{"only the number is known, since the mark", "=M1 ~2 =c +M1 +a +b +c +d", true, "d", 0},
		{"only the number is known, before any mark", "~3 +a +M1 =M1", true, "", 0},
		{"what was dropped may hide behind a number", "+M1 =M1 +b ~1 =c", true, "", 1},
		{"the log has come to a point unseen", "+M1 =M1 +a ! =a", false, "a", 0},
		{"and a mark from before does not count", "=M1 ! +M1", false, "M1", 0},
		{"answers are one's own", "+M1 =M1 +a -x +b -y /", true, "a b", 0},
		{"answers only", "+M1 =M1 -x / =a", true, "", 1},
		{"a deposed leader goes on", "+M1 =M1 +a -x +b / =a =b =c", true, "", 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var h held
			h.play(t, tc.script)
			if got := h.names(); h.inSync != tc.inSync || got != tc.held || len(h.ahead) != tc.ahead {
				t.Fatalf("%s: in sync %v, holds %q, %d ahead; want %v, %q, %d", tc.script, h.inSync, got, len(h.ahead),
					tc.inSync, tc.held, tc.ahead)
			}
		})
	}
}

// Apart from its transaction and buffer ids, an event is equal on every connection.
func TestHeldSum(t *testing.T) {
	in := of13.PacketIn{BufferID: 1, Cookie: 5, Match: of13.Match(nil).WithInPort(1), Data: []byte("packet")}
	one := in.Append(nil, 1)
	in.BufferID = 2
	if two := in.Append(nil, 9); sum(one) != sum(two) {
		t.Fatal("the same packet-in differs")
	}
	in.Cookie = 6
	if sum(one) == sum(in.Append(nil, 1)) {
		t.Fatal("packet-ins of two flow entries are the same")
	}
	removed := of13.FlowRemoved{Cookie: 5}
	if sum(removed.Append(nil, 1)) != sum(removed.Append(nil, 2)) ||
		sum(removed.Append(nil, 1)) == sum((&of13.FlowRemoved{Cookie: 6}).Append(nil, 1)) {
		t.Fatal("flow-removed")
	}
	if sum(raw(4, of13.TypePacketIn, 1)) < 2 { // the shortest packet-in
		t.Fatal("a reserved sum")
	}
}

// TestHeldBounds: in sync, the buffer reports that it is full; out of sync, it drops its oldest events.
func TestHeldBounds(t *testing.T) {
	big := packetIn13(make([]byte, 60000)...)
	for name, msg := range map[string][]byte{"events": packetIn13(1), "bytes": big} {
		t.Run(name, func(t *testing.T) {
			var h held
			h.play(t, "+M1 =M1")
			n := 0
			for ; !h.full(); n++ {
				h.received(msg, false)
			}
			if n > maxHeld || n*len(msg) > maxHeldBytes+len(msg) {
				t.Fatalf("%d events, %d bytes", n, n*len(msg))
			}
			h.logged(msg)
			if h.full() != (name == "bytes" && h.Bytes() >= maxHeldBytes) || h.Len() != n-1 {
				t.Fatalf("full %v with %d of %d", h.full(), h.Len(), n)
			}
			h.lost()
			for range 3 * n {
				h.received(msg, false)
			}
			if h.full() || h.Len() > maxHeld || h.Bytes() > maxHeldBytes+len(msg) {
				t.Fatalf("out of sync: full %v, %d events, %d bytes", h.full(), h.Len(), h.Bytes())
			}
			h.play(t, "+M2 =M2 +a")
			if !h.inSync || h.names() != "a" {
				t.Fatalf("in sync %v, holds %q", h.inSync, h.names())
			}
		})
	}
	var h held
	h.play(t, "+M1 =M1")
	for range maxHeld + 1 {
		h.logged(packetIn13(1))
	}
	if h.inSync || len(h.ahead) > maxHeld {
		t.Fatalf("in sync %v, %d ahead", h.inSync, len(h.ahead))
	}
	h.play(t, "=M2")
	for range 3 * maxHeld {
		h.logged(packetIn13(1))
		h.skipped(1)
	}
	if len(h.since) > maxHeld+1 {
		t.Fatalf("%d since a mark that never came", len(h.since))
	}
	h.play(t, "=M3")
	h.skipped(maxHeld + 5)
	h.play(t, "+M3")
	if h.inSync || len(h.since) > maxHeld {
		t.Fatalf("in sync %v, though not all is known that the log has behind the mark", h.inSync)
	}
	h.play(t, "=M4 =a +M4")
	if !h.inSync || len(h.ahead) != 1 {
		t.Fatalf("in sync %v, %d ahead", h.inSync, len(h.ahead))
	}
}

// TestHeldPop: after any sequence of removals, the other events and what is known of them are unchanged.
func TestHeldPop(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h held
		var want []heldEvent
		var events [][]byte
		var last uint64
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			for range rapid.SampledFrom([]int{0, 1, 5, 700}).Draw(t, "more") {
				last++
				private := rapid.Bool().Draw(t, "private")
				msg := packetIn13(byte(last), byte(last>>8))
				e := heldEvent{sum: last + 9}
				if private {
					e.sum = 0
				}
				h.push(msg, e.sum)
				want, events = append(want, e), append(events, msg)
			}
			n := min(rapid.SampledFrom([]int{0, 1, 3, 600, 5000}).Draw(t, "fewer"), len(want))
			h.pop(n)
			want, events = want[n:], events[n:]
			if rapid.IntRange(0, 9).Draw(t, "restart") == 0 {
				first := packetIn13(1, 2, 3)
				h.restart(41, first)
				kept, shared := []heldEvent{{}}, [][]byte{first}
				for i, e := range want {
					if e.sum != 0 {
						kept, shared = append(kept, e), append(shared, events[i])
					}
				}
				want, events = kept, shared
				if h.Acked() != 41 {
					t.Fatalf("the numbers go on from %d", h.Acked())
				}
			}
			if !slices.Equal(h.about(), want) || !bytes.Equal(h.All(), concat(events...)) {
				t.Fatalf("%d events of %d bytes, want %d", h.Len(), h.Bytes(), len(want))
			}
		}
	})
}
