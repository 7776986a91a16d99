// Package devices knows the hosts of the network: their addresses, and where and when each was seen last. It is the
// device manager of Botelho et al. (section VI), as handlers. A host is where its last packet came from, also if that
// is a port to another switch. app.Sources bounds them: 65,536 hosts at a port, and 262,144 in all. At a bound, those
// that were not seen for an hour are forgotten, and if there is none, a further host is not known. They are forgotten
// with the switch at which they were seen last. Package store/onstore has it as a client of the store, without bounds.
//
//	GET /apps/devices/{mac}: a Device. GET /apps/devices/addresses/{address}: the hosts that have told this address
package devices

import (
	"encoding/binary"
	"hash/fnv"
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

// buckets are the actors of each table. A bucket has 1/parts of the bounds of app.Sources, so that a port may have four
// times as many hosts in all buckets together.
const buckets, parts = 64, 16

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
	d := &devices{app.NewSources[uint32](a, "sources", parts, app.Sharded),
		app.NewMap[uint32, app.MAC, Device](a, "hosts", app.Sharded),
		app.NewTable[string, []app.MAC](a, "addresses", app.Buckets(buckets))}
	app.Handle(a, func(app.SwitchUp) app.Cells { return app.Need() }, d.switchUp)
	app.Handle(a, d.packetInCells, d.packetIn)
	app.HandleEmitted(a, func(m addressed) app.Cells { return app.Need(d.addresses.Cell(m.Address)) }, d.addressed)
	app.Handle(a, func(app.SwitchForgotten) app.Cells { return app.Each(d.hosts) }, d.forgetSwitch)
	app.Handle(a, func(t app.Timer) app.Cells { return d.cells(forgettingOf(t).bucket) }, d.timer)
	app.HandleHTTP(a, "GET /{mac}", d.getCells, d.get)
	app.HandleHTTP(a, "GET /addresses/{address}", d.findCells, d.find)
	return a
}

type devices struct {
	sources   app.Sources[uint32] // by bucket, as hosts
	hosts     app.Map[uint32, app.MAC, Device]
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
	return d.cells(bucket(src))
}

// bucket returns the bucket of a host: not 0, whose cells would be of the actor without a key.
func bucket(mac app.MAC) uint32 {
	h := fnv.New32a()
	h.Write(mac[:])
	return 1 + h.Sum32()%buckets
}

// cells names what a bucket has.
func (d *devices) cells(bucket uint32) app.Cells {
	return d.sources.Cells(bucket).With(d.hosts.Cell(bucket))
}

// packetIn notes where the sender is.
func (d *devices) packetIn(tx *app.Tx, in app.PacketIn) error {
	p, ok := packet.Parse(in.Data)
	if !ok {
		return nil
	}
	was, known := d.hosts.Get(tx, bucket(p.Src), p.Src)
	now := Device{p.Src.String(), was.Address, in.Switch.String(), in.InPort, tx.Now()}
	if p.ARP != 0 && !p.From.IsUnspecified() { // other packets may be forwarded by a router
		now.Address = p.From.String()
	}
	same := now.Address == was.Address && now.Switch == was.Switch && now.Port == was.Port
	if known && same && now.Seen.Sub(was.Seen) < SeenEvery {
		return nil
	}
	seen := d.sources.See(tx, bucket(p.Src), p.Src, app.PortOf{Switch: in.Switch, Port: in.InPort})
	for _, gone := range seen.Forgotten {
		if err := d.forget(tx, gone); err != nil {
			return err
		}
	}
	if !seen.Learned {
		return d.forget(tx, p.Src)
	}
	d.hosts.Put(tx, bucket(p.Src), p.Src, now)
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

// forget removes a host, if it is known.
func (d *devices) forget(tx *app.Tx, mac app.MAC) error {
	was, _ := d.hosts.Get(tx, bucket(mac), mac)
	d.hosts.Delete(tx, bucket(mac), mac)
	if was.Address == "" {
		return nil
	}
	return app.Emit(tx, addressed{was.Address, mac, true})
}

// forgetAtOnce bounds the hosts of a bucket that are forgotten in one transaction: all buckets together emit no more
// messages than it may have.
const forgetAtOnce = 1024 / buckets

// forgetSwitch has the hosts of this bucket forgotten that were seen at a switch, by a timer, because the cells of the
// bucket are named by a message that has its number.
func (d *devices) forgetSwitch(tx *app.Tx, m app.SwitchForgotten) error {
	for b := range d.hosts.Keys(tx) {
		return tx.SetTimer("forget "+m.Switch.String(), 1, forgetting{b, m.Switch}.append(nil))
	}
	return nil
}

// forgetting is the data of the timer.
type forgetting struct {
	bucket uint32
	at     app.Switch
}

func (f forgetting) append(dst []byte) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(dst, f.bucket), uint64(f.at))
}

func forgettingOf(t app.Timer) forgetting {
	return forgetting{binary.BigEndian.Uint32(t.Data), app.Switch(binary.BigEndian.Uint64(t.Data[4:]))}
}

func (d *devices) timer(tx *app.Tx, t app.Timer) error {
	f, n := forgettingOf(t), 0
	for mac, was := range d.hosts.All(tx, f.bucket) {
		if was.Switch != f.at.String() {
			continue
		}
		if n++; n > forgetAtOnce {
			return tx.SetTimer(t.Name, 1, t.Data)
		}
		d.sources.Forget(tx, f.bucket, mac)
		if err := d.forget(tx, mac); err != nil {
			return err
		}
	}
	return nil
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

func (d *devices) getCells(r app.Request) app.Cells { return d.cells(bucket(macOf(r))) }

func (d *devices) get(tx *app.Tx, r app.Request) (app.Response, error) {
	device, known := d.hosts.Get(tx, bucket(macOf(r)), macOf(r))
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
