package app_test

import (
	"maps"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/app/apptest"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
	"pgregory.net/rapid"
)

// parts makes bounds small: 4 addresses at a port, and 16 in all.
const parts = app.SourcesPerPort / 4

// crowded is an application that has sources of one key, and tells what See did.
type crowded struct {
	t       testing.TB
	net     *apptest.Net
	sources app.Sources[app.Switch]
	seen    app.Sighting
}

func newCrowded(t testing.TB) *crowded {
	a := app.New("crowded")
	c := &crowded{t: t, sources: app.NewSources[app.Switch](a, "sources", parts)}
	app.Handle(a, func(in app.PacketIn) app.Cells { return c.sources.Cells(in.Switch) },
		func(tx *app.Tx, in app.PacketIn) error {
			c.seen = c.sources.See(tx, in.Switch, in.EthSrc(), at(in.InPort))
			if where, known := c.sources.Where(tx, in.Switch, in.EthSrc()); known != c.seen.Learned ||
				known && where != at(in.InPort) {
				t.Errorf("%+v, and then it is at %v, %v", c.seen, where, known)
			}
			return nil
		})
	app.Handle(a, func(s app.PortStatus) app.Cells { return c.sources.Cells(s.Switch) },
		func(tx *app.Tx, s app.PortStatus) error {
			c.sources.ForgetPort(tx, s.Switch, at(s.Port.Port))
			return nil
		})
	c.net = apptest.New(t, a)
	c.net.SwitchUp(1)
	return c
}

func at(p app.Port) app.PortOf { return app.PortOf{Switch: 1, Port: p} }

func address(n int) app.MAC { return app.MAC{2, 0, 0, byte(n >> 16), byte(n >> 8), byte(n)} }

func (c *crowded) see(n int, port app.Port) app.Sighting {
	h := address(n)
	c.net.PacketIn(1, port, of13.NoBuffer, "\xff\xff\xff\xff\xff\xff"+string(h[:])+"\x08\x00")
	return c.seen
}

func (c *crowded) portDown(port app.Port) {
	c.net.Message(1, &of13.PortStatus{Reason: of13.PortDelete, Port: of13.PortDesc{Port: port}}, 0)
}

// rows returns the number of addresses, and of counts.
func (c *crowded) rows() (hosts, counts int) {
	for _, r := range c.net.Rows("crowded") {
		if r.Table == "sources" {
			hosts++
		} else {
			counts++
		}
	}
	return hosts, counts
}

// Whatever hosts and ports do, bounds hold, and each address is where a model has it.
func TestSources(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := newCrowded(t)
		model := map[int]app.Port{}
		seen := map[int]time.Duration{}
		now, searched := time.Duration(0), map[app.Port]time.Duration{} // 0: at all ports
		perPort := func() map[app.Port]int {
			n := map[app.Port]int{}
			for _, p := range model {
				n[p]++
			}
			return n
		}
		for range rapid.IntRange(1, 150).Draw(rt, "steps") {
			switch rapid.IntRange(0, 19).Draw(rt, "what") {
			case 0:
				p := app.Port(rapid.IntRange(1, 6).Draw(rt, "port"))
				c.portDown(p)
				maps.DeleteFunc(model, func(_ int, at app.Port) bool { return at == p })
				delete(searched, p)
			case 1:
				d := time.Duration(rapid.IntRange(1, 70).Draw(rt, "minutes")) * time.Minute
				c.net.Advance(d)
				now += d
			default:
				h, p := rapid.IntRange(1, 40).Draw(rt, "host"), app.Port(rapid.IntRange(1, 6).Draw(rt, "port"))
				was, known := model[h]
				by := app.Port(0)
				if n := perPort()[p]; n == 4 {
					by = p
				}
				s := c.see(h, p)
				if s.Known != known || known && s.Was != at(was) {
					rt.Fatalf("host %d: %+v, and it was at %d, %v", h, s, was, known)
				}
				for _, gone := range s.Forgotten {
					g := int(gone[4])<<8 | int(gone[5])
					last, before := searched[by]
					if of, there := model[g]; !there || now-seen[g] <= app.SourceAge || before && now-last < time.Minute ||
						by > 0 && of != by {
						rt.Fatalf("host %d of port %d is forgotten, last seen %v ago, after %v at %d", g, of,
							now-seen[g], last, by)
					}
					delete(model, g)
				}
				if len(s.Forgotten) > 0 {
					searched[by] = now
				}
				n := perPort()
				if delete(model, h); s.Learned {
					model[h], seen[h] = p, now
				} else if n[p] < 2 || known && was == p {
					rt.Fatalf("host %d is refused at port %d, which has %d of %v", h, p, n[p], n)
				}
			}
			n := perPort()
			for p, count := range n {
				if count > 4 {
					rt.Fatalf("%d addresses at port %d", count, p)
				}
			}
			counts := len(n)
			if counts > 0 {
				counts++
			}
			hosts, rows := c.rows()
			if hosts != len(model) || rows != counts && rows != counts+1 || hosts >= 32 {
				rt.Fatalf("%d addresses, %d counts, want %d and %d", hosts, rows, len(model), counts)
			}
		}
	})
}

// A host that fills its port, and one with many ports that fills what there is, take no place of others.
func TestSourcesShares(t *testing.T) {
	c := newCrowded(t)
	for i := range 10 {
		if s := c.see(i, 1); s.Learned != (i < 4) {
			t.Errorf("address %d at one port: %+v", i, s)
		}
	}
	for p := range app.Port(5) {
		for i := range 5 {
			c.see(100*int(p+1)+i, p+1)
		}
	}
	if hosts, _ := c.rows(); hosts != 16+3 {
		t.Errorf("%d addresses, want 16 of four ports, and 3 of the last one, its share of 16", hosts)
	}
	for p := range app.Port(5) {
		c.portDown(p + 1) // and gives back its places, so that there are more than shares again
	}
	for i := range 12 {
		if s := c.see(i, app.Port(1+min(i/2, 4))); !s.Learned {
			t.Errorf("address %d of 12: %+v", i, s)
		}
	}
}

// A host that fills its port takes no place of a silent one at another port.
func TestFullPortForgetsItsOwn(t *testing.T) {
	c := newCrowded(t)
	c.see(1, 1)
	c.net.Advance(2 * app.SourceAge)
	for n := range 5 {
		c.see(100+n, 2)
	}
	if s := c.see(1, 1); !s.Known {
		t.Error("the host at port 1 was forgotten because port 2 is full")
	}
}

// Addresses that were not seen for long give their places to others, but those that nobody needs stay.
func TestSourcesAge(t *testing.T) {
	c := newCrowded(t)
	for i := range 4 {
		c.see(i, 1)
	}
	c.net.Advance(app.SourceAge - 2*time.Minute)
	c.see(3, 1)
	if s := c.see(4, 1); s.Learned {
		t.Errorf("learned before another is old: %+v", s)
	}
	c.net.Advance(5 * time.Minute)
	if hosts, _ := c.rows(); hosts != 4 {
		t.Errorf("%d addresses, want 4: nobody needs a place", hosts)
	}
	if s := c.see(4, 1); !s.Learned || len(s.Forgotten) != 3 {
		t.Errorf("address 4: %+v, want the three that are old to be forgotten", s)
	}
}
