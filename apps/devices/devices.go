// Package devices knows the hosts of the network: their addresses, and where and when each was seen last. It is the
// device manager of Botelho et al. (section VI), as handlers. A host is where its last packet came from, also if that
// is a port to another switch. There is no bound of hosts, and none is forgotten. Package store/onstore has it as a
// client of the store.
//
//	GET /apps/devices/{mac}: a Device. GET /apps/devices/addresses/{address}: the hosts that have told this address
package devices

import (
	"net"
	"slices"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/openflow/packet"
)

// Name is the name of the application.
const Name = "devices"

// SeenEvery is how exactly it is known when a device was seen: a packet of a known device is written at most so often.
const SeenEvery = time.Second

// buckets are the actors of each table.
const buckets = 64

// MaxHosts bounds the hosts that are known to have one address: those that have told it last.
const MaxHosts = 64

// Device is a host.
type Device struct {
	MAC     string    `json:"mac"`
	Address string    `json:"address,omitempty"` // of IPv4, that it has told last
	Switch  string    `json:"switch"`
	Port    app.Port  `json:"port"`
	Seen    time.Time `json:"seen"`
}

// addressed tells that a host has an address, or has it no more.
type addressed struct {
	Address string
	MAC     app.MAC
	Gone    bool
}

// New returns the application.
func New() *app.App {
	a := app.New(Name)
	d := &devices{app.NewTable[app.MAC, Device](a, "devices", app.Buckets(buckets)),
		app.NewTable[string, []app.MAC](a, "addresses", app.Buckets(buckets))}
	app.Handle(a, func(app.SwitchUp) app.Cells { return app.Need() }, d.switchUp)
	app.Handle(a, d.packetInCells, d.packetIn)
	app.HandleEmitted(a, func(m addressed) app.Cells { return app.Need(d.addresses.Cell(m.Address)) }, d.addressed)
	app.HandleHTTP(a, "GET /{mac}", d.getCells, d.get)
	app.HandleHTTP(a, "GET /addresses/{address}", d.findCells, d.find)
	return a
}

type devices struct {
	devices   app.Table[app.MAC, Device]
	addresses app.Table[string, []app.MAC]
}

// switchUp asks for the packets that no flow matches.
func (d *devices) switchUp(tx *app.Tx, up app.SwitchUp) error {
	tx.TableMiss(up.Switch)
	return nil
}

func (d *devices) packetInCells(in app.PacketIn) app.Cells {
	src := in.EthSrc()
	if src[0]&1 != 0 || src == (app.MAC{}) { // no host has such an address
		return app.Drop()
	}
	return app.Need(d.devices.Cell(src))
}

// packetIn notes where the sender is.
func (d *devices) packetIn(tx *app.Tx, in app.PacketIn) error {
	p, ok := packet.Parse(in.Data)
	if !ok {
		return nil
	}
	was, known := d.devices.Get(tx, p.Src)
	now := Device{p.Src.String(), was.Address, in.Switch.String(), in.InPort, tx.Now()}
	if p.ARP != 0 && !p.From.IsUnspecified() { // other packets may be forwarded by a router
		now.Address = p.From.String()
	}
	same := now.Address == was.Address && now.Switch == was.Switch && now.Port == was.Port
	if known && same && now.Seen.Sub(was.Seen) < SeenEvery {
		return nil
	}
	d.devices.Put(tx, p.Src, now)
	if now.Address == was.Address {
		return nil
	}
	if was.Address != "" {
		if err := app.Emit(tx, addressed{was.Address, p.Src, true}); err != nil {
			return err
		}
	}
	return app.Emit(tx, addressed{now.Address, p.Src, false})
}

func (d *devices) addressed(tx *app.Tx, m addressed) error {
	hosts, _ := d.addresses.Get(tx, m.Address)
	hosts = slices.DeleteFunc(slices.Clone(hosts), func(mac app.MAC) bool { return mac == m.MAC })
	if !m.Gone {
		hosts = append(hosts[max(0, len(hosts)-MaxHosts+1):], m.MAC)
	}
	if len(hosts) == 0 {
		d.addresses.Delete(tx, m.Address)
		return nil
	}
	d.addresses.Put(tx, m.Address, hosts)
	return nil
}

// macOf returns the address in the path of a request; zero, which no host has, if there is none.
func macOf(r app.Request) (mac app.MAC) {
	if b, err := net.ParseMAC(r.Values["mac"]); err == nil {
		copy(mac[:], b)
	}
	return mac
}

func (d *devices) getCells(r app.Request) app.Cells { return app.Need(d.devices.Cell(macOf(r))) }

func (d *devices) get(tx *app.Tx, r app.Request) (app.Response, error) {
	device, known := d.devices.Get(tx, macOf(r))
	return app.JSON(device, known)
}

func (d *devices) findCells(r app.Request) app.Cells {
	return app.Need(d.addresses.Cell(r.Values["address"]))
}

func (d *devices) find(tx *app.Tx, r app.Request) (app.Response, error) {
	hosts, known := d.addresses.Get(tx, r.Values["address"])
	var list []string
	for _, mac := range hosts {
		list = append(list, mac.String())
	}
	return app.JSON(list, known)
}
