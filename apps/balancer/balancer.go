// Package balancer distributes what is sent to virtual addresses over servers, in turn: the load balancer of Botelho et
// al. (section VI), as handlers. It answers requests of ARP for these addresses, and installs flows. Other packets are
// left to an application that forwards. It is for one switch, at whose ports the servers are. A flow that goes on keeps
// its server, also when that is removed, but a host that moves to another port may get another one. The host no longer
// hears a server that has said nothing for ten times IdleTimeout. Package store/onstore has it as a client of the
// store.
//
//	PUT, GET, DELETE /apps/balancer/{address}: {"mac": "…", "servers": [{"address": "…", "mac": "…", "port": 2}]}
package balancer

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"slices"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
	"github.com/holdfast-sdn/holdfast/openflow/packet"
)

// Name is the name of the application.
const Name = "balancer"

// Priority is that of its flows. Those to a server stay for IdleTimeout without packets, in seconds, and those back for
// ten times that.
const (
	Priority    = 20
	IdleTimeout = 30
)

// MaxServers bounds those of a virtual address.
const MaxServers = 256

// Virtual is a virtual address.
type Virtual struct {
	MAC     string   `json:"mac"`
	Servers []Server `json:"servers"`
	Chosen  uint64   `json:"chosen,omitempty"` // how often one was
}

// Server is a server of a virtual address.
type Server struct {
	Address netip.Addr `json:"address"`
	MAC     string     `json:"mac"`
	Port    of13.Port  `json:"port"` // of the switch
}

// New returns the application.
func New() *app.App {
	a := app.New(Name)
	b := &balancer{app.NewTable[string, Virtual](a, "virtual")}
	app.Handle(a, func(app.SwitchUp) app.Cells { return app.Need() }, b.switchUp)
	app.Handle(a, b.packetInCells, b.packetIn)
	all := func(app.Request) app.Cells { return app.Whole(b.virtual) }
	app.HandleHTTP(a, "PUT /{address}", all, b.put)
	app.HandleHTTP(a, "GET /{address}", b.requestCells, b.get)
	app.HandleHTTP(a, "DELETE /{address}", b.requestCells, b.delete)
	return a
}

type balancer struct{ virtual app.Table[string, Virtual] }

// switchUp asks for the packets that no flow matches.
func (b *balancer) switchUp(tx *app.Tx, up app.SwitchUp) error {
	tx.TableMiss(up.Switch)
	return nil
}

// packetInCells drops what is for no address.
func (b *balancer) packetInCells(in app.PacketIn) app.Cells {
	p, ok := packet.Parse(in.Data)
	if !ok || !p.To.IsValid() || p.ARP != 0 && p.ARP != packet.ARPRequest {
		return app.Drop()
	}
	return app.Need(b.virtual.Cell(p.To.String()))
}

func (b *balancer) packetIn(tx *app.Tx, in app.PacketIn) error {
	p, _ := packet.Parse(in.Data)
	at := p.To.String()
	v, there := b.virtual.Get(tx, at)
	if !there || len(v.Servers) == 0 {
		return nil
	}
	out := of13.PacketOut{BufferID: of13.NoBuffer, InPort: of13.PortController, Data: in.Data}
	if p.ARP != 0 {
		out.Data, out.Actions = p.Reply(parse(v.MAC)), of13.Actions(nil).Output(in.InPort, 0)
		tx.PacketOut(in.Switch, out)
		return nil
	}
	s := v.Servers[v.Chosen%uint64(len(v.Servers))]
	v.Chosen++
	b.virtual.Put(tx, at, v)
	to, back := p.Redirect(in.InPort, &packet.Server{Address: s.Address, MAC: parse(s.MAC), Port: s.Port}, IdleTimeout)
	for _, e := range []packet.Entry{back, to} { // so that what the server answers finds its way
		tx.FlowMod(in.Switch, of13.FlowMod{Command: of13.FlowAdd, Priority: Priority, IdleTimeout: e.IdleTimeout,
			BufferID: of13.NoBuffer, Match: e.Match, Instructions: of13.Instructions(nil).Apply(e.Actions)})
	}
	out.InPort, out.Actions = in.InPort, to.Actions
	tx.PacketOut(in.Switch, out)
	return nil
}

func (b *balancer) requestCells(r app.Request) app.Cells {
	return app.Need(b.virtual.Cell(r.Values["address"]))
}

func (b *balancer) put(tx *app.Tx, r app.Request) (app.Response, error) {
	var v Virtual
	if err := json.Unmarshal(r.Body, &v); err != nil {
		return refuse("the body is no virtual address: %v", err), nil
	}
	at, err := netip.ParseAddr(r.Values["address"])
	if err != nil || !at.Is4() || at.String() != r.Values["address"] {
		return refuse("%q is no address of IPv4", r.Values["address"]), nil
	}
	if !isMAC(v.MAC) || len(v.Servers) == 0 || len(v.Servers) > MaxServers {
		return refuse("mac %q, %d servers: it needs an address of Ethernet, and 1 to %d servers", v.MAC, len(v.Servers),
			MaxServers), nil
	}
	for _, s := range v.Servers {
		if !s.Address.Is4() || !isMAC(s.MAC) || s.Port == 0 || s.Port > of13.PortMax {
			return refuse("server %v, %q, port %d: it needs addresses of IPv4 and Ethernet, and a port of the switch",
				s.Address, s.MAC, s.Port), nil
		}
	}
	for other, v2 := range b.virtual.All(tx) { // see packet.Redirect
		for _, s := range v.Servers {
			same := func(o Server) bool { return o.Address == s.Address }
			if other != at.String() && slices.ContainsFunc(v2.Servers, same) {
				return refuse("server %v serves %s: a server has one virtual address", s.Address, other), nil
			}
		}
	}
	was, _ := b.virtual.Get(tx, at.String())
	v.Chosen = was.Chosen
	b.virtual.Put(tx, at.String(), v)
	return app.Response{Status: http.StatusNoContent}, nil
}

func (b *balancer) get(tx *app.Tx, r app.Request) (app.Response, error) {
	v, there := b.virtual.Get(tx, r.Values["address"])
	return app.JSON(v, there)
}

func (b *balancer) delete(tx *app.Tx, r app.Request) (app.Response, error) {
	b.virtual.Delete(tx, r.Values["address"])
	return app.Response{Status: http.StatusNoContent}, nil
}

func isMAC(text string) bool {
	_, err := packet.ParseMAC(text)
	return err == nil
}

// parse returns an address that isMAC.
func parse(text string) of13.MAC {
	mac, _ := packet.ParseMAC(text)
	return mac
}

func refuse(format string, args ...any) app.Response {
	return app.Response{Status: http.StatusBadRequest, Body: fmt.Appendf(nil, format+"\n", args...)}
}
