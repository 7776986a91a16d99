package path

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/network/model"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
	"github.com/holdfast-sdn/holdfast/openflow/packet"
)

// Definition is a path in JSON.
type Definition struct {
	From     End          `json:"from"`
	To       End          `json:"to"`
	Match    packet.Class `json:"match"`
	Priority uint16       `json:"priority,omitempty"`
	Avoid    []string     `json:"avoid,omitempty"`    // switches
	MaxHops  int          `json:"max_hops,omitempty"` // switches
	Backup   bool         `json:"backup,omitempty"`   // frames take another route while a link is down
}

// End is a port in JSON.
type End struct {
	Switch string   `json:"switch"`
	Port   app.Port `json:"port"`
}

// View is what is known about a path.
type View struct {
	Name string `json:"name"`
	Definition
	State model.State `json:"state"`
	Why   string      `json:"why,omitempty"`  // it is refused, broken or bare
	Route []Step      `json:"route"`          // that frames take
	Next  []Step      `json:"next,omitempty"` // that is being installed
	// Backup is the way of frames that meet a link of Route which is down: back from there to the first switch, and on
	// another way to the last one.
	Backup []Step `json:"backup_route,omitempty"`
	// Number is the lower half of the cookies of its entries, for who looks at a switch.
	Number uint64 `json:"number"`
}

// Step is a switch on a route.
type Step struct {
	Switch string   `json:"switch"`
	In     app.Port `json:"in"`
	Out    app.Port `json:"out"`
	Tag    uint16   `json:"tag,omitempty"` // the VLAN id of frames that leave here
}

// maxViews bounds the paths of an answer, and maxViewBytes what they take: an answer has at most 1 MiB.
const maxViews, maxViewBytes = 1000, 900 << 10

func (m *manager) serve(a *app.App) {
	route := func(pattern string, run func(*visit, app.Request) (app.Response, error)) {
		app.HandleHTTP(a, pattern, needs[app.Request](m), func(tx *app.Tx, r app.Request) (app.Response, error) {
			v := m.begin(tx)
			answer, err := run(v, r)
			if err == nil {
				err = v.end()
			}
			return answer, err
		})
	}
	route("PUT /paths/{name}", (*visit).put)
	route("GET /paths/{name}", (*visit).get)
	route("DELETE /paths/{name}", (*visit).delete)
	route("GET /paths", (*visit).list)
	route("PUT /paths", (*visit).putAll)
}

// put answers before the switches have confirmed: the state says when they have.
func (v *visit) put(r app.Request) (app.Response, error) {
	var d Definition
	if err := app.ReadJSON(r, &d); err != nil {
		return app.BadRequest(err)
	}
	p, err := d.path(r.Values["name"])
	if err != nil {
		return app.BadRequest(err)
	}
	if err := valid(&p); err != nil {
		return app.BadRequest(err)
	}
	if _, err := v.add(&p); err != nil {
		return app.Response{Status: http.StatusConflict, Body: fmt.Appendln(nil, err)}, nil
	}
	return v.get(r)
}

// State is what a path is, for one of many.
type State struct {
	State model.State `json:"state"`
	Why   string      `json:"why,omitempty"`
}

// putAll is put for many paths. Definitions that are not valid are refused as a whole, with the name of one of them.
func (v *visit) putAll(r app.Request) (app.Response, error) {
	all, err := readAll(r)
	if err != nil {
		return app.BadRequest(err)
	}
	if len(all) > model.MaxPaths {
		return app.BadRequest(fmt.Errorf("%d paths: put at most %d together", len(all), model.MaxPaths))
	}
	list := make([]model.Path, len(all))
	for i := range all {
		p := &list[i]
		if *p, err = all[i].path(all[i].name); err == nil {
			err = valid(p)
		}
		if err != nil {
			return app.BadRequest(fmt.Errorf("path %.40q: %w", p.Name, err))
		}
	}
	states := make([]State, len(list))
	for i := range list {
		if r, err := v.add(&list[i]); err != nil {
			states[i] = State{State: model.Refused, Why: err.Error()}
		} else {
			states[i] = State{State: r.state(), Why: r.reason()}
		}
	}
	return answerAll(list, states)
}

func (v *visit) get(r app.Request) (app.Response, error) {
	id, there := v.names.Get(v.tx, all, r.Values["name"])
	if !there {
		return app.JSON(nil, false)
	}
	return app.JSON(v.view(id), true)
}

func (v *visit) delete(r app.Request) (app.Response, error) {
	if !v.remove(r.Values["name"]) {
		return app.JSON(nil, false)
	}
	if answer, err := v.get(r); answer.Status != http.StatusNotFound {
		return answer, err
	}
	return app.Response{Status: http.StatusNoContent}, nil
}

func (v *visit) list(r app.Request) (app.Response, error) {
	after, list, size := r.Query.Get("after"), []json.RawMessage{}, 0
	for name, id := range v.names.All(v.tx, all) {
		if name <= after {
			continue
		}
		view, err := json.Marshal(v.view(id))
		if err != nil {
			return app.Response{}, err
		}
		if size += len(view) + 1; len(list) == maxViews || size > maxViewBytes {
			break
		}
		list = append(list, view)
	}
	return app.JSON(list, true)
}

func (d *Definition) path(name string) (p model.Path, err error) {
	p = model.Path{Name: name, Class: d.Match, Priority: d.Priority, MaxHops: d.MaxHops, Backup: d.Backup}
	for _, end := range []struct {
		from End
		to   *app.PortOf
	}{{d.From, &p.From}, {d.To, &p.To}} {
		end.to.Port = end.from.Port
		if end.to.Switch, err = openflow.ParseDatapathID(end.from.Switch); err != nil {
			return p, err
		}
	}
	for _, text := range d.Avoid {
		id, err := openflow.ParseDatapathID(text)
		if err != nil {
			return p, err
		}
		p.Avoid = append(p.Avoid, id)
	}
	return p, nil
}

func (v *visit) view(id uint64) View {
	r, _ := v.load(id)
	p := &r.Path
	d := Definition{From: End{p.From.Switch.String(), p.From.Port}, To: End{p.To.Switch.String(), p.To.Port},
		Match: p.Class, Priority: p.Priority, MaxHops: p.MaxHops, Backup: p.Backup}
	for _, s := range p.Avoid {
		d.Avoid = append(d.Avoid, s.String())
	}
	view := View{Name: p.Name, Definition: d, State: r.state(), Why: r.reason(), Number: id, Route: []Step{}}
	if live := r.Live; live != nil {
		view.Route, view.Backup = steps(live.Hops, live.Tag), steps(live.Backup, live.BackupTag)
	}
	if r.Next != nil {
		view.Next = steps(r.Next.Hops, r.Next.Tag)
	}
	return view
}

// steps are hops whose frames have a tag until they leave the last one.
func steps(hops []hop, tag uint16) (list []Step) {
	for i, h := range hops {
		s := Step{Switch: h.Switch.String(), In: h.In, Out: h.Out, Tag: tag}
		if i == len(hops)-1 {
			s.Tag = 0
		}
		list = append(list, s)
	}
	return list
}

// maxName and maxAvoid bound the size of a row.
const maxName, maxAvoid = 128, 64

// valid says what is wrong with a path, whatever the network is.
func valid(p *model.Path) error {
	switch {
	case p.Name == "" || len(p.Name) > maxName:
		return fmt.Errorf("path %.40q: use a name of 1 to %d bytes", p.Name, maxName)
	case p.From == p.To:
		return fmt.Errorf("path %s ends at port %d of switch %v, where it begins: use two ports", p.Name, p.From.Port,
			p.From.Switch)
	case len(p.Avoid) > maxAvoid:
		return fmt.Errorf("path %s: at most %d switches can be avoided", p.Name, maxAvoid)
	case p.MaxHops < 0 || p.MaxHops > MaxHops:
		return fmt.Errorf("path %s: max_hops %d: use 1 to %d, or leave it out", p.Name, p.MaxHops, MaxHops)
	case p.Priority >= transitPriority:
		return fmt.Errorf("path %s: priority %d: use less than %d", p.Name, p.Priority, transitPriority)
	}
	for _, end := range []app.PortOf{p.From, p.To} {
		if end.Port == 0 || end.Port > of13.PortMax {
			return fmt.Errorf("path %s: port %d: use 1 to %d", p.Name, end.Port, of13.PortMax)
		}
	}
	matches, err := p.Class.Matches(nil)
	if err == nil && len(matches) > model.MaxFlows {
		err = fmt.Errorf("match: it needs %d flow entries, and at most %d are possible: use fewer ranges of ports",
			len(matches), model.MaxFlows)
	}
	return err
}

func same(a, b *model.Path) bool { return reflect.DeepEqual(*a, *b) }

// addPath is put for another application.
func (v *visit) addPath(m model.AddPath) error {
	v.tell(v.ask(m.Path))
	return nil
}

// ask adds a path that may not be valid, and returns what it is now.
func (v *visit) ask(p model.Path) *row {
	err := valid(&p)
	if err == nil {
		var r *row
		if r, err = v.add(&p); err == nil {
			return r
		}
	}
	return &row{Path: p, Phase: refused, Why: err.Error()}
}

// addPaths is addPath for many.
func (v *visit) addPaths(m model.AddPaths) error {
	if len(m.Paths) > model.MaxPaths {
		return fmt.Errorf("%d paths are asked for: at most %d are possible together", len(m.Paths), model.MaxPaths)
	}
	for _, p := range m.Paths {
		if r := v.ask(p); r.state() != model.Installing {
			v.tell(r)
		}
	}
	return nil
}

// removePath is delete for another application.
func (v *visit) removePath(m model.RemovePath) error {
	if !v.remove(m.Name) {
		return app.Emit(v.tx, model.PathState{Name: m.Name, State: model.Gone})
	}
	return nil
}
