package reconcile

import (
	"testing"

	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// FuzzReply passes arbitrary replies to a check. What it then sends is valid, and it can be resumed.
func FuzzReply(f *testing.F) {
	want := Want{Flows: []of13.FlowMod{entry(1, any13.WithInPort(1), toGroup(1))},
		Groups: []of13.GroupMod{failover(1, 1, 2)}}
	for _, m := range []of13.MultipartReply{
		flowPart(false, held(want.Flows[0])), flowPart(true, held(entry(2, nil, drop))),
		groupPart(false, described(want.Groups[0]), described(chain(2, 1))), groupPart(true),
	} {
		f.Add(m.Append(nil, 1)[openflow.HeaderLen:])
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		body = body[:min(len(body), openflow.MaxMessageLen-openflow.HeaderLen)]
		wire := append(openflow.AppendHeader(nil, of13.Version, of13.TypeMultipartReply, 1), body...)
		openflow.SetLength(wire)
		var m of13.MultipartReply
		if m.Decode(wire) != nil {
			return
		}
		c := newCheck(t, want, policy(true))
		deletions, err := c.Reply(m)
		if err != nil {
			if deletions != nil || c.State() != nil {
				t.Fatalf("after %v there are deletions %v and a state", err, deletions)
			}
			return
		}
		if c.Complete() || c.Repair() != nil {
			t.Fatal("complete after one reply")
		}
		if c, err = Resume(want, policy(true), c.State()); err != nil {
			t.Fatal(err)
		}
		for _, last := range []of13.MultipartReply{flowPart(false), groupPart(false)} {
			_, _ = c.Reply(last) // the check may have ended with one of them
		}
		for _, x := range append(deletions, c.Repair()...) {
			raw := x.Append(nil, 1)
			if _, err := of13.Decode(raw); err != nil {
				t.Fatalf("sends %v, which is not OpenFlow: %v", x, err)
			}
		}
	})
}

// FuzzResume decodes arbitrary bytes as the counts of a state.
func FuzzResume(f *testing.F) {
	c, err := New(Want{}, Policy{})
	if err != nil {
		f.Fatal(err)
	}
	state := c.State()
	f.Add(state[8:])
	f.Add([]byte{3, 1, 2, 3, 1, 7, 1, 7, 8})
	f.Fuzz(func(t *testing.T, rest []byte) {
		c, err := Resume(Want{}, policy(true), append(state[:8:8], rest...))
		if err == nil {
			c.Repair()
		}
	})
}
