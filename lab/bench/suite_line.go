package bench

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/holdfast-sdn/holdfast/apps/path"
	"github.com/holdfast-sdn/holdfast/lab/cluster"
	"github.com/holdfast-sdn/holdfast/lab/load"
	"github.com/holdfast-sdn/holdfast/network/model"
	"github.com/holdfast-sdn/holdfast/network/monitor"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
	"github.com/holdfast-sdn/holdfast/openflow/packet"
)

const (
	lineSwitches = 16
	// lineLeft and lineRight join a switch to its neighbours; hosts are at lineFrom and lineTo.
	lineFrom, lineTo, lineLeft, lineRight = of13.Port(1), of13.Port(2), of13.Port(3), of13.Port(4)
	// maxLinePaths is that each link has a tag for each path. The paths of single come besides.
	maxLinePaths      = 16_000
	linePathsTogether = model.MaxPaths
	lineClients       = 4
	linePoll          = 10 * time.Millisecond
	lineTimeout       = 60 * time.Second
)

// line is fake switches one after the other, with hosts.
type line struct {
	ends    []*load.Endpoint
	client  *webClient
	users   users
	began   time.Time
	rising  [lineSwitches]atomic.Int64 // since when the counters of a port rise, in ns after began; 0: they do not
	entered atomic.Int64               // paths whose first switch has its entry
	target  atomic.Int64               // of entered
	reached chan struct{}              // it is
}

// newLine connects the switches to an agent, and waits until a path can cross all of them.
func newLine(ctx context.Context, agent string, at *cluster.Controller) (l *line, err error) {
	l = &line{client: newWebClient(lineSwitches), began: time.Now(), reached: make(chan struct{}, 1)}
	defer func() {
		if err != nil {
			l.close()
		}
	}()
	l.ends = make([]*load.Endpoint, lineSwitches)
	up := make([]atomic.Pointer[load.Endpoint], lineSwitches)
	for i := range l.ends {
		conn, err := load.At(agent)(ctx, i)
		if err != nil {
			return l, err
		}
		l.ends[i] = load.Connect(conn, openflow.DatapathID(i+1), load.Taps{FlowMod: l.installed,
			PacketOut: func(m *of13.PacketOut) { forward(up, i, m) },
			PortStats: func() of13.List[of13.PortStats] { return l.counters(i) }})
		up[i].Store(l.ends[i])
	}
	probe := lineDefinition(0, lineSwitches-1, 2*maxLinePaths) // no other path has its number
	for began := time.Now(); ; {
		err = l.install(ctx, at, "probe", probe)
		if err == nil || ctx.Err() != nil || time.Since(began) > lineTimeout {
			return l, err
		}
		time.Sleep(linePoll) // until the links are found, it is refused
	}
}

func (l *line) close() {
	for _, e := range l.ends {
		if e != nil {
			e.Close()
		}
	}
	l.client.close()
}

// forward takes a packet that switch i is to send out to the switch at the other end of a link, if that is connected.
func forward(up []atomic.Pointer[load.Endpoint], i int, m *of13.PacketOut) {
	for a := range m.Actions.All() {
		to, port := i+1, lineLeft
		if a.Type != of13.ActionOutput || a.Port != lineLeft && a.Port != lineRight {
			continue
		}
		if a.Port == lineLeft {
			to, port = i-1, lineRight
		}
		if to >= 0 && to < len(up) {
			if e := up[to].Load(); e != nil {
				_ = e.PacketIn(port, m.Data) // Err tells
			}
		}
	}
}

// installed counts the entries at the beginnings of paths, which are installed last.
func (l *line) installed(m *of13.FlowMod) {
	if m.Command != of13.FlowAdd || m.Priority != model.DefaultPriority {
		return
	}
	if port, _ := m.Match.InPort(); port == lineFrom && l.entered.Add(1) == l.target.Load() {
		l.reached <- struct{}{}
	}
}

// wait waits until so many more paths have entered than had when ask is called.
func (l *line) wait(ctx context.Context, paths int, ask func() error) error {
	l.target.Store(l.entered.Load() + int64(paths))
	if err := ask(); err != nil {
		return err
	}
	select {
	case <-l.reached:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(lineTimeout):
	}
	errs := []error{fmt.Errorf("%d of %d paths are installed", int64(paths)+l.entered.Load()-l.target.Load(), paths)}
	for _, e := range l.ends {
		errs = append(errs, e.Err())
	}
	return errors.Join(errs...)
}

// lineDefinition is a path between two switches, number n.
func lineDefinition(from, to, n int) path.Definition {
	var address [4]byte
	binary.BigEndian.PutUint32(address[:], 10<<24+uint32(n))
	return path.Definition{From: path.End{Switch: openflow.DatapathID(from + 1).String(), Port: lineFrom},
		To:    path.End{Switch: openflow.DatapathID(to + 1).String(), Port: lineTo},
		Match: packet.Class{Destination: fmt.Sprintf("%d.%d.%d.%d", address[0], address[1], address[2], address[3])}}
}

// short is number n of the paths over two or three switches.
func short(n int) path.Definition {
	from := n % (lineSwitches - 2)
	return lineDefinition(from, from+1+n/3%2, n)
}

func (l *line) put(ctx context.Context, at *cluster.Controller, to string, value any) error {
	body, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return l.putBody(ctx, at, to, body)
}

func (l *line) putBody(ctx context.Context, at *cluster.Controller, to string, body []byte) error {
	answer, err := l.client.repeat(ctx, at, "PUT", "/apps/"+path.Name+"/"+to, body)
	if err == nil && bytes.Contains(answer, []byte(model.Refused)) {
		err = fmt.Errorf("a path is refused: %.300s", answer)
	}
	return err
}

// install installs a path, and waits until it is up.
func (l *line) install(ctx context.Context, at *cluster.Controller, name string, d path.Definition) error {
	return l.wait(ctx, 1, func() error { return l.put(ctx, at, "paths/"+name, d) })
}

// single installs paths one at a time.
func (l *line) single(ctx context.Context, at *cluster.Controller, _ int) (map[string]float64, error) {
	const warmup, measured = 20, 200
	var took []float64
	for i := range warmup + measured {
		began := time.Now()
		if err := l.install(ctx, at, fmt.Sprint("single", i), short(maxLinePaths+i)); err != nil {
			return nil, fmt.Errorf("path %d: %w", i, err)
		}
		if i >= warmup {
			took = append(took, float64(time.Since(began))/1e6)
		}
	}
	return map[string]float64{"path_install_ms_p50": quantile(took, 0.5),
		"path_install_ms_p99": quantile(took, 0.99)}, nil
}

// many installs paths as fast as possible.
func (l *line) many(ctx context.Context, at *cluster.Controller, paths int) (map[string]float64, error) {
	var bodies [][]byte // are made before, as is usual for what only loads
	for first := 0; first < paths; first += linePathsTogether {
		all := map[string]path.Definition{}
		for n := first; n < min(first+linePathsTogether, paths); n++ {
			all[fmt.Sprint("many", n)] = short(n)
		}
		body, err := json.Marshal(all)
		if err != nil {
			return nil, err
		}
		bodies = append(bodies, body)
	}
	began, used := time.Now(), l.users.used()
	err := l.wait(ctx, paths, func() error {
		return together(lineClients, func(client int) error {
			for i := client; i < len(bodies); i += lineClients {
				if err := l.putBody(ctx, at, "paths", bodies[i]); err != nil {
					return err
				}
			}
			return nil
		})
	})
	f := map[string]float64{"path_installs_per_s": float64(paths) / time.Since(began).Seconds()}
	for who, t := range l.users.since(used) {
		f[who+"_us_per_path"] = micros(t) / float64(paths)
		f["us_per_path"] += f[who+"_us_per_path"]
	}
	return f, err
}

// counters are those of the port of the hosts that send.
func (l *line) counters(i int) (list of13.List[of13.PortStats]) {
	const perNano = 1 // GB/s
	now := time.Since(l.began)
	s := of13.PortStats{Port: lineFrom, Duration: of13.Duration{Sec: uint32(now / time.Second),
		Nsec: uint32(now % time.Second)}}
	if since := l.rising[i].Load(); since > 0 {
		s.RxBytes = uint64(int64(now)-since) * perNano
	}
	return list.With(s)
}

// triggers has the counters of each switch rise, one after the other, and waits until it fires.
func (l *line) triggers(ctx context.Context, at *cluster.Controller, _ int) (map[string]float64, error) {
	name := func(i int) string { return fmt.Sprintf("/apps/%s/%v", monitor.Name, openflow.DatapathID(i+1)) }
	for i := range lineSwitches {
		trigger := []byte(`{"of": "ports", "port": 1, "measure": "bandwidth", "above": 1000000}`)
		if _, err := l.client.repeat(ctx, at, "PUT", name(i)+"/bench", trigger); err != nil {
			return nil, err
		}
	}
	took := make([]float64, lineSwitches)
	err := together(lineSwitches, func(i int) error {
		time.Sleep(3*time.Second + time.Duration(i)*100*time.Millisecond) // polled twice, at any time between two polls
		l.rising[i].Store(int64(time.Since(l.began)))
		for rose := time.Now(); ; time.Sleep(linePoll) {
			answer, err := l.client.repeat(ctx, at, "GET", name(i), nil)
			var list []monitor.Status
			if err == nil {
				err = json.Unmarshal(answer, &list)
			}
			switch {
			case err != nil:
				return err
			case len(list) == 1 && len(list[0].Raised) == 1:
				took[i] = float64(time.Since(rose)) / 1e6
				return nil
			case time.Since(rose) > lineTimeout:
				return fmt.Errorf("the trigger of switch %d has not fired: %s", i+1, answer)
			}
		}
	})
	return map[string]float64{"trigger_ms_p50": quantile(took, 0.5)}, err
}

// PathLoad installs paths, over two or three switches of sixteen, in a cluster that runs already. It is for profiles.
type PathLoad struct {
	Agent, REST string // addresses
	Paths       int
}

// Run returns how many paths were installed in a second.
func (p PathLoad) Run(ctx context.Context) (perSecond float64, err error) {
	at := &cluster.Controller{Name: p.REST, REST: p.REST}
	l, err := newLine(ctx, p.Agent, at)
	if err != nil {
		return 0, err
	}
	defer l.close()
	f, err := l.many(ctx, at, p.Paths)
	return f["path_installs_per_s"], err
}
