package onstore

import (
	"context"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
	"github.com/holdfast-sdn/holdfast/openflow/packet"
	"github.com/holdfast-sdn/holdfast/store"
)

// one is the store of one core. As a Cache, it keeps nothing.
type one struct {
	mu    sync.Mutex // guards core
	core  *ledger.Core
	calls uint64
}

func newStore(t testing.TB) *one {
	t.Helper()
	core, err := ledger.New([]ledger.Application{store.New()}, ledger.Limits{})
	if err == nil {
		err = core.Lead(1, time.Now().UnixNano())
	}
	if err != nil {
		t.Fatal(err)
	}
	return &one{core: core}
}

func (o *one) Do(_ context.Context, ops ...store.Op) (store.Outcome, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.calls++
	q, _, err := store.CallOf((&store.Request{Namespace: "n", Transactions: [][]store.Op{ops}}).Append(nil))
	if err == nil {
		err = o.core.Call(q)
	}
	if entry, ok := o.core.Cut(); ok && err == nil {
		err = o.core.Commit(entry)
	}
	if err != nil {
		return store.Outcome{}, err
	}
	var r store.Response
	switch err := r.Decode(o.core.Answers()[0].Message); {
	case err != nil:
		return store.Outcome{}, err
	case r.Error != nil:
		return store.Outcome{}, r.Error
	case r.Outcomes[0].Error != nil:
		return store.Outcome{}, r.Outcomes[0].Error
	}
	return r.Outcomes[0], nil
}

// backwards is one that executes transactions side by side, the last one first.
type backwards struct{ *one }

func (o backwards) Together(ctx context.Context, transactions ...[]store.Op) ([]store.Outcome, []error) {
	outcomes, errs := make([]store.Outcome, len(transactions)), make([]error, len(transactions))
	for i, ops := range slices.Backward(transactions) {
		outcomes[i], errs[i] = o.Do(ctx, ops...)
	}
	return outcomes, errs
}

func (o *one) Get(ctx context.Context, table, key string, _ time.Duration) (store.Row, error) {
	out, err := o.Do(ctx, store.Op{Kind: store.Get, Table: table, Key: key})
	if err != nil {
		return store.Row{}, err
	}
	return *out.Results[0].Row, nil
}

func mac(n byte) of13.MAC { return of13.MAC{2, 0, 0, 0, 0, n} }

func ip(n byte) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, n}) }

// toHost is a packet of IPv4 from one host to another one.
func toHost(from, to byte) *Packet {
	return &Packet{Switch: 1, InPort: of13.Port(from), Packet: packet.Packet{Src: mac(from), Dst: mac(to),
		Type: packet.IPv4, From: ip(from), To: ip(to)}}
}

// server serves a virtual address.
func server(n byte, port of13.Port) Member { return Member{Address: ip(n), MAC: mac(n), Port: port} }

// each runs a test with each variant of an application, and one process more that takes over.
func each(t *testing.T, name string, f func(t *testing.T, s *one, a, b App)) {
	for _, v := range Names[name] {
		t.Run(string(v), func(t *testing.T) {
			s := newStore(t)
			var apps [2]App
			for i, on := range []Store{s, backwards{s}} {
				a, err := New(name, v, on, s)
				if err == nil {
					err = a.Setup(t.Context())
				}
				if err != nil {
					t.Fatal(err)
				}
				apps[i] = a
			}
			f(t, s, apps[0], apps[1])
		})
	}
}

func handle(t *testing.T, a App, p *Packet) Reaction {
	t.Helper()
	r, err := a.Handle(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestLearning(t *testing.T) {
	each(t, "learning", func(t *testing.T, _ *one, a, b App) {
		for _, step := range []struct {
			by   App
			p    *Packet
			want of13.Port
		}{{a, toHost(1, 2), of13.PortFlood}, {a, toHost(2, 1), 1}, {b, toHost(3, 2), 2}, {a, toHost(1, 3), 3}} {
			if got := handle(t, step.by, step.p); got.Out != step.want {
				t.Errorf("from %v to %v: %v, want %v", step.p.Src, step.p.Dst, got.Out, step.want)
			}
		}
		moved := toHost(2, 1)
		moved.InPort = 9
		handle(t, b, moved)
		if got := handle(t, a, toHost(1, 2)); got.Out != 9 {
			t.Errorf("to a host that has moved: %v", got.Out)
		}
		all := toHost(1, 2)
		all.Dst = of13.MAC{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
		if got := handle(t, a, all); got.Out != of13.PortFlood {
			t.Errorf("to all: %v", got.Out)
		}
	})
}

func TestBalancer(t *testing.T) {
	each(t, "balancer", func(t *testing.T, _ *one, a, b App) {
		members := []Member{server(21, 21), server(22, 22), server(23, 23)}
		for _, by := range []App{a, b} { // the second one finds it
			if err := AddVIP(t.Context(), by, ip(100), mac(100), members); err != nil {
				t.Fatal(err)
			}
		}
		request := toHost(1, 100)
		request.ARP, request.Type = packet.ARPRequest, packet.ARP
		if got := handle(t, a, request); got.MAC != mac(100) || got.Member != nil {
			t.Errorf("a request of ARP: %+v", got)
		}
		for i := range 7 {
			by := []App{a, b}[i%2]
			if got := handle(t, by, toHost(byte(i+1), 100)); got.Member == nil || *got.Member != members[i%3] {
				t.Errorf("packet %d: %+v, want %+v", i, got.Member, members[i%3])
			}
		}
		request.To = ip(50)
		for _, p := range []*Packet{toHost(1, 50), request} {
			if got := handle(t, a, p); !reflect.DeepEqual(got, Reaction{}) {
				t.Errorf("to another host: %+v", got)
			}
		}
	})
}

// Processes that choose at the same time choose each member equally often.
func TestBalancersTogether(t *testing.T) {
	each(t, "balancer", func(t *testing.T, _ *one, a, b App) {
		members := []Member{server(21, 21), server(22, 22)}
		if err := AddVIP(t.Context(), a, ip(100), mac(100), members); err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex // guards chosen
		chosen := map[of13.Port]int{}
		var running sync.WaitGroup
		for i, by := range []App{a, b, a, b} {
			running.Go(func() {
				for range 10 {
					r, err := by.Handle(context.Background(), toHost(byte(i), 100))
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					chosen[r.Member.Port]++
					mu.Unlock()
				}
			})
		}
		running.Wait()
		if chosen[21] != 20 || chosen[22] != 20 {
			t.Errorf("chosen: %v", chosen)
		}
	})
}

func TestDevices(t *testing.T) {
	each(t, "devices", func(t *testing.T, s *one, a, b App) {
		silent := toHost(1, 2)
		silent.From, silent.To, silent.Type = netip.Addr{}, netip.Addr{}, 0x86dd
		handle(t, a, silent) // its address of IPv4 is not known yet
		var running sync.WaitGroup
		for i := range 12 {
			running.Go(func() {
				if _, err := []App{a, b}[i%2].Handle(context.Background(), toHost(byte(i%3+1), byte(i%2+1))); err != nil {
					t.Error(err)
				}
			})
		}
		running.Wait()
		handle(t, b, silent) // it is not forgotten
		out, err := s.Do(t.Context(), store.Op{Kind: store.List, Table: deviceTable})
		if err != nil {
			t.Fatal(err)
		}
		if len(out.Results[0].Rows) != 3 {
			t.Errorf("3 hosts are %d devices: %+v", len(out.Results[0].Rows), out.Results[0].Rows)
		}
		for n := byte(1); n <= 3; n++ {
			refers, err := s.Get(t.Context(), ipTable, ip(n).String(), 0)
			if err != nil {
				t.Errorf("address %v: %v", ip(n), err)
				continue
			}
			row, err := s.Get(t.Context(), deviceTable, text(&refers, store.DefaultColumn), 0)
			if got := fmt.Sprint(row); err != nil || len(row.Columns) == 0 {
				t.Errorf("the device of %v is %s, %v", ip(n), got, err)
			}
		}
	})
}

// A host that has two addresses, and tells now one and now the other, is listed once for each.
func TestTwoAddresses(t *testing.T) {
	each(t, "devices", func(t *testing.T, s *one, a, _ App) {
		for i := range byte(6) {
			p := toHost(1, 2)
			p.From = ip(10 + i%2)
			handle(t, a, p)
		}
		row, err := s.Get(t.Context(), ipTable, ip(10).String(), 0)
		if err != nil {
			t.Fatal(err)
		}
		if list := text(&row, store.DefaultColumn); strings.Contains(list, ",") {
			t.Errorf("one host has the address, and the list is %s", list)
		}
	})
}

// An entry to a host ends although it is used, so that a host that has moved is found.
func TestEntriesEnd(t *testing.T) {
	p := toHost(1, 2)
	first, _, err := openflow.Next(Reaction{Out: 2}.messages(nil, p, &of13.PacketIn{}))
	if err != nil {
		t.Fatal(err)
	}
	m, err := of13.Decode(first)
	if f, is := m.(*of13.FlowMod); err != nil || !is || f.HardTimeout == 0 {
		t.Errorf("%v, %v", m, err)
	}
}

func TestNewRefuses(t *testing.T) {
	for _, c := range []struct{ name, variant string }{{"nothing", "init"}, {"learning", "cols"}} {
		if _, err := New(c.name, Variant(c.variant), nil, nil); err == nil {
			t.Errorf("%v: no error", c)
		}
	}
}
