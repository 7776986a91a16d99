package onstore

import (
	"context"
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

// The tables of the balancer. The variants before Columned have whole entities in DefaultColumn, as CBOR.
const (
	vipAddressTable = "vip_addresses" // address → key of vipTable
	vipTable        = "vips"
	poolTable       = "pools"
	memberTable     = "members"
)

// vip is a virtual address.
type vip struct {
	Name     string `cbor:"name"`
	MAC      string `cbor:"mac"`
	Protocol string `cbor:"protocol"`
	Port     string `cbor:"port"`
	Pool     string `cbor:"pool"`
}

// pool is who serves virtual addresses.
type pool struct {
	Name    string `cbor:"name"`
	Method  string `cbor:"method"`
	Members string `cbor:"members"` // their keys, separated by commas
	Current int    `cbor:"current"` // the one that was chosen last
}

// member is a Member as it is stored.
type member struct {
	Address string `cbor:"address"`
	MAC     string `cbor:"mac"`
	Port    string `cbor:"port"`
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
	put := func(table, key string, whole, fields store.Columns) {
		if b.variant.whole() {
			fields = whole
		}
		ops = append(ops, store.Op{Kind: store.Create, Table: table, Key: key, Columns: fields})
	}
	for i, m := range members {
		key, e := fmt.Sprint(id, "-", i), member{m.Address.String(), macText(m.MAC), fmt.Sprint(uint32(m.Port))}
		put(memberTable, key, pack(&e), columns("address", e.Address, "mac", e.MAC, "port", e.Port))
		keys = append(keys, key)
	}
	p := pool{"pool of " + at.String(), "round robin", strings.Join(keys, ","), len(keys) - 1}
	v := vip{"virtual address " + at.String(), macText(mac), "any", "any", id}
	put(poolTable, id, pack(&p), columns("name", p.Name, "method", p.Method, "members", p.Members, "current",
		strconv.Itoa(p.Current)))
	put(vipTable, id, pack(&v), columns("name", v.Name, "mac", v.MAC, "protocol", v.Protocol, "port", v.Port, "pool",
		v.Pool))
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
	at := p.To.String()
	if p.ARP != 0 {
		mac, err := b.mac(ctx, at)
		if err != nil || mac == "" {
			return Reaction{}, err
		}
		parsed, err := ParseMAC(mac)
		return Reaction{MAC: parsed}, err
	}
	m, err := b.choose(ctx, at)
	if err != nil || m == (member{}) {
		return Reaction{}, err
	}
	chosen, err := m.parse()
	return Reaction{Member: chosen}, err
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

// mac returns the address of Ethernet of a virtual address; "" if it is none.
func (b *balancer) mac(ctx context.Context, at string) (string, error) {
	var row *store.Row
	if b.variant == Cached {
		var err error
		if row, err = b.cachedVIP(ctx, at, MaxAge); err != nil {
			return "", err
		}
	} else {
		walks, err := b.follow(ctx, b.toVIP(at, "mac"))
		if err != nil {
			return "", err
		}
		row = walks[0].row()
	}
	if row == nil || !b.variant.whole() {
		return text(row, "mac"), nil
	}
	v, err := parseVIP(row)
	return v.MAC, err
}

// toVIP are the reads of a virtual address, or of one of its columns.
func (b *balancer) toVIP(at, only string) []step {
	resolve := store.Op{Kind: store.Resolve, Table: vipAddressTable, Key: at}
	switch {
	case b.variant == Plain:
		resolve.Kind = store.Get
		refers := func(row *store.Row) (string, error) { return text(row, store.DefaultColumn), nil }
		return []step{{Op: resolve}, {store.Op{Kind: store.Get, Table: vipTable}, refers}}
	case !b.variant.whole():
		resolve.Only = []string{only}
	}
	return []step{{Op: resolve}}
}

func parseVIP(row *store.Row) (v vip, err error) {
	err = unpack(row, &v)
	return v, err
}

// cachedVIP returns a virtual address of the cache; nil if it is none.
func (b *balancer) cachedVIP(ctx context.Context, at string, maxAge time.Duration) (*store.Row, error) {
	refers, err := b.cached(ctx, vipAddressTable, at, maxAge)
	if err != nil || refers == nil {
		return nil, err
	}
	return b.cached(ctx, vipTable, text(refers, store.DefaultColumn), maxAge)
}

// choose chooses the next member of the pool of a virtual address; none if it is none.
func (b *balancer) choose(ctx context.Context, at string) (m member, err error) {
	switch b.variant {
	case Component:
		return b.robin(ctx, columns("address", at))
	case Cached:
		return b.chooseCached(ctx, at)
	}
	poolOf := func(row *store.Row) (string, error) {
		if !b.variant.whole() {
			return text(row, "pool"), nil
		}
		v, err := parseVIP(row)
		return v.Pool, err
	}
	read := store.Op{Kind: store.Get, Table: poolTable}
	if !b.variant.whole() {
		read.Only = []string{"members", "current"}
	}
	chain := append(b.toVIP(at, "pool"), step{read, poolOf})
	for {
		walks, err := b.follow(ctx, chain)
		if err != nil {
			return m, err
		}
		row := walks[0].row()
		switch {
		case row == nil && len(walks[0].rows) == len(chain):
			return m, fmt.Errorf("the virtual address %s has no pool", at)
		case row == nil:
			return m, nil
		}
		m, err = b.next(ctx, row)
		if !is(err, store.Conflict) { // else another one has chosen meanwhile
			return m, err
		}
	}
}

// chooseCached chooses by the component, which is given the virtual address of the cache. It refuses one that is old.
func (b *balancer) chooseCached(ctx context.Context, at string) (member, error) {
	for maxAge := MaxAge; ; maxAge = 0 {
		row, err := b.cachedVIP(ctx, at, maxAge)
		if err != nil || row == nil {
			return member{}, err
		}
		m, err := b.robin(ctx, columns("vip", text(row, "pool"), "version", strconv.FormatUint(row.Version, 10)))
		if !is(err, store.Conflict) {
			return m, err
		}
	}
}

// robin has the component choose a member.
func (b *balancer) robin(ctx context.Context, args store.Columns) (member, error) {
	r, err := b.do(ctx, store.Op{Kind: store.Run, Component: "robin", Columns: args})
	return member{text(r.Row, "address"), text(r.Row, "mac"), text(r.Row, "port")}, err
}

// next chooses the next member of a pool.
func (b *balancer) next(ctx context.Context, row *store.Row) (m member, err error) {
	var p pool
	if b.variant.whole() {
		err = unpack(row, &p)
	} else {
		p.Members = text(row, "members")
		p.Current, err = strconv.Atoi(text(row, "current"))
	}
	if err != nil {
		return m, err
	}
	keys := strings.Split(p.Members, ",")
	p.Current = (p.Current + 1) % len(keys)
	return b.replace(ctx, p, row, keys[p.Current])
}

// replace stores a pool of which a member was chosen, if it is still as it was read, and returns the member.
func (b *balancer) replace(ctx context.Context, p pool, was *store.Row, chosen string) (m member, err error) {
	o := store.Op{Kind: store.Put, Table: poolTable, Key: was.Key, Condition: &store.Condition{Version: &was.Version}}
	switch {
	case b.variant.whole():
		o.Columns = pack(&p)
		if b.variant != Versions {
			o.Condition = &store.Condition{Columns: was.Columns}
		}
	default:
		o.Kind, o.Columns = store.Update, columns("current", strconv.Itoa(p.Current))
	}
	results, err := b.together(ctx, o, store.Op{Kind: store.Get, Table: memberTable, Key: chosen})
	if err != nil {
		return m, err
	}
	row := results[1].Row
	switch {
	case row == nil:
		return m, fmt.Errorf("there is no member %q of the pool %q", chosen, was.Key)
	case b.variant.whole():
		err = unpack(row, &m)
		return m, err
	}
	return member{text(row, "address"), text(row, "mac"), text(row, "port")}, nil
}
