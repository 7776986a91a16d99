package vswitch

import (
	"container/heap"
	"slices"
	"time"

	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// flowMod executes a FLOW_MOD (section 6.4).
func (s *Switch) flowMod(now time.Duration, m *of13.FlowMod) error {
	const known = of13.FlowSendFlowRem | of13.FlowCheckOverlap | of13.FlowResetCounts | of13.FlowNoPktCounts |
		of13.FlowNoBytCounts
	deletes := m.Command == of13.FlowDelete || m.Command == of13.FlowDeleteStrict
	switch {
	case m.Command > of13.FlowDeleteStrict:
		return refuse(of13.ErrTypeFlowModFailed, of13.FlowModFailedBadCommand)
	case m.Flags&^known != 0:
		return refuse(of13.ErrTypeFlowModFailed, of13.FlowModFailedBadFlags)
	case int(m.TableID) >= len(s.tables) && !(deletes && m.TableID == of13.TableAll):
		return refuse(of13.ErrTypeFlowModFailed, of13.FlowModFailedBadTableID)
	}
	if err := m.Match.Validate(); err != nil {
		return err
	}
	if deletes {
		s.deleteFlows(now, m)
		return nil
	}
	if len(m.Match)+len(m.Instructions) > partLimit { // its description must fit a reply
		return refuse(of13.ErrTypeBadAction, of13.BadActionTooMany)
	}
	prog, err := s.compileProgram(m.TableID, m.Match, m.Instructions)
	if err != nil {
		return err
	}
	var inPort of13.Port
	var data []byte
	if m.BufferID != of13.NoBuffer {
		if inPort, data, err = s.takeBuffer(now, m.BufferID); err != nil {
			return err
		}
	}
	if m.Command == of13.FlowAdd {
		err = s.addFlow(now, m, prog)
	} else {
		s.modifyFlows(m, prog)
	}
	if err == nil && data != nil && !s.rehearsing {
		p := s.newPacket()
		p.reset(inPort, data)
		s.pipeline(p)
		s.freePacket(p)
		s.endPacket()
	}
	return err
}

// addFlow adds an entry, in place of one with the same match and priority.
func (s *Switch) addFlow(now time.Duration, m *of13.FlowMod, prog *program) error {
	t := s.tables[m.TableID]
	value, mask := compile(m.Match)
	if m.Flags&of13.FlowCheckOverlap != 0 {
		for f := range t.all {
			if f.priority == m.Priority && overlaps(&value, &mask, &f.value, &f.sub.mask) {
				return refuse(of13.ErrTypeFlowModFailed, of13.FlowModFailedOverlap)
			}
		}
	}
	f := &flow{
		value: value, priority: m.Priority, table: m.TableID, program: prog,
		match: slices.Clone(m.Match), instructions: slices.Clone(m.Instructions),
		cookie: m.Cookie, flags: m.Flags, idle: m.IdleTimeout, hard: m.HardTimeout,
		created: now, used: now, serial: s.serial, heapAt: -1,
	}
	s.serial++
	old := t.find(&value, &mask, m.Priority)
	switch {
	case old != nil:
		if m.Flags&of13.FlowResetCounts == 0 {
			f.packets, f.bytes = old.packets, old.bytes
		}
		s.unlinkFlow(old)
	case t.count >= s.config.MaxFlows:
		return refuse(of13.ErrTypeFlowModFailed, of13.FlowModFailedTableFull)
	}
	t.insert(f, &mask)
	s.timeouts.add(f)
	if s.rehearsing {
		s.undo = append(s.undo, func() {
			t.unlink(f)
			s.timeouts.remove(f)
		})
	}
	return nil
}

// unlinkFlow removes an entry from its table without a notification.
func (s *Switch) unlinkFlow(f *flow) {
	t := s.tables[f.table]
	t.unlink(f)
	s.timeouts.remove(f)
	if s.rehearsing {
		s.undo = append(s.undo, func() {
			t.link(f)
			s.timeouts.add(f)
		})
	}
}

// removeFlow removes an entry from its table, and notifies the controllers if the entry asks for that.
func (s *Switch) removeFlow(now time.Duration, f *flow, reason uint8) {
	s.unlinkFlow(f)
	if f.flags&of13.FlowSendFlowRem != 0 && !s.rehearsing {
		s.flowRemoved(now, f, reason)
	}
}

// modifyFlows changes the instructions of the entries that m selects; none is no error.
func (s *Switch) modifyFlows(m *of13.FlowMod, prog *program) {
	instructions := slices.Clone(m.Instructions)
	for f := range s.selected(m) {
		if s.rehearsing {
			was := *f
			s.undo = append(s.undo, func() {
				f.program, f.instructions, f.packets, f.bytes = was.program, was.instructions, was.packets, was.bytes
			})
		}
		f.program, f.instructions = prog, instructions
		if m.Flags&of13.FlowResetCounts != 0 {
			f.packets, f.bytes = 0, 0
		}
	}
}

// deleteFlows removes the entries that m selects.
func (s *Switch) deleteFlows(now time.Duration, m *of13.FlowMod) {
	for f := range s.selected(m) {
		if f.program.refersTo(m.OutPort, m.OutGroup) {
			s.removeFlow(now, f, of13.FlowRemovedDelete)
		}
	}
}

// selected iterates over the entries of a modification or deletion: the one entry of a strict command, or all that the
// match includes, restricted by the cookie.
func (s *Switch) selected(m *of13.FlowMod) func(yield func(*flow) bool) {
	value, mask := compile(m.Match)
	strict := m.Command == of13.FlowModifyStrict || m.Command == of13.FlowDeleteStrict
	return func(yield func(*flow) bool) {
		for _, t := range s.tablesOf(m.TableID) {
			if strict {
				if f := t.find(&value, &mask, m.Priority); f != nil && f.hasCookie(m.Cookie, m.CookieMask) &&
					!yield(f) {
					return
				}
				continue
			}
			for f := range t.all {
				if f.hasCookie(m.Cookie, m.CookieMask) && covers(&value, &mask, &f.value, &f.sub.mask) && !yield(f) {
					return
				}
			}
		}
	}
}

func (f *flow) hasCookie(cookie, mask uint64) bool { return (f.cookie^cookie)&mask == 0 }

// tablesOf returns the table with an id, or all for TableAll.
func (s *Switch) tablesOf(id uint8) []*table {
	if id == of13.TableAll {
		return s.tables
	}
	if int(id) >= len(s.tables) {
		return nil
	}
	return s.tables[id : id+1]
}

// expireFlows removes the entries that have expired (section 5.5).
func (s *Switch) expireFlows(now time.Duration) {
	for len(s.timeouts) > 0 && s.timeouts[0].deadline <= now {
		f := s.timeouts[0]
		switch {
		case f.hard > 0 && f.created+seconds(f.hard) <= now:
			s.removeFlow(now, f, of13.FlowRemovedHardTimeout)
		case f.idle > 0 && f.used+seconds(f.idle) <= now:
			s.removeFlow(now, f, of13.FlowRemovedIdleTimeout)
		default: // it was used meanwhile
			f.deadline = f.due()
			heap.Fix(&s.timeouts, 0)
		}
	}
}

func seconds(n uint16) time.Duration { return time.Duration(n) * time.Second }

// due is when f expires if it is not used until then; 0 for never.
func (f *flow) due() time.Duration {
	var d time.Duration
	if f.idle > 0 {
		d = f.used + seconds(f.idle)
	}
	if hard := f.created + seconds(f.hard); f.hard > 0 && (d == 0 || hard < d) {
		d = hard
	}
	return d
}

// timeouts is a heap of the entries with timeouts. If an entry was used since, its deadline is too early, never too
// late.
type timeouts []*flow

func (t *timeouts) add(f *flow) {
	f.heapAt = -1
	if f.deadline = f.due(); f.idle|f.hard != 0 {
		heap.Push(t, f)
	}
}

func (t *timeouts) remove(f *flow) {
	if f.heapAt >= 0 {
		heap.Remove(t, f.heapAt)
	}
}

func (t timeouts) Len() int { return len(t) }

func (t timeouts) Less(i, j int) bool {
	if t[i].deadline != t[j].deadline {
		return t[i].deadline < t[j].deadline
	}
	return t[i].serial < t[j].serial
}

func (t timeouts) Swap(i, j int) {
	t[i], t[j] = t[j], t[i]
	t[i].heapAt, t[j].heapAt = i, j
}

// Push implements heap.Interface.
func (t *timeouts) Push(x any) {
	f := x.(*flow)
	f.heapAt = len(*t)
	*t = append(*t, f)
}

// Pop implements heap.Interface.
func (t *timeouts) Pop() any {
	last := len(*t) - 1
	f := (*t)[last]
	(*t)[last], *t = nil, (*t)[:last]
	f.heapAt = -1
	return f
}
