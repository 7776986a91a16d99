package onstore

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-sdn/holdfast/openflow/of13"
	"github.com/holdfast-sdn/holdfast/openflow/packet"
	"github.com/holdfast-sdn/holdfast/store"
)

// balancer distributes what is sent to virtual addresses over the members of a pool, in turn. Flows expire in the
// switch, so a host that was silent gets the next member.
type balancer struct{ base }

// Member is a server of a pool.
type Member = packet.Server

// The tables of the balancer. The variants before Columned have whole entities in DefaultColumn, as JSON.
const (
	vipAddressTable = "vip_addresses" // address → key of vipTable
	vipTable        = "vips"
	poolTable       = "pools"
	memberTable     = "members"
)

// vip is a virtual address.
type vip struct {
	Name     string `json:"name"`
	MAC      string `json:"mac"`
	Protocol string `json:"protocol"`
	Port     string `json:"port"`
	Pool     string `json:"pool"`
}

// pool is who serves virtual addresses.
type pool struct {
	Name    string `json:"name"`
	Method  string `json:"method"`
	Members string `json:"members"` // their keys, separated by commas
	Current int    `json:"current"` // the one that was chosen last
}

// member is a Member as it is stored.
type member struct {
	Address string `json:"address"`
	MAC     string `json:"mac"`
	Port    string `json:"port"`
}

// whole reports whether entities are stored whole.
func (v Variant) whole() bool { return v == Plain || v == References || v == Versions }

// Setup implements App.
func (b *balancer) Setup(ctx context.Context) error {
	tables := []store.Op{makeTable(vipAddressTable, vipTable, store.DefaultColumn)}
	if b.variant.whole() {
		for _, name := range []string{vipTable, poolTable, memberTable} {
			tables = append(tables, makeTable(name, "", store.DefaultColumn))
		}
	} else {
		tables = append(tables, makeTable(vipTable, "", "name", "mac", "protocol", "port", "pool"),
			makeTable(poolTable, "", "name", "method", "members", "current"),
			makeTable(memberTable, "", "address", "mac", "port"))
	}
	return b.setup(ctx, append(tables, upload("robin"))...)
}

// AddVIP makes a virtual address, which members serve in turn. If it is there already, it stays as it is.
func AddVIP(ctx context.Context, a App, at netip.Addr, mac of13.MAC, members []Member) error {
	b, ok := a.(*balancer)
	if !ok {
		return fmt.Errorf("%T has no virtual addresses", a)
	}
	id := "vip-" + at.String()
	var keys []string
	var ops []store.Op
	put := func(table, key string, entity any, fields store.Columns) {
		if b.variant.whole() {
			value, _ := json.Marshal(entity) // these cannot fail
			fields = store.Value(value)
		}
		ops = append(ops, store.Op{Kind: store.Create, Table: table, Key: key, Columns: fields})
	}
	for i, m := range members {
		key, e := fmt.Sprint(id, "-", i), member{m.Address.String(), address(m.MAC), fmt.Sprint(uint32(m.Port))}
		put(memberTable, key, e, columns("address", e.Address, "mac", e.MAC, "port", e.Port))
		keys = append(keys, key)
	}
	p := pool{"pool of " + at.String(), "round robin", strings.Join(keys, ","), len(keys) - 1}
	v := vip{"virtual address " + at.String(), address(mac), "any", "any", id}
	put(poolTable, id, p, columns("name", p.Name, "method", p.Method, "members", p.Members, "current",
		strconv.Itoa(p.Current)))
	put(vipTable, id, v, columns("name", v.Name, "mac", v.MAC, "protocol", v.Protocol, "port", v.Port, "pool", v.Pool))
	ops = append(ops, store.Op{Kind: store.Create, Table: vipAddressTable, Key: at.String(),
		Columns: store.Value([]byte(id))})
	if _, err := b.store.Do(ctx, ops...); err != nil && !is(err, store.Exists) {
		return fmt.Errorf("add the virtual address %v: %w", at, err)
	}
	return nil
}

// Handle answers requests of ARP for virtual addresses, and chooses who gets a packet to one.
func (b *balancer) Handle(ctx context.Context, p *Packet) (Reaction, error) {
	if !p.To.IsValid() || p.ARP != 0 && p.ARP != packet.ARPRequest {
		return Reaction{}, nil
	}
	for maxAge := MaxAge; ; maxAge = 0 {
		v, version, err := b.vip(ctx, p.To.String(), p.ARP != 0, maxAge)
		if err != nil || v == nil {
			return Reaction{}, err
		}
		if p.ARP != 0 {
			mac, err := ParseMAC(v.MAC)
			return Reaction{MAC: mac}, err
		}
		m, err := b.choose(ctx, v, version)
		switch {
		case b.variant == Cached && is(err, store.Conflict): // the cached virtual address is old
		case err != nil || m == member{}:
			return Reaction{}, err
		default:
			chosen, err := m.parse()
			return Reaction{Member: chosen}, err
		}
	}
}

func (m member) parse() (*Member, error) {
	mac, err := ParseMAC(m.MAC)
	if err != nil {
		return nil, err
	}
	ip, err := netip.ParseAddr(m.Address)
	if err != nil {
		return nil, err
	}
	port, err := strconv.ParseUint(m.Port, 10, 32)
	return &Member{Address: ip, MAC: mac, Port: of13.Port(port)}, err
}

// vip returns the virtual address with its version; nil if it is none. Not all fields are set where a variant reads
// some columns only.
func (b *balancer) vip(ctx context.Context, at string, forARP bool, maxAge time.Duration) (*vip, uint64, error) {
	var row *store.Row
	var err error
	switch b.variant {
	case Plain:
		refers, err := b.get(ctx, store.Op{Kind: store.Get, Table: vipAddressTable, Key: at})
		if err != nil || refers == nil {
			return nil, 0, err
		}
		row, err = b.get(ctx, store.Op{Kind: store.Get, Table: vipTable, Key: text(refers, store.DefaultColumn)})
		if err != nil {
			return nil, 0, err
		}
	case References, Versions:
		row, err = b.get(ctx, store.Op{Kind: store.Resolve, Table: vipAddressTable, Key: at})
	case Cached:
		refers, err := b.cached(ctx, vipAddressTable, at, maxAge)
		if err != nil || refers == nil {
			return nil, 0, err
		}
		if row, err = b.cached(ctx, vipTable, text(refers, store.DefaultColumn), maxAge); err != nil {
			return nil, 0, err
		}
	default:
		if b.variant == Component && !forARP {
			return &vip{Pool: at}, 0, nil // the component looks it up
		}
		only := "pool"
		if forARP {
			only = "mac"
		}
		row, err = b.get(ctx, store.Op{Kind: store.Resolve, Table: vipAddressTable, Key: at, Only: []string{only}})
	}
	if err != nil || row == nil {
		return nil, 0, err
	}
	if !b.variant.whole() {
		return &vip{MAC: text(row, "mac"), Pool: text(row, "pool")}, row.Version, nil
	}
	v := new(vip)
	return v, row.Version, json.Unmarshal([]byte(text(row, store.DefaultColumn)), v)
}

// choose chooses the next member of a pool. It returns none if the component has found no virtual address.
func (b *balancer) choose(ctx context.Context, v *vip, version uint64) (m member, err error) {
	switch b.variant {
	case Component, Cached:
		r, err := b.do(ctx, store.Op{Kind: store.Run, Component: "robin", Columns: b.robin(v, version)})
		return member{text(r.Row, "address"), text(r.Row, "mac"), text(r.Row, "port")}, err
	}
	for {
		p, row, err := b.pool(ctx, v.Pool)
		if err != nil {
			return m, err
		}
		keys := strings.Split(p.Members, ",")
		p.Current = (p.Current + 1) % len(keys)
		m, err = b.replace(ctx, p, row, keys[p.Current])
		if is(err, store.Conflict) { // another one has chosen meanwhile
			continue
		}
		return m, err
	}
}

// robin returns the arguments of the component: with a cache, its virtual address; else the component looks it up.
func (b *balancer) robin(v *vip, version uint64) store.Columns {
	if b.variant == Cached {
		return columns("vip", v.Pool, "version", strconv.FormatUint(version, 10))
	}
	return columns("address", v.Pool)
}

func (b *balancer) pool(ctx context.Context, key string) (p pool, row *store.Row, err error) {
	o := store.Op{Kind: store.Get, Table: poolTable, Key: key}
	if !b.variant.whole() {
		o.Only = []string{"members", "current"}
	}
	r, err := b.do(ctx, o)
	if err != nil {
		return p, nil, err
	}
	if b.variant.whole() {
		return p, r.Row, json.Unmarshal([]byte(text(r.Row, store.DefaultColumn)), &p)
	}
	p.Members = text(r.Row, "members")
	p.Current, err = strconv.Atoi(text(r.Row, "current"))
	return p, r.Row, err
}

// replace stores a pool of which a member was chosen, if it is still as it was read, and returns the member.
func (b *balancer) replace(ctx context.Context, p pool, was *store.Row, chosen string) (m member, err error) {
	o := store.Op{Kind: store.Put, Table: poolTable, Key: was.Key, Condition: &store.Condition{Version: &was.Version}}
	switch {
	case b.variant.whole():
		value, err := json.Marshal(p)
		if err != nil {
			return m, err
		}
		o.Columns = store.Value(value)
		if b.variant != Versions {
			o.Condition = &store.Condition{Columns: was.Columns}
		}
	default:
		o.Kind, o.Columns = store.Update, columns("current", strconv.Itoa(p.Current))
	}
	row, err := b.both(ctx, o, store.Op{Kind: store.Get, Table: memberTable, Key: chosen})
	switch {
	case err != nil:
		return m, err
	case row == nil:
		return m, fmt.Errorf("there is no member %q of the pool %q", chosen, was.Key)
	case b.variant.whole():
		return m, json.Unmarshal([]byte(text(row, store.DefaultColumn)), &m)
	}
	return member{text(row, "address"), text(row, "mac"), text(row, "port")}, nil
}
