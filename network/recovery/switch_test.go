package recovery

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/network/liveness"
	"github.com/holdfast-sdn/holdfast/network/protect"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// fakeSwitch executes one command or one transaction at a time.
type fakeSwitch struct {
	id         app.Switch
	up         bool // connected
	epoch, seq uint64
	taken      uint64 // number of commands taken
	ports      map[app.Port]bool
	queue      [][]byte
	frames     []sent

	flows  map[string]of13.FlowMod
	groups map[uint32]of13.GroupMod

	bundles bool // a transaction is executed as a whole, or not at all
	refuses int  // number of flow-mods that it will refuse
	slow    bool // does nothing
	mute    bool // answers nothing except port requests, which are not repeated
	partial int  // entries in one part of a reply
	errors  []string
}

type sent struct {
	from  app.PortOf
	frame []byte
}

func flowKey(f of13.FlowMod) string { return fmt.Sprint(f.TableID, f.Priority, f.Match) }

// step executes the next command or transaction, and returns the messages of the switch.
func (s *fakeSwitch) step() (answers [][]byte) {
	n := 1
	if s.bundles && isMod(s.queue[0]) {
		for n < len(s.queue) && isMod(s.queue[n]) && ledger.Continues(openflow.XID(s.queue[n])) {
			n++
		}
	}
	part := s.queue[:n]
	s.queue = s.queue[n:]
	flows, groups := maps.Clone(s.flows), maps.Clone(s.groups)
	for _, msg := range part {
		m, err := of13.Decode(bytes.Clone(msg))
		if err != nil {
			panic(err)
		}
		xid := openflow.XID(msg)
		refusal := s.do(m)
		if refusal != nil {
			s.errors = append(s.errors, fmt.Sprintf("%v: %v", refusal, m))
			refusal.Data = msg[:min(len(msg), 64)]
			if n > 1 {
				s.flows, s.groups = flows, groups
			}
			return append(answers, refusal.Append(nil, xid))
		}
		if asks, is := m.(*of13.MultipartRequest); s.mute && !(is && asks.Part == of13.PartPortDesc) {
			continue
		}
		switch m := m.(type) {
		case *of13.BarrierRequest:
			answers = append(answers, (&of13.BarrierReply{}).Append(nil, xid))
		case *of13.MultipartRequest:
			answers = append(answers, s.statistics(m.Part, xid)...)
		}
	}
	return answers
}

func isMod(msg []byte) bool { return msg[1] == of13.TypeFlowMod || msg[1] == of13.TypeGroupMod }

func (s *fakeSwitch) do(m of13.Message) *of13.Error {
	switch m := m.(type) {
	case *of13.FlowMod:
		return s.flowMod(*m)
	case *of13.GroupMod:
		return s.groupMod(*m)
	case *of13.PacketOut:
		for a := range m.Actions.All() {
			s.frames = append(s.frames, sent{app.PortOf{Switch: s.id, Port: a.Port}, m.Data})
		}
	}
	return nil
}

func groupsUsed(in of13.Instructions) (ids []uint32) {
	for x := range in.All() {
		for a := range x.Actions.All() {
			if a.Type == of13.ActionGroup {
				ids = append(ids, a.Group)
			}
		}
	}
	return ids
}

func (s *fakeSwitch) flowMod(m of13.FlowMod) *of13.Error {
	if s.refuses > 0 {
		s.refuses--
		return &of13.Error{ErrType: of13.ErrTypeFlowModFailed, Code: of13.FlowModFailedTableFull}
	}
	key := flowKey(m)
	old, there := s.flows[key]
	switch m.Command {
	case of13.FlowAdd, of13.FlowModifyStrict:
		for _, g := range groupsUsed(m.Instructions) {
			if _, ok := s.groups[g]; !ok {
				return &of13.Error{ErrType: of13.ErrTypeBadAction, Code: of13.BadActionBadOutGroup}
			}
		}
		if m.Command == of13.FlowModifyStrict {
			if !there {
				return nil
			}
			m.Cookie = old.Cookie
		}
		s.flows[key] = m
	case of13.FlowDeleteStrict:
		if there && old.Cookie&m.CookieMask == m.Cookie&m.CookieMask {
			delete(s.flows, key)
		}
	default:
		panic(m.String())
	}
	return nil
}

func (s *fakeSwitch) groupMod(m of13.GroupMod) *of13.Error {
	_, there := s.groups[m.GroupID]
	switch m.Command {
	case of13.GroupAdd:
		if there {
			return &of13.Error{ErrType: of13.ErrTypeGroupModFailed, Code: of13.GroupModFailedGroupExists}
		}
		s.groups[m.GroupID] = m
	case of13.GroupModify:
		s.groups[m.GroupID] = m
	case of13.GroupDelete:
		delete(s.groups, m.GroupID)
		maps.DeleteFunc(s.flows, func(_ string, f of13.FlowMod) bool {
			return slices.Contains(
				groupsUsed(f.Instructions), m.GroupID)
		})
	}
	return nil
}

// statistics returns the parts of a reply.
func (s *fakeSwitch) statistics(p of13.Part, xid uint32) (parts [][]byte) {
	var bodies [][]byte
	add := func(i int, appendTo func([]byte) []byte) {
		if i%s.partial == 0 {
			bodies = append(bodies, nil)
		}
		bodies[len(bodies)-1] = appendTo(bodies[len(bodies)-1])
	}
	switch p {
	case of13.PartFlow:
		for i, k := range slices.Sorted(maps.Keys(s.flows)) {
			f := s.flows[k]
			add(i, of13.FlowStats{TableID: f.TableID, Priority: f.Priority, Cookie: f.Cookie, Match: f.Match,
				Instructions: f.Instructions}.AppendTo)
		}
	case of13.PartPortDesc:
		for i, p := range slices.Sorted(maps.Keys(s.ports)) {
			add(i, portDesc(p, s.ports[p]).AppendTo)
		}
	case of13.PartGroupDesc:
		for i, id := range slices.Sorted(maps.Keys(s.groups)) {
			g := s.groups[id]
			add(i, of13.GroupDesc{GroupType: g.GroupType, GroupID: id, Buckets: g.Buckets}.AppendTo)
		}
	}
	if len(bodies) == 0 {
		bodies = append(bodies, nil)
	}
	for i, b := range bodies {
		r := of13.MultipartReply{Part: p, Body: b}
		if i+1 < len(bodies) {
			r.Flags = of13.FlagMore
		}
		parts = append(parts, r.Append(nil, xid))
	}
	return parts
}

// returned is the frame that the entries of package liveness return for a frame that arrives over a link.
func (s *fakeSwitch) returned(frame []byte) (back []byte, is bool) {
	for _, f := range s.flows {
		dst, _ := f.Match.Get(of13.FieldEthDst)
		if typ, _ := f.Match.Get(of13.FieldEthType); f.Cookie != liveness.Cookie ||
			!bytes.Equal(dst.Value, frame[:6]) || !bytes.Equal(typ.Value, frame[12:14]) {
			continue
		}
		back := bytes.Clone(frame)
		for in := range f.Instructions.All() {
			for a := range in.Actions.All() {
				switch {
				case a.Type == of13.ActionSetField:
					copy(back, a.OXM.Value)
				case a.Type == of13.ActionOutput && a.Port == of13.PortInPort:
					return back, true
				}
			}
		}
	}
	return nil, false
}

// program reads the tables of the switch, to follow packets through them.
func (s *fakeSwitch) program() protect.Program {
	var p protect.Program
	for _, f := range s.flows {
		if f.Cookie == protect.Cookie {
			p.Entries = append(p.Entries, entryOf(f))
		}
	}
	slices.SortFunc(p.Entries, func(a, b protect.Entry) int {
		return cmp.Or(cmp.Compare(a.Table, b.Table), cmp.Compare(b.Priority, a.Priority))
	})
	for id := range s.groups {
		p.Groups = append(p.Groups, protect.GroupID(id))
	}
	slices.Sort(p.Groups)
	return p
}

func entryOf(f of13.FlowMod) protect.Entry {
	e := protect.Entry{Table: f.TableID, Priority: f.Priority}
	for o := range f.Match.All() {
		switch o.Field {
		case of13.FieldInPort:
			e.Match.InPort = app.Port(o.Uint64())
		case of13.FieldMetadata:
			e.Match.Dest = app.Switch(o.Uint64())
		case of13.FieldEthDst:
			e.Match.Host = app.MAC(o.Value)
		case of13.FieldVLANVID:
			e.Match.Tag = protect.Detoured
			if o.Uint64() == uint64(of13.VLANNone) {
				e.Match.Tag = protect.NoTag
			}
		case of13.FieldVLANPCP:
			e.Match.Tag = protect.NotReturned
		}
	}
	for x := range f.Instructions.All() {
		if x.Type == of13.InstructionWriteMetadata {
			e.Action.Dest = app.Switch(x.Metadata)
		}
		for a := range x.Actions.All() {
			switch a.Type {
			case of13.ActionOutput:
				if e.Action.Return = a.Port == of13.PortInPort; !e.Action.Return {
					e.Action.Port = a.Port
				}
			case of13.ActionGroup:
				e.Action.Group = protect.GroupID(a.Group)
			case of13.ActionPopVLAN:
				e.Action.Untag = true
			}
		}
	}
	return e
}
