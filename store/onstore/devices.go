package onstore

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-sdn/holdfast/store"
)

// devices is a device manager: it knows the hosts of the network, with their addresses, and where and when each was
// seen last.
type devices struct{ base }

// The tables of the device manager. The variants before Columned have whole devices in DefaultColumn, as CBOR.
const (
	deviceTable  = "devices"
	macTable     = "macs"    // address of Ethernet → key of deviceTable
	ipTable      = "ips"     // address of IPv4 → keys of deviceTable, separated by commas
	numberTable  = "numbers" // counters
	deviceNumber = "device"  // key of numberTable
	seenColumn   = "seen"    // of deviceTable
	noAddress    = "0.0.0.0" // the address of a host that has told none
)

// device is a host.
type device struct {
	MAC    string `cbor:"mac"`
	IP     string `cbor:"ip"`
	Switch string `cbor:"switch"`
	Port   string `cbor:"port"`
	Seen   string `cbor:"seen"` // ms since 1970
}

// Setup implements App.
func (d *devices) Setup(ctx context.Context) error {
	table := makeTable(deviceTable, "", "mac", "ip", "switch", "port", seenColumn)
	if d.variant.whole() {
		table = makeTable(deviceTable, "", store.DefaultColumn)
	}
	return d.setup(ctx, table, makeTable(macTable, deviceTable, store.DefaultColumn),
		makeTable(ipTable, "", store.DefaultColumn), makeTable(numberTable, "", store.DefaultColumn),
		upload("seen"))
}

// Handle notes that the sender was seen, and reads what is known of the receiver.
func (d *devices) Handle(ctx context.Context, p *Packet) (Reaction, error) {
	now := device{macText(p.Src), noAddress, p.Switch.String(), strconv.FormatUint(uint64(p.InPort), 10),
		strconv.FormatInt(time.Now().UnixMilli(), 10)}
	if p.From.IsValid() {
		now.IP = p.From.String()
	}
	target := ""
	if p.Dst[0]&1 == 0 {
		target = macText(p.Dst)
	}
	switch d.variant {
	case Component:
		return Reaction{}, d.beside(ctx, now, target)
	case Cached:
		return Reaction{}, d.fromCache(ctx, now, target)
	}
	chains := [][]step{d.toDevice(now.MAC)}
	if target != "" {
		chains = append(chains, d.toDevice(target))
	}
	for {
		walks, err := d.follow(ctx, chains...)
		if err != nil {
			return Reaction{}, err
		}
		if row := walks[0].row(); row == nil {
			err = d.create(ctx, now)
		} else {
			err = d.update(ctx, now, row)
		}
		if !is(err, store.Conflict) && !is(err, store.Exists) { // else another one has written it meanwhile
			return Reaction{}, err
		}
	}
}

// toDevice are the reads of the device that has an address.
func (d *devices) toDevice(mac string) []step {
	resolve := store.Op{Kind: store.Resolve, Table: macTable, Key: mac}
	switch d.variant {
	case Plain:
		resolve.Kind = store.Get
		refers := func(row *store.Row) (string, error) { return text(row, store.DefaultColumn), nil }
		return []step{{Op: resolve}, {store.Op{Kind: store.Get, Table: deviceTable}, refers}}
	case Columned:
		resolve.Only = []string{"ip", "switch", "port"}
	}
	return []step{{Op: resolve}}
}

// update stores when a device was seen, if it is still as it was read.
func (d *devices) update(ctx context.Context, now device, was *store.Row) error {
	o := store.Op{Kind: store.Put, Table: deviceTable, Key: was.Key, Condition: &store.Condition{Version: &was.Version}}
	switch {
	case d.variant.whole():
		var before device
		if err := unpack(was, &before); err != nil {
			return err
		}
		if now.IP == noAddress {
			now.IP = before.IP
		}
		o.Columns = pack(&now)
		if d.variant != Versions {
			o.Condition = &store.Condition{Columns: was.Columns}
		}
		_, err := d.do(ctx, o)
		return d.indexed(ctx, err, before.IP, now.IP, was.Key)
	default:
		o.Kind, o.Columns = store.Update, now.changed(was)
	}
	_, err := d.do(ctx, o)
	return d.indexed(ctx, err, text(was, "ip"), now.IP, was.Key)
}

// changed returns the columns that differ from those of a row.
func (now device) changed(was *store.Row) store.Columns {
	c := columns(seenColumn, now.Seen)
	if text(was, "switch") != now.Switch || text(was, "port") != now.Port { // the host has moved
		c = append(c, columns("switch", now.Switch, "port", now.Port)...)
	}
	if now.IP != noAddress && text(was, "ip") != now.IP {
		c = append(c, columns("ip", now.IP)...)
	}
	return c
}

// indexed adds a device to those of an address that it has now, unless err says that this was not stored.
func (d *devices) indexed(ctx context.Context, err error, before, ip, key string) error {
	if err != nil || ip == noAddress || ip == before {
		return err
	}
	return d.index(ctx, ip, key)
}

// create stores a device that was not known, with all that refers to it.
func (d *devices) create(ctx context.Context, now device) error {
	ops := []store.Op{{Kind: store.Add, Table: numberTable, Key: deviceNumber, Delta: 1}}
	if now.IP != noAddress {
		ops = append(ops, store.Op{Kind: store.Get, Table: ipTable, Key: now.IP})
	}
	results, err := d.together(ctx, ops...)
	if err != nil {
		return err
	}
	key := strconv.FormatInt(results[0].Value, 10)
	fields := columns("mac", now.MAC, "ip", now.IP, "switch", now.Switch, "port", now.Port, seenColumn, now.Seen)
	if d.variant.whole() {
		fields = pack(&now)
	}
	all := []store.Op{{Kind: store.Create, Table: deviceTable, Key: key, Columns: fields},
		{Kind: store.Create, Table: macTable, Key: now.MAC, Columns: store.Value([]byte(key))}}
	if now.IP != noAddress {
		o, err := listed(now.IP, key, results[1].Row)
		if err != nil {
			return err
		}
		all = append(all, o)
	}
	_, err = d.store.Do(ctx, all...)
	return err
}

// index adds a device to those that have an address of IPv4.
func (d *devices) index(ctx context.Context, ip, key string) error {
	for {
		row, err := d.get(ctx, store.Op{Kind: store.Get, Table: ipTable, Key: ip})
		if err != nil {
			return err
		}
		if row != nil && slices.Contains(strings.Split(text(row, store.DefaultColumn), ","), key) {
			return nil // it had the address before
		}
		o, err := listed(ip, key, row)
		if err != nil {
			return err
		}
		if _, err = d.do(ctx, o); !is(err, store.Conflict) {
			return err
		}
	}
}

// listed adds a device to those of an address of IPv4, if they are still as they were read.
func listed(ip, key string, row *store.Row) (store.Op, error) {
	version, all := uint64(0), key
	if row != nil {
		version, all = row.Version, text(row, store.DefaultColumn)+","+key
		if len(all) > store.MaxValue {
			return store.Op{}, fmt.Errorf("too many devices have the address %s", ip)
		}
	}
	return store.Op{Kind: store.Put, Table: ipTable, Key: ip, Columns: store.Value([]byte(all)),
		Condition: &store.Condition{Version: &version}}, nil
}

// beside handles a packet by a component, whether the sender is known or new.
func (d *devices) beside(ctx context.Context, now device, target string) error {
	_, err := d.do(ctx, store.Op{Kind: store.Run, Component: "seen", Columns: columns("mac", now.MAC, "ip", now.IP,
		"switch", now.Switch, "port", now.Port, "seen", now.Seen, "target", target)})
	return err
}

// fromCache reads devices from the cache. The write tells whether that of the sender was old.
func (d *devices) fromCache(ctx context.Context, now device, target string) error {
	for maxAge := MaxAge; ; maxAge = 0 {
		row, err := d.cachedDevice(ctx, now.MAC, maxAge)
		switch {
		case err != nil:
			return err
		case row == nil:
			return d.beside(ctx, now, target)
		}
		o := store.Op{Kind: store.Update, Table: deviceTable, Key: row.Key, Columns: now.changed(row),
			Condition: &store.Condition{Version: &row.Version}}
		if _, err = d.cache.Do(ctx, o); is(err, store.Conflict) {
			continue
		}
		if err = d.indexed(ctx, err, text(row, "ip"), now.IP, row.Key); err == nil && target != "" {
			_, err = d.cachedDevice(ctx, target, maxAge)
		}
		return err
	}
}

func (d *devices) cachedDevice(ctx context.Context, mac string, maxAge time.Duration) (*store.Row, error) {
	refers, err := d.cached(ctx, macTable, mac, maxAge)
	if err != nil || refers == nil {
		return nil, err
	}
	return d.cached(ctx, deviceTable, text(refers, store.DefaultColumn), maxAge)
}
