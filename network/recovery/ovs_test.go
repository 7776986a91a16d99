package recovery

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-sdn/holdfast/lab/graphs"
	"github.com/holdfast-sdn/holdfast/lab/netlab"
	"github.com/holdfast-sdn/holdfast/network/liveness"
	"github.com/holdfast-sdn/holdfast/network/protect"
	"github.com/holdfast-sdn/holdfast/network/topology"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// The commands in docs/operating/recovery.md that remove recovery from a switch keep the entries of others.
func TestTakenOutOfOpenVSwitch(t *testing.T) {
	lab := netlab.ForTest(t)
	sw, err := lab.AddSwitch("s1", 1)
	if err != nil {
		t.Fatal(err)
	}
	must := func(command string, args ...string) string {
		t.Helper()
		out, err := sw.OFCtl(command, args...)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	must("add-group", "group_id=7,type=all,bucket=output:1")
	must("add-flow", "cookie=0x99,table=0,priority=3,in_port=1,actions=group:7")
	must("add-flow", "cookie=0x99,table=1,priority=100,in_port=2,actions=drop")
	before := must("dump-flows", "--no-stats") + must("dump-groups")

	s := build(t, 1, graphs.Ring(), defaults).switches[2]
	var msgs []of13.Message
	for _, id := range slices.Sorted(maps.Keys(s.groups)) {
		g := s.groups[id]
		msgs = append(msgs, &g)
	}
	for _, k := range slices.Sorted(maps.Keys(s.flows)) {
		f := s.flows[k]
		msgs = append(msgs, &f)
	}
	if err := sw.Execute(msgs); err != nil {
		t.Fatal(err)
	}
	with := must("dump-flows", "--no-stats")
	for _, cookie := range []uint64{protect.Cookie, Cookie, liveness.Cookie, topology.Cookie} {
		if !strings.Contains(with, fmt.Sprintf("cookie=%#x,", cookie)) {
			t.Errorf("no entry with cookie %#x among\n%s", cookie, with)
		}
		must("del-flows", fmt.Sprintf("cookie=%#x/-1", cookie))
	}
	for _, found := range regexp.MustCompile(`group_id=[0-9]*,type=ff`).FindAllString(must("dump-groups"), -1) {
		must("del-groups", strings.TrimSuffix(found, ",type=ff"))
	}
	must("del-groups", fmt.Sprintf("group_id=%d", protect.Live))
	if after := must("dump-flows", "--no-stats") + must("dump-groups"); after != before {
		t.Errorf("left is\n%s\nand before there was\n%s", after, before)
	}
}
