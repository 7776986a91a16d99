package promises

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-sdn/holdfast/apps/kandoo"
	"github.com/holdfast-sdn/holdfast/lab/cluster"
	"github.com/holdfast-sdn/holdfast/lab/vswitch"
	"github.com/holdfast-sdn/holdfast/network/paths"
	"github.com/holdfast-sdn/holdfast/network/protect"
	"github.com/holdfast-sdn/holdfast/network/recovery"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// The first act: a tree of seven switches, 1 at the root and 4 to 7 at the leaves, and two links between leaves of
// either side. Each leaf has a host of each of two subnets, at ports 3 and 4.
const treeSize, firstLeaf = 7, 4

// gateways are the addresses of the router in the two subnets. All leaves have the same.
var gateways = [2]of13.MAC{{2, 1, 0, 0, 0, 1}, {2, 1, 0, 0, 0, 2}}

const (
	routes = `{"interfaces":[{"name":"a","mac":"02:01:00:00:00:01","ports":[3],"addresses":["10.0.1.1/24"]},` +
		`{"name":"b","mac":"02:01:00:00:00:02","ports":[4],"addresses":["10.0.2.1/24"]}]}`
	// The last protocol is that of the frames by which application liveness measures links.
	accessList = `{"default":"deny","rules":[{"action":"allow","protocol":"arp"},` +
		`{"action":"allow","protocol":"lldp"},{"action":"allow","protocol":"0x88b5"},` +
		`{"action":"deny","protocol":"udp","destination_ports":"%s"},{"action":"allow","protocol":"udp"}]}`

	allowedPort, forbiddenPort = 9000, 53
)

// tree is the network of the first act, and its streams.
type tree struct {
	*site
	cut *vswitch.Link // between switches 2 and 4

	direct, routed *stream
	forbidden      [2]*stream
	elephants      [2]*stream
	list           int // version of the access list
}

func newTree(s *site) *tree {
	t := &tree{site: s}
	s.link(1, 1, 2, 1)
	s.link(1, 2, 3, 1)
	t.cut = s.link(2, 2, 4, 1)
	s.link(2, 3, 5, 1)
	s.link(3, 2, 6, 1)
	s.link(3, 3, 7, 1)
	s.link(4, 2, 7, 2)
	s.link(5, 2, 6, 2)
	var at [treeSize + 1][2]*vswitch.Host
	for leaf := firstLeaf; leaf <= treeSize; leaf++ {
		for i := range at[leaf] {
			n := byte(i + 1)
			mac := of13.MAC{2, 0, 0, 0, n, byte(leaf)}
			at[leaf][i] = s.host(leaf, of13.Port(3+i), mac, [4]byte{10, 0, n, byte(leaf)})
		}
	}
	near, other, far := at[4][0], at[4][1], at[6][0]
	t.direct = s.add(near, far, far.MAC, allowedPort, 0)
	t.routed = s.add(other, at[5][0], gateways[1], allowedPort, 0)
	t.routed.right = func(f []byte) bool { return f[22] == ttl-1 && of13.MAC(f[6:12]) == gateways[0] }
	t.forbidden = [2]*stream{s.add(near, far, far.MAC, forbiddenPort, 0),
		s.add(other, at[5][0], gateways[1], forbiddenPort, 0)}
	for i := range t.elephants {
		t.elephants[i] = s.add(at[5][i], at[7][i], at[7][i].MAC, allowedPort, 1400)
		t.elephants[i].every, t.elephants[i].burst = 2*time.Millisecond, 4
	}
	return t
}

func playTree(ctx context.Context, s *site, r *Result) error {
	t := newTree(s)
	s.say("a tree of 7 switches with a firewall, traffic engineering, routers and recovery, and three controllers")
	if err := t.begin(ctx); err != nil {
		return err
	}
	begun := t.now()
	if err := t.killLeader(ctx); err != nil {
		return err
	}
	ways, err := t.bigFlows(ctx)
	if err != nil {
		return err
	}
	cut := t.now()
	alone, back, err := t.cutLink(ctx)
	if err != nil {
		return err
	}
	t.judge(r, begun, cut, outcome{ways, alone, back})
	return nil
}

// now returns the numbers of the next frames of all streams.
func (t *tree) now() map[*stream]int {
	list := map[*stream]int{}
	for _, s := range t.streams {
		list[s] = s.next()
	}
	return list
}

// outcome is what was seen beside the streams.
type outcome struct {
	ways  [2]string     // of the large flows
	alone int           // frames that have passed the dead link before a controller led
	back  time.Duration // from the cut until both large flows arrived
}

// judge compares what each application promises with what has become of the frames of the streams.
func (t *tree) judge(r *Result, begun, cut map[*stream]int, o outcome) {
	end := t.now()
	time.Sleep(settle)
	between := func(from, to map[*stream]int, list ...*stream) (c count) {
		for _, s := range list {
			c = c.add(s.count(from[s], to[s]))
		}
		return c
	}
	whole := map[*stream]int{}
	no := between(whole, end, t.forbidden[:]...)
	r.add("firewall", "no packet that the list forbids passes, at any time", no.arrived+no.wrong == 0,
		"%d of %d passed; %d lists, the last one while a leader was dead", no.arrived+no.wrong, no.sent, t.list)
	big := between(begun, cut, t.elephants[:]...)
	r.add("kandoo", "large flows get paths of their own, and lose nothing by that", big.lost()+big.repeated == 0,
		"%s and %s; %d of %d packets lost; after the cut both are back in %d ms", o.ways[0], o.ways[1], big.lost(),
		big.sent, o.back.Milliseconds())
	routed := between(begun, cut, t.routed)
	r.add("router", "packets between subnets arrive once, with a TTL that is one less, also when a leader dies",
		routed.lost()+routed.repeated+routed.wrong == 0, "%d of %d lost, %d repeated, %d wrong", routed.lost(),
		routed.sent, routed.repeated, routed.wrong)
	past := between(cut, end, t.direct, t.routed)
	r.add("recovery", "packets pass a dead link without a controller", o.alone >= enough && past.outage < time.Second,
		"%d have before one led; the longest outage was %d ms, %d of %d packets lost", o.alone,
		past.outage.Milliseconds(), past.lost(), past.sent)
	r.Figures["forbidden_sent"], r.Figures["forbidden_passed"] = float64(no.sent), float64(no.arrived+no.wrong)
	r.Figures["large_flows_lost"], r.Figures["large_flows_back_ms"] = float64(big.lost()), o.back.Seconds()*1000
	r.Figures["routed_sent"], r.Figures["routed_lost"] = float64(routed.sent), float64(routed.lost())
	r.Figures["link_cut_outage_ms"], r.Figures["link_cut_lost"] = past.outage.Seconds()*1000, float64(past.lost())
}

// settle is how long frames that are under way have to arrive.
const settle = 300 * time.Millisecond

// begin configures the applications, and waits until the network does what it should.
func (t *tree) begin(ctx context.Context) error {
	if err := t.WaitReady(ctx, treeSize); err != nil {
		return err
	}
	for _, st := range t.forbidden { // nothing passes without a list, either
		t.send(st)
	}
	if err := t.putList(ctx, "53"); err != nil {
		return err
	}
	for leaf := firstLeaf; leaf <= treeSize; leaf++ {
		if _, err := t.request(ctx, "PUT", fmt.Sprintf("router/%d", leaf), routes); err != nil {
			return err
		}
	}
	t.send(t.direct)
	t.send(t.routed)
	asked := time.Time{}
	if err := t.until(ctx, "backups for the whole network", func() bool {
		if time.Since(asked) > time.Second { // so that topology learns of the hosts
			asked = time.Now()
			for _, h := range t.hosts {
				h.Resolve([4]byte{10, 0, h.IPv4[2], 1})
			}
		}
		return t.stable(ctx)
	}); err != nil {
		return err
	}
	for _, st := range t.elephants { // now, because a large flow keeps the path that it gets first
		t.send(st)
	}
	return t.until(ctx, "all streams to arrive", func() bool {
		for _, st := range []*stream{t.direct, t.routed, t.elephants[0], t.elephants[1]} {
			if !st.flows(max(0, st.next()-10)) {
				return false
			}
		}
		return true
	})
}

// stable reports whether all switches have backups for the whole network. Then the streams go by the link that is to be
// cut.
func (t *tree) stable(ctx context.Context) bool {
	tables, ok := t.tables(ctx, recovery.Name)
	if !ok {
		return false
	}
	v, err := recovery.Of(slices.Values(tables.Rows))
	if err != nil || !v.Stable() || len(v.Graph.Links()) != 16 || len(v.Hosts) != len(t.hosts) {
		return false
	}
	plan, err := v.Plan()
	if err != nil {
		return false
	}
	uses := func(s *stream) bool {
		way := plan.Network().Follow(s.to.MAC, paths.End{Switch: 4, Port: 3}, protect.Failures{}).Links
		return len(way) > 0 && way[0].From == paths.End{Switch: 4, Port: 1}
	}
	return uses(t.direct) && uses(t.routed)
}

// putList changes the ports that the list forbids, and waits until all switches use it.
func (t *tree) putList(ctx context.Context, ports string) error {
	text, err := t.request(ctx, "PUT", "firewall/list", fmt.Sprintf(accessList, ports))
	if err != nil {
		return err
	}
	if _, err := fmt.Sscanf(text, `{"version":%d}`, &t.list); err != nil {
		return fmt.Errorf("the firewall answers %q: %w", text, err)
	}
	for id := range treeSize {
		path, want := fmt.Sprintf("firewall/switches/%d", id+1), fmt.Sprintf(`"version":%d,`, t.list)
		if err := t.until(ctx, fmt.Sprintf("version %d of the list at switch %d", t.list, id+1), func() bool {
			text, err := t.request(ctx, "GET", path, "") // an error while the firewall does not know the switch
			return err == nil && strings.Contains(text, want)
		}); err != nil {
			return err
		}
	}
	return nil
}

// killLeader kills the leader, and changes the list while there is none.
func (t *tree) killLeader(ctx context.Context) error {
	dead, err := t.kill(ctx)
	if err != nil {
		return err
	}
	if err := t.putList(ctx, "53-60"); err != nil {
		return err
	}
	t.say(fmt.Sprintf("leader %s killed; the access list has changed at all switches since", dead.Name))
	return t.restart(ctx, treeSize, dead)
}

// bigFlows waits until traffic engineering has given the two large flows paths that have no switch in common between
// the ends, and returns these.
func (t *tree) bigFlows(ctx context.Context) (ways [2]string, err error) {
	err = t.until(ctx, "a path for each large flow", func() bool {
		text, err := t.request(ctx, "GET", kandoo.Name+"/elephants", "")
		var list []kandoo.Elephant
		if err != nil || json.Unmarshal([]byte(text), &list) != nil || len(list) != 2 {
			return false
		}
		for i, e := range list {
			if ways[i] = wayOf(e.Path); ways[i] == "" {
				return false
			}
		}
		return ways[0] != ways[1]
	})
	if err == nil {
		t.say(fmt.Sprintf("two large flows are on paths of their own: %s and %s", ways[0], ways[1]))
	}
	return ways, err
}

// wayOf returns the switches of a path, as in 5-2-4-7.
func wayOf(path []string) string {
	var ids []string
	for _, hop := range path {
		id, _, _ := strings.Cut(hop, ":")
		ids = append(ids, strings.TrimLeft(id, "0"))
	}
	return strings.Join(ids, "-")
}

// enough is how many frames have to arrive while nobody leads.
const enough = 100

// cutLink cuts a link that the streams use, while two of the three controllers are dead, so that none leads. It returns
// how many frames of the direct stream that were sent after the cut have arrived before a controller led again, and
// after how long both large flows arrived.
func (t *tree) cutLink(ctx context.Context) (alone int, back time.Duration, err error) {
	leader, err := t.kill(ctx)
	if err != nil {
		return 0, 0, err
	}
	other := t.Controllers()[slices.IndexFunc(t.Controllers(), (*cluster.Controller).Running)]
	if err := other.Kill(); err != nil {
		return 0, 0, err
	}
	t.cut.SetUp(false)
	began, since := time.Now(), t.direct.next()
	if err := t.until(ctx, "frames past the link", func() bool {
		alone = t.direct.count(since, t.direct.next()).arrived
		return alone >= enough
	}); err != nil {
		return 0, 0, err
	}
	t.say(fmt.Sprintf("link 2-4 cut while %s and %s are dead and nobody leads: frames go past it", leader.Name,
		other.Name))
	from := [2]int{t.elephants[0].next(), t.elephants[1].next()}
	if err := errors.Join(leader.Restart(), other.Restart()); err != nil {
		return 0, 0, err
	}
	err = t.until(ctx, "the large flows after the cut", func() bool {
		return t.elephants[0].flows(from[0]) && t.elephants[1].flows(from[1])
	})
	back = time.Since(began)
	return alone, back, errors.Join(err, t.restart(ctx, treeSize))
}
