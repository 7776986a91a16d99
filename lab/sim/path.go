package sim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/apps/path"
	"github.com/holdfast-sdn/holdfast/lab/census"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/network/model"
	"github.com/holdfast-sdn/holdfast/network/node"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/packet"
)

// pathsOfRun is how many paths clients add and remove.
const pathsOfRun = 4

// pathTrial is paths between the hosts of a ring of switches. At each moment, a frame that enters by the first port of
// one meets no entry there, or arrives as it was.
type pathTrial struct {
	web
	clients []*pathClient
}

// pathClient adds and removes one path.
type pathClient struct {
	*pathTrial
	name     string
	from, to app.PortOf
	frame    []byte
	body     []byte
	step     pathStep
}

// pathStep is what a client does when the traffic has ended.
type pathStep int

const (
	busy   pathStep = iota // there is traffic
	adding                 // it adds the path
	added                  // frames are to arrive
	erased                 // no entry is to be left
)

func newPathTrial(s *simulation) trial {
	t := &pathTrial{web: web{s, path.New()}}
	for i := range pathsOfRun {
		c := &pathClient{pathTrial: t, name: "p" + strconv.Itoa(i)}
		n := uint64(s.scenario.Switches)
		from := s.w.rand.Uint64N(n)
		c.from = app.PortOf{Switch: openflow.DatapathID(1 + from), Port: census.HostPort}
		c.to = app.PortOf{Switch: openflow.DatapathID(1 + (from+1+s.w.rand.Uint64N(n-1))%n), Port: census.HostPort}
		c.frame = make([]byte, 60)
		copy(c.frame, []byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x08, 0x00, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0,
			192, 0, 2, 1, 10, 0, byte(i), 7, 0, 9, 0, 8, 0, 26, 0, 0})
		d := path.Definition{From: path.End{Switch: c.from.Switch.String(), Port: c.from.Port},
			To:    path.End{Switch: c.to.Switch.String(), Port: c.to.Port},
			Match: packet.Class{Destination: fmt.Sprintf("10.0.%d.0/24", i)}}
		c.body, _ = json.Marshal(d) // it can be
		t.clients = append(t.clients, c)
	}
	return t
}

func (t *pathTrial) applications() []*app.App { return []*app.App{t.s.wires(), node.New(), path.New()} }

func (t *pathTrial) actor() ledger.Actor { return ledger.Actor{App: path.Name} }

func (t *pathTrial) start() {
	for _, c := range t.clients {
		c.work()
	}
}

func (c *pathClient) request(method string, take func(app.Response)) {
	q := app.Request{Values: map[string]string{"name": c.name}}
	if method == http.MethodPut {
		q.Body = c.body
	}
	c.ask(method+" /paths/{name}", q, take)
}

// work adds or removes the path until the traffic ends. Then, when no request of before can come late, it adds it, and
// removes it when frames arrive.
func (c *pathClient) work() {
	if !c.s.traffic {
		c.s.w.after(callPatience, nil, c.add)
		return
	}
	method := []string{http.MethodPut, http.MethodPut, http.MethodDelete}[c.s.w.rand.IntN(3)]
	c.request(method, func(app.Response) { c.s.pause(c.work) })
}

func (c *pathClient) add() {
	c.step = adding
	c.request(http.MethodPut, func(r app.Response) {
		var v path.View
		if err := json.Unmarshal(r.Body, &v); r.Status < 300 && err != nil {
			c.s.w.fail("path %s: %s: %v", c.name, r.Body, err)
		}
		if v.State != model.Up || !c.arrives() {
			c.s.pause(c.add)
			return
		}
		c.step = added
		c.remove()
	})
}

func (c *pathClient) remove() {
	c.request(http.MethodDelete, func(r app.Response) {
		if r.Status != http.StatusNotFound {
			c.s.pause(c.remove)
			return
		}
		c.step = erased
	})
}

// arrives reports whether a frame of the path arrives.
func (c *pathClient) arrives() bool {
	p := c.s.probe(c.from, c.frame)
	return len(p.ends) == 1 && len(p.drops) == 0
}

func (t *pathTrial) look(*switchNode, []byte) {
	for _, c := range t.clients {
		c.look()
	}
}

// look fails if the path is there by half. A frame may be dropped at a switch that has lost its entries, or beside a
// cable that is cut.
func (c *pathClient) look() {
	p := c.s.probe(c.from, c.frame)
	if p.circle {
		c.s.w.fail("path %s: a frame goes round in circles", c.name)
		return
	}
	for _, n := range p.drops {
		if !n.damaged() {
			c.s.w.fail("path %s is there by half: switch %s has no entry for a frame", c.name, n.id)
		}
	}
	for _, e := range p.ends {
		if e.at != c.to || !bytes.Equal(e.frame, c.frame) || len(p.ends) > 1 {
			c.s.w.fail("path %s from %v to %v: % x leaves by %v, and % x has entered", c.name, c.from, c.to, e.frame,
				e.at, c.frame)
		}
	}
}

func (t *pathTrial) unsettled() string {
	for _, c := range t.clients {
		if c.step != erased {
			return fmt.Sprintf("path %s is in step %d of its end", c.name, c.step)
		}
	}
	for _, n := range t.s.switches {
		if left := n.entries() - 1; left != 0 { // that of wires stays
			return fmt.Sprintf("switch %s has %d entries of paths that are removed", n.id, left)
		}
	}
	return ""
}
