// Package onstore has the three control applications of the paper on the consistent data store (Botelho et al.,
// section VI) as clients of the store: a learning switch, a load balancer and a device manager. Each may run in
// several processes at once, and keeps all of its state in the store.
//
// Each has the variants of the paper: what the store offers replaces round trips, and bytes. They are examples, and
// what `holdfast bench store --workload` measures. Applications that run inside Holdfast are in the folder apps.
package onstore

import (
	"context"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/codec"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
	"github.com/holdfast-sdn/holdfast/openflow/packet"
	"github.com/holdfast-sdn/holdfast/store"
)

// Store executes a transaction: a client.Client.
type Store interface {
	Do(ctx context.Context, ops ...store.Op) (store.Outcome, error)
}

// Parallel is a Store that executes transactions side by side, in any order: a client.Client. Other ones get them one
// after the other.
type Parallel interface {
	Store
	Together(ctx context.Context, transactions ...[]store.Op) ([]store.Outcome, []error)
}

// Cache is a Store that keeps rows: a client.Cache.
type Cache interface {
	Store
	Get(ctx context.Context, table, key string, maxAge time.Duration) (store.Row, error)
}

// MaxAge is how old a row is at most that the variant Cached reads.
const MaxAge = time.Second

// Variant is how an application uses the store, as in table I of the paper. Each includes those before it.
type Variant string

// The variants.
const (
	Plain      Variant = "init"  // keys and values
	References Variant = "cref"  // a row is read through the one that refers to it
	Versions   Variant = "vers"  // a write is based on a version, and not on the whole old value
	Columned   Variant = "cols"  // some columns of a row
	Component  Variant = "micro" // a function beside the data
	Cached     Variant = "cache" // rows that the client keeps
)

// Packet is a packet that a switch has sent to its controllers.
type Packet struct {
	Switch openflow.DatapathID
	InPort of13.Port
	packet.Packet
}

// Reaction is what the switch is to do.
type Reaction struct {
	Out    of13.Port // where the packet goes; 0: nowhere
	MAC    of13.MAC  // that answers a request of ARP; zero: none
	Member *Member   // that gets the packets of this host to the virtual address
	Once   bool      // for this packet only: the switch asks again for the next one
}

// App is an application.
type App interface {
	// Setup makes what the application needs in the store. What is there stays.
	Setup(ctx context.Context) error
	// Handle handles a packet. It is safe for concurrent use.
	Handle(ctx context.Context, p *Packet) (Reaction, error)
}

// Names are those of the applications, with their variants.
var Names = map[string][]Variant{
	"learning": {Plain, Component, Cached},
	"balancer": {Plain, References, Versions, Columned, Component, Cached},
	"devices":  {Plain, References, Versions, Columned, Component, Cached},
}

// CachedTables are the tables that each application reads from a cache, so those of which a client.Cache is needed.
var CachedTables = map[string][]string{
	"learning": {portTable},
	"balancer": {vipAddressTable, vipTable},
	"devices":  {macTable, deviceTable},
}

// New returns an application. cache is used by the variant Cached only.
func New(name string, v Variant, s Store, cache Cache) (App, error) {
	variants, there := Names[name]
	switch {
	case !there:
		return nil, fmt.Errorf("there is no application %q: use learning, balancer or devices", name)
	case !slices.Contains(variants, v):
		return nil, fmt.Errorf("%s has no variant %q: use one of %v", name, v, variants)
	}
	b := base{store: s, cache: cache, variant: v, referred: &guesses{of: map[string]map[string]string{}}}
	switch name {
	case "learning":
		return &learning{b}, nil
	case "balancer":
		return &balancer{b}, nil
	}
	return &devices{b}, nil
}

// base is what the applications have in common.
type base struct {
	store    Store
	cache    Cache
	variant  Variant
	referred *guesses
}

// do executes one op.
func (b *base) do(ctx context.Context, o store.Op) (store.Result, error) {
	out, err := b.store.Do(ctx, o)
	if err != nil {
		return store.Result{}, err
	}
	return out.Results[0], nil
}

// get reads a row; nil if it is not there.
func (b *base) get(ctx context.Context, o store.Op) (*store.Row, error) {
	r, err := b.do(ctx, o)
	if is(err, store.NotFound) {
		return nil, nil
	}
	return r.Row, err
}

// together executes ops side by side, each as a transaction of its own, so all take one round trip. It returns a result
// for each, or the first error. What reads a row that is not there has none.
func (b *base) together(ctx context.Context, ops ...store.Op) ([]store.Result, error) {
	results := make([]store.Result, len(ops))
	take := func(i int, out store.Outcome, err error) error {
		switch {
		case err == nil:
			results[i] = out.Results[0]
		case ops[i].Kind.Writes() || !is(err, store.NotFound):
			return err
		}
		return nil
	}
	p, parallel := b.store.(Parallel)
	if !parallel || len(ops) == 1 {
		for i, o := range ops {
			out, err := b.store.Do(ctx, o)
			if err := take(i, out, err); err != nil {
				return nil, err
			}
		}
		return results, nil
	}
	transactions := make([][]store.Op, len(ops))
	for i := range ops {
		transactions[i] = ops[i : i+1]
	}
	outcomes, errs := p.Together(ctx, transactions...)
	for i := range ops {
		if err := take(i, outcomes[i], errs[i]); err != nil {
			return nil, err
		}
	}
	return results, nil
}

// cached reads a row of the cache; nil if it is not there.
func (b *base) cached(ctx context.Context, table, key string, maxAge time.Duration) (*store.Row, error) {
	row, err := b.cache.Get(ctx, table, key, maxAge)
	if is(err, store.NotFound) {
		return nil, nil
	}
	return &row, err
}

// is reports whether the store has refused a transaction for a reason.
func is(err error, code store.Code) bool {
	refused, is := errors.AsType[*store.Error](err)
	return is && refused.Code == code
}

//go:embed *.star
var sources embed.FS

// setup makes a table, or uploads a component.
func (b *base) setup(ctx context.Context, ops ...store.Op) error {
	for _, o := range ops {
		if o.Kind == store.Upload {
			source, err := sources.ReadFile(o.Component + ".star")
			if err != nil {
				return err
			}
			o.Source = string(source)
		}
		if _, err := b.do(ctx, o); err != nil && !is(err, store.Exists) {
			return fmt.Errorf("prepare the store: %w", err)
		}
	}
	return nil
}

func makeTable(name, refersTo string, columns ...string) store.Op {
	return store.Op{Kind: store.CreateTable, Table: name, Definition: &store.Definition{Columns: columns,
		RefersTo: refersTo}}
}

func upload(name string) store.Op { return store.Op{Kind: store.Upload, Component: name} }

// text returns a column of a row.
func text(r *store.Row, column string) string {
	if r == nil {
		return ""
	}
	v, _ := r.Columns.Get(column)
	return string(v)
}

// columns returns named values, given in pairs.
func columns(pairs ...string) store.Columns {
	size := 0
	for i := 1; i < len(pairs); i += 2 {
		size += len(pairs[i])
	}
	values := make([]byte, 0, size) // of all columns
	c := make(store.Columns, 0, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		from := len(values)
		values = append(values, pairs[i+1]...)
		c = append(c, store.Column{Name: pairs[i], Value: values[from:len(values):len(values)]})
	}
	return c
}

// pack returns the column of an entity that is stored whole, as CBOR. Its texts are ASCII.
func pack[T any](entity *T) store.Columns {
	b, _ := codec.Of[T]().Append(nil, entity) // texts and numbers cannot fail
	return store.Value(b)
}

// unpack decodes an entity that is stored whole.
func unpack[T any](row *store.Row, entity *T) error {
	b, _ := row.Columns.Get(store.DefaultColumn)
	if err := codec.Of[T]().Parse(b, entity); err != nil {
		if len(b) > 0 && b[0] == '{' {
			err = errors.New("it is JSON, as an older release wrote it; delete the table, so that it is made again")
		}
		return fmt.Errorf("row %q: %w", row.Key, err)
	}
	return nil
}

// macText is how an address of Ethernet stands in keys and values.
func macText(a of13.MAC) string { return hex.EncodeToString(a[:]) }

// ParseMAC reads an address of Ethernet in hexadecimal, with colons or without.
func ParseMAC(s string) (a of13.MAC, err error) {
	b, err := hex.DecodeString(strings.ReplaceAll(s, ":", ""))
	if err != nil || len(b) != len(a) {
		return a, fmt.Errorf("%q is not an address of Ethernet", s)
	}
	return of13.MAC(b), nil
}
