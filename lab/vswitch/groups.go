package vswitch

import (
	"slices"
	"time"

	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// maxGroupDepth bounds how deeply groups may be nested for a packet: deeper ones drop it.
const maxGroupDepth = 8

// group is an entry of the group table (section 5.6). It is replaced, never changed, except for its counters.
type group struct {
	id      uint32
	kind    uint8
	wire    of13.Buckets
	buckets []bucket
	total   of13.Counter
	created time.Duration
}

type bucket struct {
	weight     uint16
	watchPort  of13.Port
	watchGroup uint32
	ops        []op
	count      of13.Counter
}

// groupMod executes a GROUP_MOD (section 6.5).
func (s *Switch) groupMod(now time.Duration, m *of13.GroupMod) error {
	old := s.groups[m.GroupID]
	switch m.Command {
	case of13.GroupAdd:
		if old != nil {
			return refuse(of13.ErrTypeGroupModFailed, of13.GroupModFailedGroupExists)
		}
		if m.GroupID > of13.GroupMax {
			return refuse(of13.ErrTypeGroupModFailed, of13.GroupModFailedInvalidGroup)
		}
		if len(s.groups) >= s.config.MaxGroups {
			return refuse(of13.ErrTypeGroupModFailed, of13.GroupModFailedOutOfGroups)
		}
	case of13.GroupModify:
		if old == nil {
			return refuse(of13.ErrTypeGroupModFailed, of13.GroupModFailedUnknownGroup)
		}
	case of13.GroupDelete:
		return s.deleteGroups(now, m.GroupID)
	default:
		return refuse(of13.ErrTypeGroupModFailed, of13.GroupModFailedBadCommand)
	}
	g, err := s.compileGroup(m)
	if err != nil {
		return err
	}
	g.created = now
	if old != nil {
		g.created, g.total = old.created, old.total
	}
	s.setGroup(m.GroupID, g)
	return nil
}

// setGroup replaces the group id by g; nil removes it.
func (s *Switch) setGroup(id uint32, g *group) {
	old := s.groups[id]
	put := func(g *group) {
		if g == nil {
			delete(s.groups, id)
		} else {
			s.groups[id] = g
		}
	}
	put(g)
	if s.rehearsing {
		s.undo = append(s.undo, func() { put(old) })
	}
}

// compileGroup validates the group that m describes.
func (s *Switch) compileGroup(m *of13.GroupMod) (*group, error) {
	if m.GroupType > of13.GroupTypeFastFailover {
		return nil, refuse(of13.ErrTypeGroupModFailed, of13.GroupModFailedBadType)
	}
	if len(m.Buckets) > partLimit { // its description must fit a reply
		return nil, refuse(of13.ErrTypeGroupModFailed, of13.GroupModFailedOutOfBuckets)
	}
	g := &group{id: m.GroupID, kind: m.GroupType, wire: slices.Clone(m.Buckets)}
	for b := range g.wire.All() {
		if err := b.Actions.Validate(); err != nil {
			return nil, err
		}
		if err := s.checkBucket(g, b); err != nil {
			return nil, err
		}
		ops, err := compileActions(b.Actions)
		if err != nil {
			return nil, err
		}
		g.buckets = append(g.buckets, bucket{weight: b.Weight, watchPort: b.WatchPort, watchGroup: b.WatchGroup,
			ops: ops})
	}
	if g.kind == of13.GroupTypeIndirect && len(g.buckets) != 1 {
		return nil, refuse(of13.ErrTypeGroupModFailed, of13.GroupModFailedInvalidGroup)
	}
	return g, nil
}

// checkBucket refuses a bucket that watches or names something that does not exist, and one that leads back to its own
// group.
func (s *Switch) checkBucket(g *group, b of13.Bucket) error {
	watches := b.WatchPort != of13.PortAny || b.WatchGroup != of13.GroupAny
	switch {
	case g.kind == of13.GroupTypeFastFailover && !watches,
		b.WatchPort != of13.PortAny && s.ports[b.WatchPort] == nil,
		b.WatchGroup != of13.GroupAny && s.groups[b.WatchGroup] == nil,
		b.WatchGroup == g.id:
		return refuse(of13.ErrTypeGroupModFailed, of13.GroupModFailedBadWatch)
	}
	seen := map[uint32]bool{}
	loops := b.WatchGroup != of13.GroupAny && s.reaches(b.WatchGroup, g.id, seen)
	for x := range b.Actions.All() {
		loops = loops || x.Type == of13.ActionGroup && s.reaches(x.Group, g.id, seen)
	}
	if loops {
		return refuse(of13.ErrTypeGroupModFailed, of13.GroupModFailedLoop)
	}
	return s.checkTargets(b.Actions, false)
}

// reaches reports whether the group from is the group to, or leads to it. seen has the groups that do not. There are
// no loops among the groups that exist.
func (s *Switch) reaches(from, to uint32, seen map[uint32]bool) bool {
	g := s.groups[from]
	if from == to || g == nil || seen[from] {
		return from == to
	}
	seen[from] = true
	for i := range g.buckets {
		b := &g.buckets[i]
		if b.watchGroup != of13.GroupAny && s.reaches(b.watchGroup, to, seen) {
			return true
		}
		for j := range b.ops {
			if o := &b.ops[j]; o.kind == of13.ActionGroup && s.reaches(o.group, to, seen) {
				return true
			}
		}
	}
	return false
}

// deleteGroups deletes one group, or all, with the entries that use them. Deleting a group that does not exist is no
// error.
func (s *Switch) deleteGroups(now time.Duration, id uint32) error {
	if id != of13.GroupAll {
		if id > of13.GroupMax {
			return refuse(of13.ErrTypeGroupModFailed, of13.GroupModFailedInvalidGroup)
		}
		if s.groups[id] == nil {
			return nil
		}
		for _, g := range s.groups {
			if g.leadsTo(id) {
				return refuse(of13.ErrTypeGroupModFailed, of13.GroupModFailedChainedGroup)
			}
		}
	}
	for _, t := range s.tables {
		for f := range t.all {
			p := f.program
			if id == of13.GroupAll && p.usesGroups() || id != of13.GroupAll && p.refersTo(of13.PortAny, id) {
				s.removeFlow(now, f, of13.FlowRemovedGroupDelete)
			}
		}
	}
	for _, g := range s.sortedGroups() {
		if id == of13.GroupAll || g.id == id {
			s.setGroup(g.id, nil)
		}
	}
	return nil
}

func (p *program) usesGroups() bool {
	isGroup := func(o op) bool { return o.kind == of13.ActionGroup }
	return slices.ContainsFunc(p.apply, isGroup) || slices.ContainsFunc(p.write, isGroup)
}

// leadsTo reports whether a bucket of g forwards to the group id, or watches it.
func (g *group) leadsTo(id uint32) bool {
	for i := range g.buckets {
		if g.buckets[i].watchGroup == id || refersTo(g.buckets[i].ops, of13.PortAny, id) {
			return true
		}
	}
	return false
}

func (s *Switch) sortedGroups() []*group {
	return sortedBy(s.groups, func(g *group) uint32 { return g.id })
}

// live reports whether a bucket may be used (section 6.5); one that watches nothing always may.
func (s *Switch) live(b *bucket, depth int) bool {
	if b.watchPort == of13.PortAny && b.watchGroup == of13.GroupAny {
		return true
	}
	if p := s.ports[b.watchPort]; p != nil && p.live() {
		return true
	}
	g := s.groups[b.watchGroup]
	if g == nil || depth >= maxGroupDepth {
		return false
	}
	for i := range g.buckets {
		if s.budget--; s.budget < 0 {
			return false
		}
		if s.live(&g.buckets[i], depth+1) {
			return true
		}
	}
	return false
}

// executeGroup sends copies of p through the group's buckets. depth is how many groups p is in already.
func (s *Switch) executeGroup(p *packet, id uint32, depth int) {
	g := s.groups[id]
	if g == nil || depth >= maxGroupDepth {
		return
	}
	g.total.Packets++
	g.total.Bytes += uint64(len(p.data))
	switch g.kind {
	case of13.GroupTypeAll, of13.GroupTypeIndirect:
		for i := range g.buckets {
			s.executeBucket(p, &g.buckets[i], depth)
		}
	case of13.GroupTypeFastFailover:
		for i := range g.buckets {
			if b := &g.buckets[i]; s.live(b, 0) {
				s.executeBucket(p, b, depth)
				return
			}
		}
	case of13.GroupTypeSelect:
		if b := s.selectBucket(p, g); b != nil {
			s.executeBucket(p, b, depth)
		}
	}
}

func (s *Switch) executeBucket(p *packet, b *bucket, depth int) {
	b.count.Packets++
	b.count.Bytes += uint64(len(p.data))
	q := s.newPacket()
	q.copyFrom(p)
	// Within a bucket the actions are an action set (section 5.6.1).
	q.set.merge(b.ops)
	s.executeSet(q, depth+1)
	s.freePacket(q)
}

// selectBucket chooses among the live buckets by a hash of the addresses and ports, in proportion to their weights, so
// that the packets of one connection stay together.
func (s *Switch) selectBucket(p *packet, g *group) *bucket {
	total := uint32(0)
	for i := range g.buckets {
		if b := &g.buckets[i]; s.live(b, 0) {
			total += uint32(b.weight)
		}
	}
	if total == 0 {
		return nil
	}
	at := connectionHash(p) % total
	for i := range g.buckets {
		b := &g.buckets[i]
		if !s.live(b, 0) {
			continue
		}
		if at < uint32(b.weight) {
			return b
		}
		at -= uint32(b.weight)
	}
	return nil
}

// connectionHash is FNV-1a over what identifies a connection.
func connectionHash(p *packet) uint32 {
	p.refresh()
	h := uint64(14695981039346656037)
	for _, f := range [...]of13.Field{
		of13.FieldEthDst, of13.FieldEthSrc, of13.FieldEthType, of13.FieldIPProto, of13.FieldIPv4Src, of13.FieldIPv4Dst,
		of13.FieldIPv6Src, of13.FieldIPv6Dst, of13.FieldTCPSrc, of13.FieldTCPDst, of13.FieldUDPSrc, of13.FieldUDPDst,
	} {
		for _, c := range p.key.field(f) {
			h = (h ^ uint64(c)) * 1099511628211
		}
	}
	return uint32(h>>32) ^ uint32(h)
}
