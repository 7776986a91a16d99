package message

import (
	"testing"

	"github.com/holdfast-sdn/holdfast/openflow"
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
