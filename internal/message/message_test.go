package message

import (
	"testing"

	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

func TestAsker(t *testing.T) {
	msg := func(typ uint8, xid uint32) []byte { return openflow.AppendHeader(nil, openflow.Version13, typ, xid) }
	for name, tc := range map[string]struct {
		msg  []byte
		want Tag
	}{
		"answer":                 {msg(of13.TypeBarrierReply, Tag(3).XID()|7), 3},
		"answer that continues":  {msg(of13.TypeBarrierReply, Tag(3).XID()|Continues|7), 3},
		"error":                  {msg(openflow.TypeError, MaxTag.XID()), MaxTag},
		"answer to hosts":        {msg(of13.TypeMultipartReply, Replayed.XID()|7), Replayed},
		"answer to nobody":       {msg(of13.TypeBarrierReply, 7), 0},
		"packet with such an id": {msg(of13.TypePacketIn, Tag(3).XID()), 0},
		"less than a message":    {[]byte{4, of13.TypeBarrierReply, 0, 8, 3}, 0},
	} {
		if got := Asker(tc.msg); got != tc.want {
			t.Errorf("%s: tag %d, want %d", name, got, tc.want)
		}
	}
}

func TestKindOf(t *testing.T) {
	const v = openflow.Version13
	down := experimenter.AppendSwitchDown(nil, v, experimenter.ReasonSilent)
	for name, tc := range map[string]struct {
		msg  []byte
		want Kind
	}{
		"packet":        {openflow.AppendHeader(nil, v, of13.TypePacketIn, 0), Ordinary},
		"up":            {experimenter.SwitchUp{Features: []byte("f")}.Append(nil, v), SwitchUp},
		"down":          {down, SwitchDown},
		"sync marker":   {experimenter.SyncMarker{}.Append(nil, v), SyncMarker},
		"other of ours": {experimenter.Attach{}.Append(nil, v), Own},
	} {
		if got := KindOf(tc.msg); got != tc.want {
			t.Errorf("%s: kind %d, want %d", name, got, tc.want)
		}
	}
	if got := ReasonOf(down); got != experimenter.ReasonSilent {
		t.Errorf("reason %v", got)
	}
	if got := ReasonOf(down[:10]); got != 0 {
		t.Errorf("reason of half a message: %v", got)
	}
}

func TestSingle(t *testing.T) {
	one := openflow.AppendHeader(nil, openflow.Version13, of13.TypeBarrierReply, 1)
	openflow.SetLength(one)
	for name, tc := range map[string]struct {
		b    []byte
		want bool
	}{
		"one": {one, true}, "half": {one[:4], false}, "two": {append(one[:8:8], one...), false}, "none": {nil, false},
	} {
		if got := Single(tc.b); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
