package monitor

import (
	"encoding/binary"
	"errors"
	"slices"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// poll asks a switch for what its triggers need.
func (m *monitor) poll(tx *app.Tx, t app.Timer) error {
	entries := of13.FlowStatsRequest{OutPort: of13.PortAny, OutGroup: of13.GroupAny}
	anyEntries, anyPorts := false, false
	for _, s := range m.triggers.All(tx, t.Switch) {
		if s.Of == Ports {
			anyPorts = true
			continue
		}
		s.widen(&entries, !anyEntries)
		anyEntries = true
	}
	last, sent := lastOf(t.Data), uint32(0)
	ask := func(i int, q of13.MultipartRequest) {
		if sent = tx.Send(t.Switch, &q); sent != 0 {
			m.begin(source{t.Switch, q.Part}, last[i], sent)
		}
	}
	if anyEntries {
		ask(0, of13.MultipartRequest{Part: of13.PartFlow, Body: entries.AppendTo(nil)})
	}
	if anyPorts {
		ask(1, of13.PortStatsRequest(of13.PortAny))
	}
	if sent == 0 {
		m.forget(t.Switch)
		return nil // nothing is to be watched, or the switch is down: polling begins again when that changes
	}
	return tx.SetTimer(timer, patience, nil)
}

// answered is the data of a timer: the numbers of the last requests that were answered.
type answered [2]uint32

func (m *monitor) answered(id app.Switch) (list answered) {
	for i, part := range []of13.Part{of13.PartFlow, of13.PartPortStats} {
		if r := m.readings[source{id, part}]; r != nil {
			list[i] = r.xid
		}
	}
	return list
}

func (a answered) data() []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, a[0]), a[1])
}

func lastOf(data []byte) (a answered) {
	if len(data) == 8 {
		a[0], a[1] = binary.BigEndian.Uint32(data), binary.BigEndian.Uint32(data[4:])
	}
	return a
}

// reply compares what a switch reports with the thresholds. After the last part it looks for what is gone.
func (m *monitor) reply(tx *app.Tx, r app.Reply) error {
	c := comparison{monitor: m, tx: tx, at: r.Switch, xid: r.XID, seen: map[judged]bool{}, raised: map[judged]raised{},
		reading: m.readingOf(source{r.Switch, r.Part}, r.XID)}
	for k, t := range m.triggers.All(tx, r.Switch) {
		if t.Of == kindOf(r.Part) {
			c.triggers = append(c.triggers, watching{k, t})
		}
	}
	for _, row := range m.raised.All(tx, r.Switch) {
		c.count++
		if (row.Entry == nil) == (r.Part == of13.PartPortStats) {
			c.raised[judged{row.Trigger, thingOf(row.Subject)}] = row
		}
	}
	var err error
	for f := range r.Flows().All() {
		err = errors.Join(err, c.entry(f))
	}
	for p := range r.PortStats().All() {
		err = errors.Join(err, c.port(p))
	}
	if err != nil {
		return err
	}
	if r.Flags&of13.FlagMore != 0 {
		c.note()
		return nil
	}
	if err := c.gone(); err != nil {
		return err
	}
	return tx.SetTimer(timer, pause(tx, r.Switch, Interval), m.answered(r.Switch).data())
}

func kindOf(p of13.Part) Kind {
	if p == of13.PartPortStats {
		return Ports
	}
	return Entries
}

// comparison is that of one part of a reply with the triggers.
type comparison struct {
	*monitor
	tx       *app.Tx
	at       app.Switch
	xid      uint32 // of the request
	reading  *reading
	triggers []watching
	raised   map[judged]raised
	seen     map[judged]bool // those of raised that are in this part
	count    int             // of all that is above a threshold at this switch
	told     int             // crossings
}

// maxCrossings bounds what one part of a reply tells: a transaction emits 1,024 messages, and owners answer some of
// these. What it does not tell stays as it was, and the next reply does.
const maxCrossings = 512

// watching is a trigger and its key.
type watching struct {
	key string
	set
}

// judged is a thing that a trigger has selected.
type judged struct {
	trigger string
	thing   thing
}

func (c *comparison) entry(f of13.FlowStats) error {
	id := thing{table: f.TableID, priority: f.Priority, match: string(f.Match)}
	s := sample{[2]uint64{f.ByteCount}, age(f.Duration), c.tx.Now().UnixNano()}
	var err error
	for i := range c.triggers {
		if t := &c.triggers[i]; t.selects(f.TableID, f.Cookie) {
			err = errors.Join(err, c.judge(t, id, s, func() Subject {
				e := Entry{f.TableID, f.Priority, Cookie(f.Cookie), slices.Clone(f.Match)}
				return Subject{Switch: c.at, Entry: &e}
			}))
		}
	}
	return err
}

func (c *comparison) port(p of13.PortStats) error {
	id := thing{port: p.Port}
	s := sample{[2]uint64{p.RxBytes, p.TxBytes}, age(p.Duration), c.tx.Now().UnixNano()}
	var err error
	for i := range c.triggers {
		if t := &c.triggers[i]; t.Port == 0 || t.Port == p.Port {
			err = errors.Join(err, c.judge(t, id, s, func() Subject { return Subject{Switch: c.at, Port: p.Port} }))
		}
	}
	return err
}

// judge compares a thing with a threshold.
func (c *comparison) judge(t *watching, id thing, s sample, subject func() Subject) error {
	j := judged{t.key, id}
	_, was := c.raised[j]
	if was {
		c.seen[j] = true
	}
	before, known := sample{}, false
	if t.Measure == Bandwidth {
		before, known = c.reading.sample(id, s)
	}
	is, value := t.judge(was, s, before, known)
	if is == was || is && c.count >= MaxRaised || c.told == maxCrossings {
		return nil
	}
	if is {
		c.count++
	} else {
		c.count--
		delete(c.raised, j)
	}
	return c.tell(&t.set, subject(), is, value)
}

// tell stores a crossing, and tells the owner of the trigger.
func (c *comparison) tell(t *set, s Subject, up bool, value uint64) error {
	k := t.key()
	if row := raisedKey(k, s); up {
		c.monitor.raised.Put(c.tx, c.at, row, raised{k, s, value, c.tx.Now().UnixNano(), c.xid})
	} else {
		c.monitor.raised.Delete(c.tx, c.at, row)
	}
	c.told++
	t.Crossings++
	c.monitor.triggers.Put(c.tx, c.at, k, *t)
	return app.Emit(c.tx, Crossed{t.Owner, t.Name, up, value, s})
}

// note stores what is above a threshold and in this part of a reply: another controller may execute the next parts.
func (c *comparison) note() {
	for j := range c.seen {
		if row, still := c.raised[j]; still {
			row.Seen = c.xid
			c.monitor.raised.Put(c.tx, c.at, raisedKey(j.trigger, row.Subject), row)
		}
	}
}

// gone reports what was above a threshold and is in no part of a reply.
func (c *comparison) gone() error {
	var err error
	for j, row := range c.raised {
		if row.Seen == c.xid || c.seen[j] || c.told == maxCrossings {
			continue
		}
		for i := range c.triggers {
			if t := &c.triggers[i]; t.key == j.trigger {
				err = errors.Join(err, c.tell(&t.set, row.Subject, false, 0))
			}
		}
	}
	return err
}
