package tenants

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
	"github.com/holdfast-sdn/holdfast/openflow/packet"
)

// Place is where a host is.
type Place struct {
	Switch string   `json:"switch"` // datapath id in hexadecimal digits
	Port   app.Port `json:"port"`
	VLAN   uint16   `json:"vlan,omitempty"` // of its frames; 0: they have no tag
}

// Status is the place of a host, and whether the network knows it. Until a host is ready it may lose frames, and what
// was at its port before may still get some. So start a host when it is ready.
type Status struct {
	Place
	Ready bool   `json:"ready"`
	Why   string `json:"why,omitempty"` // it is not
}

// names of tenants.
var names = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// split returns the tenant and the address of a host.
func (p place) split() (name string, mac app.MAC) {
	name, text, _ := strings.Cut(string(p), " ")
	mac, _ = packet.ParseMAC(text)
	return name, mac
}

// routes adds the handlers of requests. What is refused changes nothing.
func (t *tenants) routes(a *app.App, network app.Cells) {
	for pattern, run := range map[string]func(*app.Tx, app.Request) (any, error){
		"PUT /{tenant}":                t.create,
		"GET /{tenant}":                t.list,
		"DELETE /{tenant}":             t.remove,
		"PUT /{tenant}/hosts/{mac}":    t.attach,
		"GET /{tenant}/hosts/{mac}":    t.find,
		"DELETE /{tenant}/hosts/{mac}": t.detach,
		"DELETE /switches/{switch}":    t.forget,
	} {
		app.HandleHTTP(a, pattern, func(app.Request) app.Cells { return network },
			func(tx *app.Tx, r app.Request) (app.Response, error) {
				return app.Respond(run(tx, r))
			})
	}
}

func (t *tenants) create(tx *app.Tx, r app.Request) (any, error) {
	name := r.Values["tenant"]
	if !names.MatchString(name) {
		return nil, app.Refuse(http.StatusBadRequest, "tenant %q: use 1 to 64 letters, digits and ._-", name)
	}
	if _, there := t.tenants.Get(tx, all, name); there {
		return nil, nil
	}
	p, _ := t.progress.Get(tx, all)
	for range MaxTenants { // the tag that has been free for longest
		p.Tag = p.Tag%MaxTenants + 1
		if _, used := t.tags.Get(tx, all, uint32(p.Tag)); used {
			continue
		}
		t.progress.Put(tx, all, p)
		t.tags.Put(tx, all, uint32(p.Tag), false)
		t.tenants.Put(tx, all, name, tenant{Tag: p.Tag})
		return nil, nil
	}
	return nil, app.Refuse(http.StatusInsufficientStorage, "no VLAN is free for another tenant: remove tenants, and "+
		"switches that do not come back")
}

// tenant returns the tenant of a request.
func (t *tenants) tenant(tx *app.Tx, r app.Request) (string, tenant, error) {
	name := r.Values["tenant"]
	row, known := t.tenants.Get(tx, all, name)
	if !known {
		return name, row, app.Refuse(http.StatusNotFound, "there is no tenant %q: create it with PUT", name)
	}
	return name, row, nil
}

func (t *tenants) list(tx *app.Tx, r app.Request) (any, error) {
	name, _, err := t.tenant(tx, r)
	if err != nil {
		return nil, err
	}
	list := map[string]Status{}
	for key, h := range t.hosts.All(tx, all) {
		if of, mac := place(key).split(); of == name {
			list[mac.String()] = t.status(tx, h)
		}
	}
	return list, nil
}

func (t *tenants) remove(tx *app.Tx, r app.Request) (any, error) {
	name, row, err := t.tenant(tx, r)
	switch {
	case err != nil:
		return nil, err
	case row.Hosts > 0:
		return nil, app.Refuse(http.StatusConflict, "tenant %s has %d hosts: remove them first", name, row.Hosts)
	}
	t.tenants.Delete(tx, all, name)
	t.tags.Put(tx, all, uint32(row.Tag), true)
	return nil, t.change(tx)
}

// host returns the key of the host of a request.
func (t *tenants) host(tx *app.Tx, r app.Request) (key string, name string, row tenant, err error) {
	if name, row, err = t.tenant(tx, r); err != nil {
		return "", name, row, err
	}
	mac, err := packet.ParseMAC(r.Values["mac"])
	if err != nil {
		return "", name, row, app.Refuse(http.StatusBadRequest, "%v", err)
	}
	return string(placeOf(name, mac)), name, row, nil
}

// attach puts a host where it is, instead of where it was.
func (t *tenants) attach(tx *app.Tx, r app.Request) (any, error) {
	key, name, row, err := t.host(tx, r)
	if err != nil {
		return nil, err
	}
	var p Place
	if err := app.ReadJSON(r, &p); err != nil {
		return nil, app.Refuse(http.StatusBadRequest, "%v", err)
	}
	id, err := openflow.ParseDatapathID(p.Switch)
	switch {
	case err != nil:
		return nil, app.Refuse(http.StatusBadRequest, "%v", err)
	case p.Port == 0 || p.Port > of13.PortMax:
		return nil, app.Refuse(http.StatusBadRequest, "port %d: use the number of a port of the switch", p.Port)
	case p.VLAN >= 1<<12-1:
		return nil, app.Refuse(http.StatusBadRequest, "vlan %d: use 1 to 4094, or 0 for frames without a tag", p.VLAN)
	}
	h := host{At: app.PortOf{Switch: id, Port: p.Port}, VLAN: p.VLAN}
	if to, link := t.links.Get(tx, all, h.At); link {
		return nil, app.Refuse(http.StatusConflict, "port %d of switch %s leads to port %d of switch %s: hosts are at "+
			"other ports", p.Port, id, to.Port, to.Switch)
	}
	n := 0
	for k, other := range t.hosts.All(tx, all) {
		n++
		if of, _ := place(k).split(); of != name && other.At == h.At && other.VLAN == h.VLAN {
			return nil, app.Refuse(http.StatusConflict, "port %d of switch %s has hosts of tenant %s, with VLAN %d: "+
				"remove them, or use another VLAN", p.Port, id, of, p.VLAN)
		}
	}
	was, known := t.hosts.Get(tx, all, key)
	switch {
	case known && was.At == h.At && was.VLAN == h.VLAN:
		return nil, nil
	case !known && n >= MaxHosts:
		return nil, app.Refuse(http.StatusInsufficientStorage, "there are %d hosts: remove some", n)
	case !known:
		row.Hosts++
		t.tenants.Put(tx, all, name, row)
	}
	progress, _ := t.progress.Get(tx, all)
	h.Since = progress.Wanted + 1
	t.hosts.Put(tx, all, key, h)
	return nil, t.change(tx)
}

func (t *tenants) find(tx *app.Tx, r app.Request) (any, error) {
	key, name, _, err := t.host(tx, r)
	if err != nil {
		return nil, err
	}
	h, known := t.hosts.Get(tx, all, key)
	if !known {
		return nil, app.Refuse(http.StatusNotFound, "tenant %s has no host %s", name, r.Values["mac"])
	}
	return t.status(tx, h), nil
}

// status says whether the entries for a host are installed.
func (t *tenants) status(tx *app.Tx, h host) Status {
	s := Status{Place: Place{h.At.Switch.String(), h.At.Port, h.VLAN}}
	p, _ := t.progress.Get(tx, all)
	m, known := t.members.Get(tx, all, h.At.Switch)
	switch {
	case !known:
		s.Why = fmt.Sprintf("the switch is unknown, or one of more than %d", MaxSwitches)
	case !m.Up:
		s.Why = "the switch is down"
	case p.Done < max(h.Since, m.Since):
		s.Why = "switches are changing their entries"
	case m.Refused != "":
		s.Why = "the switch refuses entries: " + m.Refused
	default:
		s.Ready = true
	}
	return s
}

func (t *tenants) detach(tx *app.Tx, r app.Request) (any, error) {
	key, name, row, err := t.host(tx, r)
	if err != nil {
		return nil, err
	}
	if _, known := t.hosts.Get(tx, all, key); !known {
		return nil, nil
	}
	row.Hosts--
	t.tenants.Put(tx, all, name, row)
	t.hosts.Delete(tx, all, key)
	return nil, t.change(tx)
}

// forget removes a switch, so that tags of tenants that are gone can be used again.
func (t *tenants) forget(tx *app.Tx, r app.Request) (any, error) {
	id := app.SwitchOf(r)
	if m, _ := t.members.Get(tx, all, id); m.Up {
		return nil, app.Refuse(http.StatusConflict, "switch %s is up: a switch that is up is not forgotten", id)
	}
	t.members.Delete(tx, all, id)
	return nil, t.change(tx)
}
