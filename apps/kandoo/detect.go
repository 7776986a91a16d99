package kandoo

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/network/protect"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

const (
	// Interval is the time from a reply to the next request to a switch.
	Interval = time.Second
	// Threshold is how many bytes in a second make a flow an elephant. It is one until it has less than half of that.
	Threshold = 1 << 20
	// MaxFlows bounds the flow entries of a switch that are measured. Those that it reports after them are not.
	MaxFlows = 4096

	// maxTold bounds what a switch tells the root after a reply, as a transaction emits at most 1,024 messages.
	maxTold = 512

	// patience is how long a switch has to answer: to a poll, and to the barriers of a path.
	patience = 10 * time.Second
)

// What a switch tells the root.
type (
	// grown: a flow has become an elephant.
	grown struct {
		At    app.PortOf // where it enters the switch; port 0: by any
		Dst   app.MAC
		Match []byte // without the port
		Rate  uint64 // bytes in a second
	}
	// shrunk: the flow with this key is one no more.
	shrunk struct{ Key string }
)

// key names a flow where it enters a switch.
func (g grown) key() string { return fmt.Sprintf("%s %d %x", g.At.Switch, g.At.Port, g.Match) }

// at is the match of the flow where it comes in by a port.
func (g grown) at(in app.Port) of13.Match { return append(of13.Match(nil).WithInPort(in), g.Match...) }

// flow reads a match: that of one source to one destination, as it comes in by one port.
func flow(id app.Switch, m of13.Match) (g grown, ok bool) {
	in, byPort := m.InPort()
	_, from := m.Get(of13.FieldEthSrc)
	dst, to := m.Get(of13.FieldEthDst)
	if !byPort || !from || !to || dst.HasMask {
		return g, false
	}
	g = grown{At: app.PortOf{Switch: id, Port: in}, Dst: app.MAC(dst.Value)}
	var rest of13.Match
	for f := range m.All() {
		if f.Class != of13.ClassBasic || f.Field != of13.FieldInPort {
			rest = rest.WithOXM(f)
		}
	}
	g.Match = rest
	return g, true
}

// reading is what a switch has counted. It is kept in memory, so after a change of the leader the first reply only
// says what there was before.
type reading struct {
	xid   uint32
	at    time.Time
	last  map[string]uint64 // bytes of each entry
	next  map[string]uint64 // likewise, of the reply that is coming in
	grown map[string]uint64 // by flow, since the last reply
	flows map[string]grown
}

// detect adds the handlers of the switches' actors.
func (k *kandoo) detect(a *app.App) {
	at := func(id app.Switch) app.Cells { return app.Need(k.raised.Cell(id)) }
	app.Handle(a, func(m app.SwitchUp) app.Cells { return at(m.Switch) }, k.switchUp)
	app.Handle(a, func(m app.Reply) app.Cells { return at(m.Switch) }, k.reply)
}

// polled is the switch of a timer.
func polled(t app.Timer) app.Switch {
	id, _ := openflow.ParseDatapathID(t.Name)
	return id
}

// switchUp begins without elephants.
func (k *kandoo) switchUp(tx *app.Tx, up app.SwitchUp) error {
	for key := range k.raised.All(tx, up.Switch) {
		k.raised.Delete(tx, up.Switch, key)
	}
	tx.FlowMod(up.Switch, of13.FlowMod{Command: of13.FlowDelete, TableID: of13.TableAll, BufferID: of13.NoBuffer,
		Cookie: Cookie, CookieMask: 0xffffffff << 32, OutPort: of13.PortAny, OutGroup: of13.GroupAny})
	if next := tx.Next(); next > 0 { // before flows, because elephants' entries know nothing of detours
		tx.FlowMod(up.Switch, of13.FlowMod{Priority: priority + 1, BufferID: of13.NoBuffer,
			Match: of13.Match(nil).WithVLAN(protect.DetourVLAN), Instructions: of13.Instructions(nil).Goto(next)})
	}
	tx.PassOn(up.Switch)
	delete(k.readings, up.Switch)
	return tx.SetTimer(up.Switch.String(), Interval, nil)
}

func (k *kandoo) timer(tx *app.Tx, t app.Timer) error {
	if strings.HasPrefix(t.Name, ofPath) {
		return k.late(tx, t)
	}
	return k.poll(tx, t)
}

// poll asks a switch for the counters of all entries. It is asked again when it has answered, or after a while.
func (k *kandoo) poll(tx *app.Tx, t app.Timer) error {
	q := of13.FlowStatsRequest{TableID: of13.TableAll, OutPort: of13.PortAny, OutGroup: of13.GroupAny}
	id := polled(t)
	xid := tx.Send(id, &of13.MultipartRequest{Part: of13.PartFlow, Body: q.AppendTo(nil)})
	r := k.readings[id]
	if r == nil {
		r = &reading{}
		k.readings[id] = r
	}
	r.xid, r.next, r.grown, r.flows = xid, map[string]uint64{}, map[string]uint64{}, map[string]grown{}
	if xid == 0 { // it is down, and SwitchUp begins again
		return nil
	}
	return tx.SetTimer(t.Name, patience, nil)
}

// reply counts by how much each flow has grown, and tells the root what has become an elephant, or is one no more.
func (k *kandoo) reply(tx *app.Tx, m app.Reply) error {
	r := k.readings[m.Switch]
	if m.Part != of13.PartFlow || r == nil || r.xid != m.XID { // another leader has asked
		if m.Part == of13.PartFlow && m.Flags&of13.FlagMore == 0 {
			return tx.SetTimer(m.Switch.String(), Interval, nil)
		}
		return nil
	}
	for e := range m.Flows().All() {
		g, is := flow(m.Switch, e.Match)
		if !is || len(r.next) >= MaxFlows {
			continue
		}
		entry := fmt.Sprint(e.TableID, e.Priority, e.Cookie, " ", e.Match)
		r.next[entry] = e.ByteCount
		if was := r.last[entry]; r.last != nil && e.ByteCount > was {
			r.grown[g.key()] += e.ByteCount - was
		}
		r.flows[g.key()] = g
	}
	if m.Flags&of13.FlagMore != 0 {
		return nil
	}
	if passed := tx.Now().Sub(r.at); r.last != nil && passed > 0 {
		if err := k.tell(tx, m.Switch, r, passed); err != nil {
			return err
		}
	}
	r.last, r.at, r.xid = r.next, tx.Now(), 0
	return tx.SetTimer(m.Switch.String(), Interval, nil)
}

// tell tells the root what has changed. If that is too much, the rest is told after the next reply.
func (k *kandoo) tell(tx *app.Tx, id app.Switch, r *reading, passed time.Duration) error {
	rate := func(key string) uint64 { return uint64(float64(r.grown[key]) / passed.Seconds()) }
	left := maxTold
	for key := range k.raised.All(tx, id) { // at first, because this makes room for others
		if rate(key) >= Threshold/2 {
			continue
		}
		if left--; left < 0 {
			return nil
		}
		k.raised.Delete(tx, id, key)
		if err := app.Emit(tx, shrunk{key}); err != nil {
			return err
		}
	}
	for _, key := range slices.Sorted(maps.Keys(r.flows)) {
		g := r.flows[key]
		if _, raised := k.raised.Get(tx, id, key); raised || rate(key) < Threshold {
			continue
		}
		if left--; left < 0 {
			return nil
		}
		k.raised.Put(tx, id, key, true)
		g.Rate = rate(key)
		if err := app.Emit(tx, g); err != nil {
			return err
		}
	}
	return nil
}
