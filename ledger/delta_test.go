package ledger

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-sdn/holdfast/internal/digest"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
	"pgregory.net/rapid"
)

// sender is an application that answers a message with a list of commands.
type sender struct {
	commands []sentTo
	fails    bool // fails after it has sent them all
}

type sentTo struct {
	id  openflow.DatapathID
	msg []byte
}

func (s *sender) Name() string { return "sender" }

func (s *sender) Handle(tx *Tx, in *Input) error {
	if in.Kind != Message {
		return nil
	}
	for _, m := range s.commands {
		if _, err := tx.SendBytes(m.id, m.msg); err != nil {
			return err
		}
	}
	if s.fails {
		return errors.New("no")
	}
	return nil
}

// recorded returns what Walk reports of the events and commands in an entry.
func recorded(t testing.TB, entry []byte) (list []string) {
	t.Helper()
	_, err := Walk(entry, func(r *Record) error {
		switch r.Op {
		case OpSeen:
			list = append(list, fmt.Sprintf("event %d of %d: %x", r.Seq, r.Switch, r.Digest))
		case OpCommand:
			list = append(list, fmt.Sprintf("command %d of %d: %x", r.Seq, r.Switch, r.Bytes))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestBrief: Walk returns complete records of what is delta-encoded. Discarded commands of a failed application do
// not disturb the encoding.
func TestBrief(t *testing.T) {
	types := []uint8{of13.TypeFlowMod, of13.TypeFlowMod, of13.TypePacketOut, modelTypes, 255}
	rapid.Check(t, func(rt *rapid.T) {
		app := &sender{}
		p := newPair(t, Limits{}, app)
		p.up(1)
		p.up(2)
		p.commit()
		events, commands := [3]uint64{0, 1, 1}, [3]uint64{}
		for range rapid.IntRange(1, 3).Draw(rt, "entries") {
			var want []string
			for range rapid.IntRange(1, 12).Draw(rt, "events") {
				app.commands, app.fails = nil, rapid.IntRange(0, 7).Draw(rt, "fails") == 0
				for range rapid.IntRange(0, 4).Draw(rt, "commands") {
					body := bytes.Repeat([]byte("abcdefg"), rapid.SampledFrom([]int{0, 1, 9, 9, 9, 40}).Draw(rt,
						"length"))
					for range min(len(body), rapid.IntRange(0, 3).Draw(rt, "differences")) {
						body[rapid.IntRange(0, len(body)-1).Draw(rt, "at")] = rapid.Byte().Draw(rt, "byte")
					}
					msg := newMessage(rapid.SampledFrom(types).Draw(rt, "type"), 0, string(body))
					app.commands = append(app.commands, sentTo{openflow.DatapathID(rapid.SampledFrom([]int{1, 1, 1,
						2}).Draw(rt, "to")), msg})
				}
				from := rapid.SampledFrom([]int{1, 1, 1, 2}).Draw(rt, "from")
				events[from]++
				event := packetIn(fmt.Sprint(len(want)))
				p.briefly(openflow.DatapathID(from), 1, events[from], event)
				want = append(want, fmt.Sprintf("event %d of %d: %x", events[from], from, digest.Of(event)))
				var before [3]bool
				for _, m := range app.commands {
					if app.fails {
						break
					}
					commands[m.id]++
					xid := uint32(1<<tagShift | commands[m.id])
					if before[m.id] {
						xid |= continues
					}
					before[m.id] = true
					openflow.SetXID(m.msg, xid)
					want = append(want, fmt.Sprintf("command %d of %d: %x", commands[m.id], m.id, m.msg))
				}
			}
			p.commit() // also compares the replicas
			if got := recorded(t, p.entries[len(p.entries)-1]); !slices.Equal(got, want) {
				rt.Fatalf("the log has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		}
	})
}

// Delta encoding saves space.
func TestBriefIsShort(t *testing.T) {
	app := &sender{}
	p := newPair(t, Limits{}, app)
	p.up(1)
	p.commit()
	size := func(events ...string) int {
		for _, body := range events {
			app.commands = []sentTo{{1, newMessage(of13.TypeFlowMod, 0, body)}}
			p.briefly(1, 1, uint64(p.leader.state.find(1).events)+1, packetIn(body))
		}
		p.commit()
		return len(p.entries[len(p.entries)-1])
	}
	a, b := strings.Repeat("a", 96), strings.Repeat("a", 92)+"b..."
	one, two, three := size(a), size(a, b), size(a, b, a+"longer")
	const event, command = 1 + 1 + 8, 1 + 1 + 4 + 2*wordLen // two words: the xid, and the one that differs
	if two-one != event+command {
		t.Errorf("the second event and command take %d bytes, want %d", two-one, event+command)
	}
	if three-two != event+1+8+1+commandLen+len(a)+len("longer")+openflow.HeaderLen {
		t.Errorf("a command of another length takes %d bytes with its event", three-two)
	}
}

// TestBriefErrors: a delta without a previous record is refused.
func TestBriefErrors(t *testing.T) {
	header := Header{Term: 1, Batch: 1, Time: 1}.append(nil)
	number := []byte{0, 0, 0, 0, 0, 0, 0, 1}
	command := appendBytes(append(append([]byte{byte(OpCommand)}, number...), 1),
		newMessage(of13.TypeFlowMod, 1, "the body"))
	command = slices.Clip(command) // so that each case appends to its own copy
	next := []byte{byte(OpCommandNext), of13.TypeFlowMod}
	for name, tc := range map[string]struct {
		ops  []byte
		want error
	}{
		"an event after none":       {append([]byte{byte(OpSeenNext), of13.TypePacketIn}, number...), errDelta},
		"a command after none":      {append(next, 0), errDelta},
		"of a type that is not":     {append(command, byte(OpCommandNext), of13.TypePacketOut, 0), errDelta},
		"of a type that has none":   {append(command, byte(OpCommandNext), 255, 0), errDelta},
		"a word beyond the message": {append(command, append(next, 1<<4, 1, 2, 3, 4)...), errDelta},
		"a word that is cut off":    {append(command, append(next, 1<<3, 1, 2, 3)...), errShort},
		"no words":                  {append(command, next...), errShort},
		"the same again":            {append(command, append(next, 0)...), nil},
		"the last word differs":     {append(command, append(next, 1<<3, 1, 2, 3, 4)...), nil},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Walk(append(bytes.Clone(header), tc.ops...), func(*Record) error { return nil })
			if !errors.Is(err, tc.want) {
				t.Errorf("%v, want %v", err, tc.want)
			}
		})
	}
}

// An entry without delta encoding can be read too.
func TestEntryWithoutDeltas(t *testing.T) {
	entry := Header{Term: 1, Batch: 1, Time: 1}.append(nil)
	var want []string
	for seq := uint64(1); seq < 3; seq++ {
		entry = append(appendEvent(entry, OpSeen, 1, 1, seq), of13.TypePacketIn, 0, 0, 0, 0, 0, 0, 0, byte(seq))
		msg := newMessage(of13.TypeFlowMod, uint32(seq), "body")
		entry = append(entry, byte(OpCommand), 0, 0, 0, 0, 0, 0, 0, 1, byte(seq))
		entry = appendBytes(entry, msg)
		want = append(want, fmt.Sprintf("event %d of 1: %x", seq, seq), fmt.Sprintf("command %d of 1: %x", seq, msg))
	}
	if got := recorded(t, entry); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
