package model

import (
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/openflow/packet"
)

func drawStep(t *rapid.T) (s Step) {
	small := rapid.SampledFrom([]uint16{0, 1, 127, 128, 4094, 65535})
	text := rapid.SampledFrom([]string{"", "udp", "10.0.0.0/8", "1024-65535"})
	s.ID, s.Remove = rapid.Uint64().Draw(t, "id"), rapid.Bool().Draw(t, "remove")
	s.In, s.Out = app.Port(rapid.Uint32().Draw(t, "in")), app.Port(small.Draw(t, "out"))
	s.Priority, s.Tag, s.Push = small.Draw(t, "priority"), small.Draw(t, "tag"), small.Draw(t, "push")
	s.Pop, s.Backup, s.BackupTag = rapid.Bool().Draw(t, "pop"), app.Port(small.Draw(t, "backup")), small.Draw(t, "back")
	s.Class = packet.Class{Protocol: text.Draw(t, "protocol"), Source: text.Draw(t, "source"),
		Destination: text.Draw(t, "destination"), SourcePorts: text.Draw(t, "from"), DestinationPorts: text.Draw(t, "to")}
	if rapid.Bool().Draw(t, "vlan") {
		vlan := small.Draw(t, "id of it")
		s.VLAN = &vlan
	}
	return s
}

// Steps are decoded as they were encoded. If bytes are missing at the end, there are fewer, or an error.
func TestSteps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOfN(rapid.Custom(drawStep), 0, 5).Draw(t, "steps")
		var list Steps
		for i := range want {
			list = list.With(&want[i])
		}
		got := []Step{}
		for s, err := range list.All() {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, *s)
		}
		if len(got) != len(want) || len(want) > 0 && !reflect.DeepEqual(got, want) {
			t.Fatalf("%+v became %+v", want, got)
		}
		n := 0
		for s, err := range list[:rapid.IntRange(0, len(list)).Draw(t, "length")].All() {
			if err == nil && !reflect.DeepEqual(*s, want[n]) {
				t.Fatalf("step %d became %+v", n, *s)
			}
			n++
		}
	})
}

// Whatever is decoded is the same when it was encoded.
func FuzzSteps(f *testing.F) {
	f.Add([]byte(Steps(nil).With(&Step{ID: 7, Entry: Entry{Match: Match{In: 1, Tag: 9}, Pop: true, Out: 2}})))
	f.Add([]byte(Steps(nil).With(&Step{Entry: Entry{Match: Match{Class: packet.Class{Protocol: "udp"}}, Push: 3}})))
	f.Fuzz(func(t *testing.T, b []byte) {
		for s, err := range Steps(b).All() {
			if err != nil {
				return
			}
			for again, err := range Steps(nil).With(s).All() {
				if err != nil || !reflect.DeepEqual(again, s) {
					t.Fatalf("%+v became %+v, %v", s, again, err)
				}
			}
		}
	})
}
