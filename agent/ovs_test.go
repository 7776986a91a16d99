package agent_test

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/agent"
	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/lab/netlab"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// hub sends every packet to the controller, and from there out of every port.
func hub(g *group, event []byte) {
	if typ, ours := experimenter.Is(event); ours && typ == experimenter.TypeSwitchUp {
		all := of13.FlowMod{Command: of13.FlowAdd, BufferID: of13.NoBuffer, OutPort: of13.PortAny,
			OutGroup: of13.GroupAny,
			Instructions: of13.Instructions(nil).Apply(of13.Actions(nil).Output(of13.PortController,
				of13.MaxLenNoBuffer))}
		g.given = append(g.given, all.Append(nil, 1))
		return
	}
	var in of13.PacketIn
	if in.Decode(event) != nil {
		return
	}
	port, _ := in.Match.InPort()
	out := of13.PacketOut{BufferID: of13.NoBuffer, InPort: port, Actions: of13.Actions(nil).Output(of13.PortFlood, 0),
		Data: in.Data}
	g.given = append(g.given, out.Append(nil, 1))
}

// TestOpenVSwitch sends pings between two hosts. Each goes through the leader, while the leader changes. A lost
// event or command would lose a reply, and a repeated one would duplicate it.
func TestOpenVSwitch(t *testing.T) {
	lab := netlab.ForTest(t)
	sw, err := lab.AddSwitch("s1", 7)
	if err != nil {
		t.Fatal(err)
	}
	one, err := lab.AddHost("h1", netip.MustParsePrefix("10.0.0.1/24"))
	if err != nil {
		t.Fatal(err)
	}
	two, err := lab.AddHost("h2", netip.MustParsePrefix("10.0.0.2/24"))
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range []*netlab.Host{one, two} {
		if _, err := lab.Connect(sw, h); err != nil {
			t.Fatal(err)
		}
	}
	ln, err := net.Listen("tcp", net.JoinHostPort(lab.Addr().String(), "0"))
	if err != nil {
		t.Fatal(err)
	}
	g := &group{t: t, react: hub}
	members := []*member{g.start(t), g.start(t), g.start(t)}
	b := startAgent(t, agent.Config{Listen: ln, Controllers: []string{members[0].addr, members[1].addr,
		members[2].addr}})
	g.lead(members[0])
	if err := sw.SetControllers(b.addr); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the first command is done", func() bool { return b.status().Done >= 1 })

	pings := make(chan []netlab.Echo, 1)
	go func() {
		echoes, err := one.Ping(t.Context(), two.Addr.Addr(), 300, 10*time.Millisecond, 10*time.Second)
		if err != nil {
			t.Error(err)
		}
		pings <- echoes
	}()
	time.Sleep(time.Second)
	g.lead(members[1]) // the old leader continues to run
	time.Sleep(700 * time.Millisecond)
	members[1].stop() // the leader dies, and the next is elected a while later
	time.Sleep(200 * time.Millisecond)
	g.lead(members[2])
	lost, doubled := 0, 0
	for _, e := range <-pings {
		switch {
		case e.Replies == 0:
			lost++
		case e.Replies > 1:
			doubled++
		}
	}
	if lost > 0 || doubled > 0 {
		t.Errorf("%d pings lost, %d answered twice", lost, doubled)
	}
	first := b.status().Epoch
	if err := sw.Kill(); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the switch is down", func() bool { return !b.status().Connected })
	if err := sw.Start(); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "a new epoch", func() bool { return b.status().Epoch > first && b.status().Done >= 1 })
}
