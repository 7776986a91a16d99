package southbound

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/internal/handshake"
	"github.com/holdfast-sdn/holdfast/lab/netlab"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// TestOpenVSwitchWithoutAgent connects a stock switch to a controller.
func TestOpenVSwitchWithoutAgent(t *testing.T) {
	sw, ln := ovs(t)
	b := (&bed{t: t, lead: true}).startOn(ln(), Config{})
	if err := sw.SetControllers(b.addr); err != nil {
		t.Fatal(err)
	}
	b.want(t, "attached 7 bundles, 7 HOLDFAST_SWITCH_UP")
	s := b.session(7)
	bad := of13.FlowMod{Command: 99, BufferID: of13.NoBuffer, OutPort: of13.PortAny, OutGroup: of13.GroupAny}
	if err := s.Send(commandBlock(1, s.State().Epoch, 1, 2),
		concat(cookieMod(0x77).Append(nil, 1), bad.Append(nil, 2))); err != nil {
		t.Fatal(err)
	}
	b.want(t, "attached 7 bundles, 7 HOLDFAST_SWITCH_UP, 7 done 1, 7 ERROR, 7 done 2")
	if got := cookies(t, sw); got != "0x77 marker" {
		t.Fatal(got)
	}
	if err := sw.Kill(); err != nil {
		t.Fatal(err)
	}
	b.want(t, "attached 7 bundles, 7 HOLDFAST_SWITCH_UP, 7 done 1, 7 ERROR, 7 done 2, 7 HOLDFAST_SWITCH_DOWN, "+
		"detached 7")
}

// ovs returns a switch in a network lab, and a function that listens where the switch can connect.
func ovs(t *testing.T) (*netlab.Switch, func() net.Listener) {
	t.Helper()
	lab := netlab.ForTest(t)
	sw, err := lab.AddSwitch("s1", 7)
	if err != nil {
		t.Fatal(err)
	}
	return sw, func() net.Listener {
		t.Helper()
		ln, err := net.Listen("tcp", net.JoinHostPort(lab.Addr().String(), "0"))
		if err != nil {
			t.Fatal(err)
		}
		return ln
	}
}

// cookies lists the cookies of the flow entries of the switch, and "marker" for its marker.
func cookies(t *testing.T, sw *netlab.Switch) string {
	t.Helper()
	flows, err := sw.Flows()
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, f := range flows {
		cookie, _, _ := strings.Cut(strings.TrimPrefix(f, "cookie="), ",")
		switch {
		case strings.Contains(f, "dl_src=02:48:46:4d"):
			list = append(list, "marker")
			if !strings.Contains(f, "table=253") || !strings.HasPrefix(cookie, "0x48") ||
				!strings.HasSuffix(f, "actions=drop") {
				t.Fatalf("the marker is %s", f)
			}
		default:
			list = append(list, cookie)
		}
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}

// trio is three controllers of one switch, with a log in memory.
type trio struct {
	t     *testing.T
	nodes []*node

	mu                  sync.Mutex
	leader              *node
	term, epoch, events uint64
	issued, done        uint64
	log                 []string // without sync markers
	messages            [][]byte
}

// node is one of these controllers.
type node struct {
	*trio
	addr    string
	cancel  context.CancelFunc
	session *Session // guarded by mu
	deaf    bool     // it does not learn of newer terms and records
	heard   int      // number of messages that it has applied
}

func newTrio(t *testing.T, listen func() net.Listener) *trio {
	g := &trio{t: t}
	for range 3 {
		ln := listen()
		ctx, cancel := context.WithCancel(t.Context())
		n := &node{trio: g, addr: ln.Addr().String(), cancel: cancel}
		g.nodes = append(g.nodes, n)
		ended := make(chan error, 1)
		go func() { ended <- Serve(ctx, ln, Config{}, n) }()
		t.Cleanup(func() {
			cancel()
			<-ended
		})
	}
	return g
}

func (n *node) Attached(s *Session) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.session = s
	s.Standby(0)
}

func (n *node) Detached(*Session, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.session = nil
}

func (n *node) Events(list []Delivery) {
	for _, d := range list {
		d.Done(n.take(d.Session, d.Batch))
	}
}

func (n *node) take(s *Session, b Batch) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.leader != n {
		return nil
	}
	for seq, rest := b.First, b.Messages; len(rest) > 0; seq++ {
		var msg []byte
		msg, rest, _ = openflow.Next(rest)
		switch {
		case b.Epoch > n.epoch && seq == 1:
			n.epoch, n.events, n.issued, n.done = b.Epoch, 0, 0, 0
		case b.Epoch != n.epoch || seq != n.events+1:
			n.t.Errorf("event %d of epoch %d after %d of %d", seq, b.Epoch, n.events, n.epoch)
		}
		n.events = seq
		if !isSyncMarker(msg) {
			n.log = append(n.log, story(msg))
		}
		n.messages = append(n.messages, slices.Clone(msg))
	}
	n.heard = len(n.messages)
	for _, other := range n.nodes {
		other.hears()
	}
	n.done = max(n.done, b.Done)
	s.Acknowledge(b.Epoch, n.events)
	return nil
}

// hears applies new messages of the log.
func (n *node) hears() {
	for ; !n.deaf && n.heard < len(n.messages); n.heard++ {
		if n.session != nil && n != n.leader {
			n.session.Logged(0, 0, n.messages[n.heard])
		}
	}
}

// learns tells the node that another one leads.
func (n *node) learns() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.session.Standby(n.term)
	n.deaf = false
	n.hears()
}

func (n *node) CommandsDone(_ *Session, epoch, seq uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.leader == n && epoch == n.epoch {
		n.done = max(n.done, seq)
	}
}

// story names an event. The name of a packet-in is the text in its packet.
func story(msg []byte) string {
	var p of13.PacketIn
	if msg[1] == of13.TypePacketIn && p.Decode(msg) == nil {
		return strings.TrimRight(string(p.Data[14:]), "\x00")
	}
	if t, ours := experimenter.Is(msg); ours {
		return strings.TrimPrefix(t.String(), "HOLDFAST_")
	}
	return of13.TypeName(msg[1])
}

// leads makes node n the leader of a new term. The previous leader does not learn of it.
func (g *trio) leads(n int) {
	g.t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.term++
	g.leader = g.nodes[n]
	g.leader.deaf = true
	r := Resume{Epoch: g.epoch, Live: g.epoch > 0, Events: g.events, Commands: g.issued, Done: g.done}
	if err := g.leader.session.Claim(g.term, r); err != nil {
		g.t.Fatal(err)
	}
}

// send sends commands of the leader that are in the log.
func (g *trio) send(messages ...[]byte) {
	g.t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.leader.session.Send(commandBlock(g.term, g.epoch, g.issued+1, uint32(len(messages))),
		concat(messages...)); err != nil {
		g.t.Fatal(err)
	}
	g.issued += uint64(len(messages))
}

func (g *trio) allDone() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.done == g.issued
}

func (g *trio) want(log string) {
	g.t.Helper()
	got := func() string {
		g.mu.Lock()
		defer g.mu.Unlock()
		return strings.Join(g.log, " ")
	}
	await.Until(g.t, log, func() bool { return len(got()) >= len(log) })
	if got() != log {
		g.t.Fatalf("the log has: %s\nwant: %s", got(), log)
	}
}

// inSync waits until all these nodes are in sync.
func (g *trio) inSync(nodes ...int) {
	g.t.Helper()
	for _, n := range nodes {
		await.Until(g.t, fmt.Sprintf("controller %d is in sync", n), func() bool {
			g.mu.Lock()
			defer g.mu.Unlock()
			s := g.nodes[n].session
			return s != nil && s.State().InSync
		})
	}
}

func (g *trio) held(n int) int {
	return g.nodes[n].session.Held()
}

// packet makes the switch send a packet to its controllers.
func packet(t *testing.T, sw *netlab.Switch, text string) {
	t.Helper()
	data := fmt.Sprintf("%s88b5%x", strings.Repeat("02", 12), text)
	data += strings.Repeat("0", 120-len(data))
	if _, err := sw.OFCtl("packet-out", "in_port=local packet="+data+" actions=controller"); err != nil {
		t.Fatal(err)
	}
}

// TestOpenVSwitchFailover: another controller continues after a failover, and the deposed leader, which does not
// know of it yet, does no harm.
func TestOpenVSwitchFailover(t *testing.T) {
	sw, listen := ovs(t)
	g := newTrio(t, listen)
	if err := sw.SetControllers(g.nodes[0].addr, g.nodes[1].addr, g.nodes[2].addr); err != nil {
		t.Fatal(err)
	}
	for i := range g.nodes {
		await.Until(t, "attached", func() bool { g.mu.Lock(); defer g.mu.Unlock(); return g.nodes[i].session != nil })
	}
	g.leads(0)
	g.want("SWITCH_UP")
	packet(t, sw, "one")
	g.want("SWITCH_UP one")
	g.send(cookieMod(1).Append(nil, 1), cookieMod(2).Append(nil, 2))
	await.Until(t, "done", g.allDone)
	g.inSync(1, 2)
	epoch, first := g.epoch, g.nodes[0].session

	// No leader logs this event, so the standbys hold it.
	g.mu.Lock()
	g.leader = nil
	g.mu.Unlock()
	packet(t, sw, "two")
	for _, n := range []int{1, 2} {
		await.Until(t, "held", func() bool { return g.held(n) > 0 })
	}
	g.leads(1)
	g.want("SWITCH_UP one two")
	packet(t, sw, "three")
	g.want("SWITCH_UP one two three")
	g.send(cookieMod(3).Append(nil, 3))
	await.Until(t, "done", g.allDone)

	// The deposed leader sends a command that is not in the log.
	if err := first.Send(commandBlock(1, epoch, 3, 1), cookieMod(0xbad).Append(nil, 3)); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the deposed leader is refused", func() bool {
		first.mu.Lock()
		defer first.mu.Unlock()
		return !first.core.peer.(*bundles).sender.active
	})
	if got := cookies(t, sw); got != "0x1 0x2 0x3 marker" || g.epoch != epoch {
		t.Fatalf("%s, epoch %d after %d", got, g.epoch, epoch)
	}
	g.nodes[0].learns()

	// The deposed leader gets in sync again, and can lead.
	g.inSync(0, 2)
	g.nodes[1].cancel()
	await.Until(t, "it is gone", func() bool { g.mu.Lock(); defer g.mu.Unlock(); return g.nodes[1].session == nil })
	g.leads(0)
	g.send(cookieMod(4).Append(nil, 4))
	await.Until(t, "done", g.allDone)
	packet(t, sw, "four")
	g.want("SWITCH_UP one two three four")
	if got := cookies(t, sw); got != "0x1 0x2 0x3 0x4 marker" || g.epoch != epoch {
		t.Fatalf("%s, epoch %d after %d", got, g.epoch, epoch)
	}
	if st := g.nodes[0].session.State(); st.Guarantee != "exactly-once" {
		t.Fatalf("%+v", st)
	}
}

// TestOpenVSwitchNewEpoch: a switch of any version that lost its connection begins a new epoch.
func TestOpenVSwitchNewEpoch(t *testing.T) {
	for _, version := range []string{"OpenFlow13", "OpenFlow14", "OpenFlow15"} {
		t.Run(version, func(t *testing.T) {
			sw, listen := ovs(t)
			if err := sw.SetVersion(version); err != nil {
				t.Fatal(err)
			}
			g := newTrio(t, listen)
			if err := sw.SetControllers(g.nodes[0].addr, g.nodes[1].addr); err != nil {
				t.Fatal(err)
			}
			session := func(n int) *Session { g.mu.Lock(); defer g.mu.Unlock(); return g.nodes[n].session }
			await.Until(t, "attached", func() bool { return session(0) != nil && session(1) != nil })
			g.leads(0)
			g.want("SWITCH_UP")
			g.send(cookieMod(1).Append(nil, 1))
			await.Until(t, "done", g.allDone)
			first := session(0)
			first.Close(errors.New("ended by the test"))
			await.Until(t, "attached again", func() bool { s := session(0); return s != nil && s != first })
			g.leads(0)
			g.want("SWITCH_UP SWITCH_DOWN SWITCH_UP")
			packet(t, sw, "one")
			g.want("SWITCH_UP SWITCH_DOWN SWITCH_UP one")
			g.send(cookieMod(2).Append(nil, 1))
			await.Until(t, "done", g.allDone)
			if got := cookies(t, sw); got != "0x1 0x2 marker" {
				t.Error(got)
			}
			g.inSync(1)
			packet(t, sw, "two")
			g.want("SWITCH_UP SWITCH_DOWN SWITCH_UP one two")
			g.leads(1)
			packet(t, sw, "three")
			g.want("SWITCH_UP SWITCH_DOWN SWITCH_UP one two three")
		})
	}
}

// TestOpenVSwitchRejects: if one of several transactions in a bundle is refused, all its commands are discarded,
// and only these. That holds if the switch cannot decode a message, and if it cannot execute it.
func TestOpenVSwitchRejects(t *testing.T) {
	group := cookieMod(0xbad)
	group.Instructions = of13.Instructions(nil).Apply(of13.Actions(nil).Group(99))
	unread := cookieMod(0xbad).Append(nil, 3|handshake.ContinuesXID)
	unread[25] = 99 // an unknown command
	for name, bad := range map[string][]byte{"add": unread, "commit": group.Append(nil, 3|handshake.ContinuesXID)} {
		t.Run(name, func(t *testing.T) {
			sw, listen := ovs(t)
			g := newTrio(t, listen)
			if err := sw.SetControllers(g.nodes[0].addr); err != nil {
				t.Fatal(err)
			}
			await.Until(t, "attached", func() bool {
				g.mu.Lock()
				defer g.mu.Unlock()
				return g.nodes[0].session != nil
			})
			g.leads(0)
			g.want("SWITCH_UP")
			g.send(cookieMod(1).Append(nil, 1), cookieMod(2).Append(nil, 2), bad,
				cookieMod(4).Append(nil, 4|handshake.ContinuesXID), cookieMod(5).Append(nil, 5))
			await.Until(t, "done", g.allDone)
			g.want("SWITCH_UP ERROR")
			if got := cookies(t, sw); got != "0x1 0x5 marker" {
				t.Fatal(got)
			}
		})
	}
}
