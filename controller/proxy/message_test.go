package proxy

import (
	"bytes"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
	"github.com/holdfast-sdn/holdfast/southbound"
)

// drawMessage draws a message with the fields of its kind.
func drawMessage(t *rapid.T) Message {
	number, text := rapid.Uint64(), rapid.StringN(0, 20, 100)
	m := Message{Kind: Kind(rapid.IntRange(int(Beat), int(Close)).Draw(t, "kind")), Link: number.Draw(t, "link"),
		Number: number.Draw(t, "number"), Consumed: number.Draw(t, "consumed"), Session: number.Draw(t, "session"),
		Claim: rapid.Uint32().Draw(t, "claim")}
	state := func() southbound.State {
		return southbound.State{Peer: southbound.Peer(rapid.Byte().Draw(t, "peer")),
			Version: rapid.Byte().Draw(t, "version"), Remote: text.Draw(t, "remote"),
			Epoch: number.Draw(t, "epoch"), InSync: rapid.Bool().Draw(t, "sync"),
			Fenced:    rapid.Bool().Draw(t, "fenced"),
			Guarantee: text.Draw(t, "guarantee"), Why: text.Draw(t, "why")}
	}
	messages := func() {
		m.Count = uint32(rapid.IntRange(0, 5).Draw(t, "count"))
		m.Bytes = []byte{}
		for i := range m.Count {
			m.Bytes = (&of13.EchoRequest{Data: make([]byte, rapid.IntRange(0, 9).Draw(t, "size"))}).Append(m.Bytes, i)
		}
	}
	switch m.Kind {
	case Begin:
		m.Term = number.Draw(t, "term")
	case Offer:
		m.Switch, m.Age, m.State = openflow.DatapathID(number.Draw(t, "switch")),
			time.Duration(rapid.Int64().Draw(t, "age")), state()
	case Changed:
		m.State = state()
	case Claim:
		m.Generation, m.Index = number.Draw(t, "generation"), number.Draw(t, "index")
		m.Resume = southbound.Resume{Epoch: number.Draw(t, "epoch"), Live: rapid.Bool().Draw(t, "live"),
			Events: number.Draw(t, "events"), Commands: number.Draw(t, "commands"),
			Done: number.Draw(t, "commands done")}
	case Events:
		m.Epoch, m.Seq, m.Done = number.Draw(t, "epoch"), number.Draw(t, "seq"), number.Draw(t, "done")
		messages()
	case Commands:
		m.Epoch, m.Seq, m.Generation = number.Draw(t, "epoch"), number.Draw(t, "seq"), number.Draw(t, "generation")
		messages()
	case Done:
		m.Epoch, m.Seq = number.Draw(t, "epoch"), number.Draw(t, "seq")
	case Refuse:
		m.Epoch, m.Reason = number.Draw(t, "epoch"), experimenter.Reason(rapid.Byte().Draw(t, "reason"))
	case Executed, Close:
		m.Text = text.Draw(t, "text")
	}
	return m
}

// A decoded message is the one that was encoded, and what is cut off or appended is an error.
func TestMessages(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawMessage(t)
		b := m.append(nil)
		got, err := Parse(b)
		if err != nil || !reflect.DeepEqual(got, m) {
			t.Fatalf("%+v is decoded as %+v, error %v", m, got, err)
		}
		if fromLeader(b) != (m.Kind >= Restart) {
			t.Fatalf("%+v has the wrong direction", m)
		}
		if cut := rapid.IntRange(0, len(b)-1).Draw(t, "cut"); m.Kind != Events && m.Kind != Commands || m.Count > 0 {
			if got, err := Parse(b[:cut]); err == nil {
				t.Fatalf("%d bytes of %d are decoded as %+v", cut, len(b), got)
			}
		}
		if got, err := Parse(append(b, 0)); err == nil {
			t.Fatalf("a byte too many is decoded as %+v", got)
		}
	})
}

// No input makes Parse panic, and what it accepts has one encoding.
func FuzzParse(f *testing.F) {
	f.Add((&Message{Kind: Offer, Session: 1, Switch: 7, State: southbound.State{Why: "because"}}).append(nil))
	f.Add((&Message{Kind: Commands, Count: 1, Bytes: (&of13.BarrierRequest{}).Append(nil, 1)}).append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := Parse(b)
		if err != nil {
			return
		}
		again := m.append(nil)
		second, err := Parse(again)
		if err != nil || !bytes.Equal(second.append(nil), again) {
			t.Fatalf("%x is %+v, and encoded again %x, error %v", b, m, again, err)
		}
	})
}
