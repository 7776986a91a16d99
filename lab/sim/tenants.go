package sim

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/apps/tenants"
	"github.com/holdfast-sdn/holdfast/lab/census"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow"
)

// tenantsTrial is tenants with a VLAN each at the ports of all hosts, and machines with equal addresses, which move
// from port to port. At each moment, what is sent in the VLAN of a tenant leaves the network in that VLAN only.
type tenantsTrial struct {
	web
	clients []*tenantClient
}

// tenantClient is the operator of one tenant.
type tenantClient struct {
	*tenantsTrial
	name  string
	vlan  uint16
	at    []openflow.DatapathID // by machine: where it is at the end
	ready bool                  // the network says that all machines are
}

// machines are the addresses of the machines of each tenant.
var machines = []app.MAC{{2, 0, 0, 0, 1, 1}, {2, 0, 0, 0, 1, 2}}

var broadcast = app.MAC{255, 255, 255, 255, 255, 255}

func newTenantsTrial(s *simulation) trial {
	t := &tenantsTrial{web: web{s, tenants.New()}}
	for i, name := range []string{"red", "blue"} {
		t.clients = append(t.clients, &tenantClient{tenantsTrial: t, name: name, vlan: uint16(101 + i),
			at: make([]openflow.DatapathID, len(machines))})
	}
	return t
}

func (t *tenantsTrial) applications() []*app.App { return []*app.App{t.s.wires(), tenants.New()} }

func (t *tenantsTrial) actor() ledger.Actor { return ledger.Actor{App: tenants.Name} }

func (t *tenantsTrial) start() {
	for _, c := range t.clients {
		c.work()
	}
}

func (c *tenantClient) request(route string, machine int, body []byte, take func(app.Response)) {
	values := map[string]string{"tenant": c.name, "mac": machines[machine].String()}
	c.ask(route, app.Request{Values: values, Body: body}, take)
}

// attach says that a machine is at the host port of a switch now.
func (c *tenantClient) attach(machine int, id openflow.DatapathID, take func(app.Response)) {
	body, _ := json.Marshal(tenants.Place{Switch: id.String(), Port: census.HostPort, VLAN: c.vlan}) // it can be
	c.request("PUT /{tenant}/hosts/{mac}", machine, body, take)
}

// work creates and removes the tenant, and its machines at any switch, until the traffic ends. Then, when no request of
// before can come late, it places them.
func (c *tenantClient) work() {
	if !c.s.traffic {
		c.s.w.after(callPatience, nil, func() { c.request("PUT /{tenant}", 0, nil, func(app.Response) { c.place(0) }) })
		return
	}
	again := func(app.Response) { c.s.pause(c.work) }
	machine := c.s.w.rand.IntN(len(machines))
	switch c.s.w.rand.IntN(8) {
	case 0, 1:
		c.request("PUT /{tenant}", 0, nil, again)
	case 2:
		c.request("DELETE /{tenant}", 0, nil, again)
	case 3, 4:
		c.request("DELETE /{tenant}/hosts/{mac}", machine, nil, again)
	default:
		c.attach(machine, c.s.switches[c.s.w.rand.IntN(len(c.s.switches))].id, again)
	}
}

// place places a machine and those after it, one at each switch, and waits until each is ready.
func (c *tenantClient) place(machine int) {
	if c.ready = machine == len(machines); c.ready {
		return
	}
	c.at[machine] = c.s.switches[(machine+int(c.vlan))%len(c.s.switches)].id
	c.attach(machine, c.at[machine], func(app.Response) {
		c.request("GET /{tenant}/hosts/{mac}", machine, nil, func(r app.Response) {
			var is tenants.Status
			if err := json.Unmarshal(r.Body, &is); r.Status < 300 && err != nil {
				c.s.w.fail("tenant %s: %s: %v", c.name, r.Body, err)
			}
			if is.Ready {
				machine++
			}
			c.s.pause(func() { c.place(machine) })
		})
	})
}

// send follows a frame between machines of a tenant that enters at a switch.
func (c *tenantClient) send(at openflow.DatapathID, from, to app.MAC) probe {
	frame := append(slices.Clone(to[:]), from[:]...)
	frame = binary.BigEndian.AppendUint16(append(frame, 0x81, 0), c.vlan)
	frame = append(frame, 0x08, 0x00)
	return c.s.probe(app.PortOf{Switch: at, Port: census.HostPort}, append(frame, make([]byte, 46)...))
}

// vlanOf returns the VLAN of a frame; 0: it has none.
func vlanOf(frame []byte) uint16 {
	if binary.BigEndian.Uint16(frame[12:]) != 0x8100 {
		return 0
	}
	return binary.BigEndian.Uint16(frame[14:]) & 0xfff
}

func (t *tenantsTrial) look(*switchNode, []byte) {
	for _, c := range t.clients {
		for _, n := range t.s.switches {
			for _, from := range machines {
				for _, to := range append(machines[:len(machines):len(machines)], broadcast) {
					c.look(n.id, from, to)
				}
			}
		}
	}
}

// look fails if something of the tenant leaves at another one, or goes round in circles, or leaves twice.
func (c *tenantClient) look(at openflow.DatapathID, from, to app.MAC) {
	p := c.send(at, from, to)
	if p.circle || to != broadcast && len(p.ends) > 1 {
		c.s.w.fail("tenant %s: a frame from %v at switch %s to %v goes round in circles: %t, and leaves by %d ports",
			c.name, from, at, to, p.circle, len(p.ends))
	}
	for _, e := range p.ends {
		if vlan := vlanOf(e.frame); vlan != c.vlan {
			c.s.w.fail("tenant %s: a frame from %v at switch %s to %v leaves by %v with VLAN %d", c.name, from, at, to,
				e.at, vlan)
		}
	}
}

func (t *tenantsTrial) unsettled() string {
	for _, c := range t.clients {
		if !c.ready {
			return fmt.Sprintf("tenant %s has machines that are not ready", c.name)
		}
		for i, from := range machines {
			for j, to := range machines {
				p := c.send(c.at[i], from, to)
				if c.at[i] != c.at[j] && (len(p.ends) != 1 || p.ends[0].at.Switch != c.at[j]) {
					return fmt.Sprintf("tenant %s: %v at switch %s does not reach %v at switch %s", c.name, from,
						c.at[i], to, c.at[j])
				}
			}
		}
	}
	return ""
}
