package store

import (
	"cmp"
	"slices"
)

// bounded returns an outcome, unless all that the request has read is too much for a response. It must not refuse what
// may have written: that is bounded by each bucket.
func (s *Split) bounded(t int, out Outcome) Outcome {
	if slices.ContainsFunc(s.request.Transactions[t], func(o Op) bool { return o.Kind.Writes() }) {
		return out
	}
	size := 0
	for _, r := range out.Results {
		size += r.size()
	}
	if s.read+size > MaxReply {
		return Outcome{Error: Fail(TooLarge, "the request reads more than %d bytes: ask for less at a time", MaxReply)}
	}
	s.read += size
	return out
}

// size is about that of what a result has read, in bytes.
func (r *Result) size() (n int) {
	if r.Row != nil {
		n += r.Row.size()
	}
	for name, t := range r.Tables {
		n += t.size(name)
	}
	for name, c := range r.Components {
		n += len(name) + len(c.Source)
	}
	return n
}

// merge adds what one bucket has answered to a transaction that is executed in all of them.
func (s *Split) merge(t, bucket int, out Outcome) {
	all, o := &s.outcomes[t], &s.request.Transactions[t][0]
	switch {
	case all.Error != nil:
		return
	case out.Error != nil || o.Kind != List:
		*all = out
		return
	case all.Results == nil:
		*all = Outcome{Results: []Result{{Rows: []Row{}}}, Revisions: make([]uint64, s.of)}
	}
	all.Revisions[bucket] = out.Revision
	into := &all.Results[0]
	into.Rows, into.Next = mergePages(into.Rows, into.Next, out.Results[0].Rows, out.Results[0].Next, limitOf(o))
}

// mergePages merges rows of two lists, which have different keys in order, up to a limit. A list that is not complete
// has all rows before its next key.
func mergePages(a []Row, nextA string, b []Row, nextB string, limit int) (rows []Row, next string) {
	next = nextA
	if next == "" || nextB != "" && nextB < next {
		next = nextB
	}
	rows = make([]Row, 0, min(limit, len(a)+len(b)))
	for size := 0; len(a)+len(b) > 0; {
		from := &a
		if len(a) == 0 || len(b) > 0 && b[0].Key < a[0].Key {
			from = &b
		}
		row := (*from)[0]
		size += row.size()
		if next != "" && row.Key >= next {
			break
		}
		if len(rows) == limit || size > MaxReply && len(rows) > 0 {
			return rows, row.Key
		}
		rows, *from = append(rows, row), (*from)[1:]
	}
	return rows, next
}

// maxRounds bounds how often a Split has buckets adopt something again, because others have changed tables or
// components at the same time.
const maxRounds = 16

// kept is what bucket 0 has of the table or component that an op is about.
type kept struct {
	revision   uint64
	version    uint64 // 0: there is none
	definition *Definition
	source     string
}

// lookForRows looks whether another bucket than bucket 0 has rows of a table that is to be dropped. They may come
// later: see spread.
func (s *Split) lookForRows() (parts []Part) {
	o := Op{Kind: List, Table: s.request.Transactions[0][0].Table, Limit: 1}
	if o.check() != nil {
		return nil // bucket 0 says so
	}
	for bucket := 1; bucket < s.of; bucket++ {
		parts = append(parts, s.part(bucket, func(r *Response) {
			if r.Error == nil && r.Outcomes[0].Error == nil && len(r.Outcomes[0].Results[0].Rows) > 0 {
				s.hasRows = true
			}
		}, []Op{o}))
	}
	return parts
}

// join has all buckets but bucket 0 open the session that this has opened.
func (s *Split) join(t int) (parts []Part) {
	if out := &s.outcomes[t]; out.Error == nil && len(out.Results) == 1 {
		s.opened, s.opens = out.Results[0].Session, t
		o := Op{Kind: join, Delta: int64(s.opened)}
		for bucket := 1; bucket < s.of; bucket++ {
			parts = append(parts, s.part(bucket, func(r *Response) {
				if !s.fails(t, r) {
					s.joined = append(s.joined, bucket)
				}
			}, []Op{o}))
		}
	}
	return parts
}

// Undo returns parts that are to be executed after the response was made: they close a session that the client is not
// told of, because some bucket has not opened it. The client asks for another one, again and again, and buckets have
// room for MaxSessions.
func (s *Split) Undo() (parts []Part) {
	if s.opened == 0 || s.ended == nil && s.outcomes[s.opens].Error == nil {
		return nil
	}
	for _, bucket := range append([]int{0}, s.joined...) {
		p := s.part(bucket, func(*Response) {}, []Op{{Kind: CloseSession}})
		p.Request.Session, p.Request.Seq = s.opened, 1
		parts = append(parts, p)
	}
	return parts
}

// fails refuses a transaction if a bucket has refused its part, and reports whether that is so.
func (s *Split) fails(t int, r *Response) bool {
	why := r.Error
	if why == nil {
		why = r.Outcomes[0].Error
	}
	if why != nil {
		s.outcomes[t] = Outcome{Error: why}
	}
	return why != nil
}

// spread has all buckets adopt a table or component that bucket 0 has changed. If bucket 0 had it so already, an
// earlier request may have ended before all buckets had it, and is completed.
func (s *Split) spread(t int) []Part {
	o := &s.request.Transactions[t][0]
	if why := s.outcomes[t].Error; why != nil && why.Code != already[o.Kind] {
		return nil
	}
	look := Op{Kind: ListTables, Start: o.Table, Limit: 1}
	if o.Component != "" {
		look = Op{Kind: ListComponents, Start: o.Component, Limit: 1}
	}
	return []Part{s.part(0, func(r *Response) {
		if s.fails(t, r) {
			return
		}
		out := &r.Outcomes[0]
		k := kept{revision: out.Revision}
		if found, there := out.Results[0].Tables[o.Table]; there {
			k.version, k.definition = found.Version, &found.Definition
		}
		if found, there := out.Results[0].Components[o.Component]; there {
			k.version, k.source = found.Version, found.Source
		}
		s.steps = slices.Insert(s.steps, 0, func() []Part { return s.adopt(t, k) })
	}, []Op{look})}
}

// already are the codes that bucket 0 refuses ops with if it has the table or component as it is to be.
var already = map[Kind]Code{CreateTable: Exists, DropTable: NoTable, Upload: Conflict, RemoveComponent: NotFound}

// adopt has all buckets but bucket 0 adopt what this has.
func (s *Split) adopt(t int, k kept) (parts []Part) {
	o := &s.request.Transactions[t][0]
	adopted := Op{Kind: adopt, Table: o.Table, Component: o.Component, Definition: k.definition, Source: k.source,
		Condition: &Condition{Version: &k.revision}}
	before := s.outcomes[t]
	late := false
	for bucket := 1; bucket < s.of; bucket++ {
		parts = append(parts, s.part(bucket, func(r *Response) {
			if r.Error == nil && r.Outcomes[0].Error != nil && r.Outcomes[0].Error.Code == Outdated {
				late = true
			} else if !s.fails(t, r) {
				s.adopted[t] = s.adopted[t] || r.Outcomes[0].Results[0].Version > 0
			}
		}, []Op{adopted}))
	}
	s.steps = slices.Insert(s.steps, 0, func() []Part {
		switch failed := s.outcomes[t].Error; {
		case failed != before.Error: // a bucket has refused
		case late:
			if s.rounds++; s.rounds > maxRounds {
				s.ended = Fail(Unavailable, "others change the tables and components of namespace %s",
					s.request.Namespace)
				return nil
			}
			return s.spread(t)
		case failed != nil && s.adopted[t] && k.fits(o):
			s.outcomes[t] = Outcome{Revision: k.revision, Results: []Result{{Version: cmp.Or(k.version, k.revision)}}}
		}
		return nil
	})
	return parts
}

// fits reports whether bucket 0 has what an op asks for.
func (k *kept) fits(o *Op) bool {
	switch {
	case o.Kind == Upload:
		return k.version != 0 && k.source == o.Source
	case o.Kind != CreateTable:
		return k.version == 0
	case k.version == 0:
		return false
	case o.Definition == nil:
		return k.definition.equal(&Definition{Columns: []string{DefaultColumn}})
	}
	return k.definition.equal(o.Definition)
}
