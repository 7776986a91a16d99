package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-sdn/holdfast/lab/bench"
	"github.com/holdfast-sdn/holdfast/lab/load"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
	"github.com/holdfast-sdn/holdfast/openflow/packet"
	"github.com/holdfast-sdn/holdfast/store"
	"github.com/holdfast-sdn/holdfast/store/client"
	"github.com/holdfast-sdn/holdfast/store/onstore"
	"github.com/holdfast-sdn/holdfast/store/rpc"
)

// switches is the load of fake switches.
type switches load.Config

func (s switches) run(ctx context.Context, on *site, each time.Duration) (float64, error) {
	s.Duration, s.Drain, s.Dial = each, 5*time.Second, load.At(on.agent)
	r, err := load.Run(ctx, load.Config(s))
	if err == nil && r.Total.Answered == 0 {
		err = errors.New("no packet was answered")
	}
	return r.PerSecond, err
}

// installs is paths, which are installed once. That takes as long as it takes.
type installs struct{ paths int }

func (i installs) run(ctx context.Context, on *site, _ time.Duration) (float64, error) {
	return bench.PathLoad{Agent: on.agent, REST: on.rest[0], Paths: i.paths}.Run(ctx)
}

// updates is callers of the store, each with a batch of updates at a time, over a stream; or if that is 0 with a unary
// call of one.
type updates struct{ callers, batch int }

const (
	namespace = "profile"
	table     = "rows"
	rows      = 100_000
)

func (u updates) run(ctx context.Context, on *site, each time.Duration) (float64, error) {
	c, err := client.New(namespace, on.rest...)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	if _, err := c.Do(ctx, store.Op{Kind: store.CreateTable, Table: table}); err != nil {
		return 0, err
	}
	alone := rpc.NewCaller(nil, on.rest[0])
	defer alone.Close()
	ctx, cancel := context.WithTimeout(ctx, each)
	defer cancel()
	var next, done atomic.Int64
	failed := make(chan error, u.callers)
	var running sync.WaitGroup
	for range u.callers {
		running.Go(func() {
			for ctx.Err() == nil {
				ops := make([][]store.Op, max(u.batch, 1))
				for i := range ops {
					ops[i] = []store.Op{{Kind: store.Put, Table: table, Key: fmt.Sprintf("row%06d", next.Add(1)%rows),
						Columns: store.Value(make([]byte, 32))}}
				}
				if err := u.call(ctx, c, alone, ops); err != nil {
					if ctx.Err() == nil {
						failed <- err
					}
					return
				}
				done.Add(int64(len(ops)))
			}
		})
	}
	running.Wait()
	select {
	case err = <-failed:
	default:
	}
	return float64(done.Load()) / each.Seconds(), err
}

// call sends one request.
func (u updates) call(ctx context.Context, c *client.Client, alone *rpc.Caller, ops [][]store.Op) error {
	if u.batch > 0 {
		_, err := c.Batch(ctx, ops...)
		return err
	}
	out, err := alone.Do(ctx, &store.Request{Namespace: namespace, Transactions: ops})
	if err == nil && out.Error != nil {
		err = out.Error
	}
	return err
}

// packets are those of hosts that a learning switch and a device manager on the store handle, so many at a time.
type packets struct{ atATime int }

// hosts is how many there are: each is new once.
const hosts = 10_000

func (p packets) run(ctx context.Context, on *site, each time.Duration) (float64, error) {
	c, err := client.New(namespace, on.rest...)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	var apps []onstore.App
	for _, name := range []string{"learning", "devices"} {
		a, err := onstore.New(name, onstore.Component, c, nil)
		if err == nil {
			err = a.Setup(ctx)
		}
		if err != nil {
			return 0, err
		}
		apps = append(apps, a)
	}
	ctx, cancel := context.WithTimeout(ctx, each)
	defer cancel()
	var next atomic.Int64
	failed := make(chan error, p.atATime)
	var running sync.WaitGroup
	for range p.atATime {
		running.Go(func() {
			for ctx.Err() == nil {
				n := int(next.Add(1))
				in := fromHost(n % hosts)
				if _, err := apps[n%len(apps)].Handle(ctx, &in); err != nil {
					if ctx.Err() == nil {
						failed <- err
					}
					return
				}
			}
		})
	}
	running.Wait()
	select {
	case err = <-failed:
	default:
	}
	return float64(next.Load()) / each.Seconds(), err
}

// fromHost returns a packet of one host to another one.
func fromHost(n int) onstore.Packet {
	mac := func(n int) of13.MAC { return of13.MAC{2, 0, 0, 0, byte(n >> 8), byte(n)} }
	ip := func(n int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, byte(n >> 8), byte(n)}) }
	to := (n + 1) % hosts
	return onstore.Packet{Switch: 1, InPort: of13.Port(n%40 + 1),
		Packet: packet.Packet{Src: mac(n), Dst: mac(to), Type: packet.IPv4, From: ip(n), To: ip(to)}}
}
