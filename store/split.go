package store

import "fmt"

// Split divides a request to a namespace with buckets into requests to these, and makes one response of theirs. It does
// no I/O, and is for one goroutine:
//
//	for parts := s.Next(); len(parts) > 0; parts = s.Next() {
//		// execute them side by side; for each, in any order: s.Answer(part, response)
//	}
//	response := s.Response()
//	// execute those of s.Undo() too
//
// What a bucket is asked with the session of the client depends on the request alone. So it is the same if the client
// repeats the request, and the answer that the bucket has kept fits.
type Split struct {
	request  Request
	of       int             // how many buckets
	at       []int           // where each transaction is executed
	outcomes []Outcome       // of the transactions
	steps    []func() []Part // that follow
	rounds   int             // in which buckets were to adopt something again
	adopted  map[int]bool    // transactions of which a bucket did
	hasRows  bool            // a bucket has rows of the table that is to be dropped
	read     int             // bytes of all outcomes that only read
	opened   uint64          // the session that bucket 0 has opened
	opens    int             // the transaction that asks for it
	joined   []int           // buckets that have opened it too

	executed bool   // some bucket has executed something that may write
	ended    *Error // a bucket has not answered
	refused  *Error // a bucket has refused its part as a whole
	differ   bool   // not all buckets have, for the same reason
}

// MaxResponse bounds an encoded response, in bytes: what was read, a page of a list, and what each bucket has answered
// to its part of a request that writes.
const MaxResponse = 2*maxAnswer + MaxBuckets*maxKept

// Part is what one bucket is asked.
type Part struct {
	Request Request
	take    func(*Response)
}

// Where a transaction is executed, besides the numbers of buckets.
const (
	nowhere    = -1 - iota // it is refused here
	everywhere             // in all buckets, side by side
	first                  // in bucket 0, and then in the others if it was executed there
)

// NewSplit begins with a request that a client has sent to a namespace with Buckets.
func NewSplit(r Request) (*Split, *Error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	s := &Split{request: r, of: Buckets(r.Namespace), outcomes: make([]Outcome, len(r.Transactions)),
		adopted: map[int]bool{}}
	opens := false
	var later []func() []Part
	for t, ops := range r.Transactions {
		at, err := s.place(ops)
		switch {
		case err != nil:
		case ops[0].Kind == DropTable && len(r.Transactions) > 1:
			err = Fail(SeveralBuckets, "%s is for all buckets of namespace %s: make it a request of its own", DropTable,
				r.Namespace)
		case ops[0].Kind == OpenSession && opens:
			err = Fail(Invalid, "a request has at most one %s in a namespace with buckets", OpenSession)
		case ops[0].Kind == OpenSession:
			opens = true
			later = append(later, func() []Part { return s.join(t) })
		case at == first:
			later = append(later, func() []Part { return s.spread(t) })
		}
		if err != nil {
			at, s.outcomes[t].Error = nowhere, err
		}
		s.at = append(s.at, at)
	}
	if r.Transactions[0][0].Kind == DropTable && s.at[0] == first {
		s.steps = append(s.steps, s.lookForRows)
	}
	if len(later) > 0 {
		s.steps = append(s.steps, func() []Part { return s.parts(0, 1) })
		s.steps = append(s.steps, later...)
		s.steps = append(s.steps, func() []Part { return s.parts(1, s.of) })
	} else {
		s.steps = append(s.steps, func() []Part { return s.parts(0, s.of) })
	}
	return s, nil
}

// place returns where a transaction is executed.
func (s *Split) place(ops []Op) (at int, err *Error) {
	for i := range ops {
		o := &ops[i]
		bucket := placeOf(o.Kind)
		switch {
		case o.Kind > Run:
			err = Fail(Invalid, "there is no op %s", o.Kind)
		case bucket < 0 && len(ops) > 1:
			err = Fail(SeveralBuckets, "%s is for all buckets of namespace %s: make it a transaction of its own",
				o.Kind, s.request.Namespace)
		case o.Kind == Run && o.Key == "":
			err = Fail(Invalid, "%s needs a key in namespace %s: it is executed in the bucket of that key", Run,
				s.request.Namespace)
		case bucket == 0 && !o.Kind.atBucket0():
			bucket = Bucket(o.Key, s.of)
		}
		if err == nil && i > 0 && bucket != at {
			err = Fail(SeveralBuckets, "%s and %s are in different buckets of namespace %s: a transaction has rows of "+
				"one bucket", subject(&ops[0]), subject(o), s.request.Namespace)
		}
		if err != nil {
			err.Op = i
			return 0, err
		}
		at = bucket
	}
	return at, nil
}

// placeOf returns where ops of a kind are executed; 0 if that depends on the key.
func placeOf(k Kind) int {
	switch k {
	case List, CloseSession:
		return everywhere
	case CreateTable, DropTable, Upload, RemoveComponent, OpenSession:
		return first
	}
	return 0
}

// atBucket0 reports whether an op of this kind reads what bucket 0 has.
func (k Kind) atBucket0() bool { return k == ListTables || k == ListComponents }

func subject(o *Op) string {
	if o.Kind.atBucket0() {
		return o.Kind.String()
	}
	return fmt.Sprintf("key %.64q", o.Key)
}

// Next returns parts that are to be executed side by side; none at the end.
func (s *Split) Next() []Part {
	for len(s.steps) > 0 && s.ended == nil {
		step := s.steps[0]
		s.steps = s.steps[1:]
		if parts := step(); len(parts) > 0 {
			return parts
		}
	}
	return nil
}

// Answer takes the response to a part.
func (s *Split) Answer(p Part, r Response) {
	if r.Error == nil && !p.Request.fits(r.Outcomes) {
		r = Response{Error: Fail(Failed, "%s has answered another request", p.Request.Namespace)}
	}
	if e := r.Error; e != nil && (e.Code == Unavailable || e.Code == Unknown) {
		if s.ended == nil || e.Code == Unknown {
			s.ended = e
		}
		return
	}
	s.executed = s.executed || r.Error == nil && p.Request.writes()
	p.take(&r)
}

// fits reports whether these can be the outcomes of a request.
func (r *Request) fits(outcomes []Outcome) bool {
	for t, out := range outcomes {
		if t == len(r.Transactions) || out.Error == nil && len(out.Results) != len(r.Transactions[t]) {
			return false
		}
	}
	return len(outcomes) == len(r.Transactions)
}

// part is a request to a bucket, without the session of the client.
func (s *Split) part(bucket int, take func(*Response), transactions ...[]Op) Part {
	return Part{Request{Namespace: BucketName(s.request.Namespace, bucket), Client: s.request.Client,
		Transactions: transactions}, take}
}

// parts are what some buckets are asked with the session of the client.
func (s *Split) parts(from, to int) (list []Part) {
	for bucket := from; bucket < to; bucket++ {
		var which []int
		var transactions [][]Op
		for t, at := range s.at {
			if at == bucket || at == everywhere || at == first && bucket == 0 {
				which, transactions = append(which, t), append(transactions, s.share(s.request.Transactions[t]))
			}
		}
		if len(which) == 0 {
			continue
		}
		p := s.part(bucket, func(r *Response) { s.answered(bucket, which, r) }, transactions...)
		p.Request.Session, p.Request.Seq, p.Request.Acked = s.request.Session, s.request.Seq, s.request.Acked
		p.Request.MaxAge = s.request.MaxAge
		list = append(list, p)
	}
	return list
}

// share returns what one bucket is asked of a transaction. A bucket has about the same part of the rows of a list as
// all others. One that has many more ends the merged list early.
func (s *Split) share(ops []Op) []Op {
	o := ops[0]
	if o.Kind == DropTable && s.hasRows {
		return []Op{{Kind: refuseDrop, Table: o.Table}}
	}
	if o.Kind != List || o.Limit < 0 || o.Limit > MaxPage {
		return ops
	}
	o.Limit = limitOf(&o)
	o.Limit = min(o.Limit, 2*(o.Limit/s.of+1)+8)
	return []Op{o}
}

func limitOf(o *Op) int {
	if o.Limit == 0 {
		return MaxPage
	}
	return o.Limit
}

// answered takes the response of a bucket to a part with some of the transactions.
func (s *Split) answered(bucket int, which []int, r *Response) {
	switch {
	case r.Error == nil:
		s.differ = true
	case s.refused == nil:
		s.refused = r.Error
	case s.refused.Code != r.Error.Code:
		s.differ = true
	}
	for i, t := range which {
		out := Outcome{Error: r.Error}
		if r.Error == nil {
			out = r.Outcomes[i]
		}
		if s.at[t] == everywhere {
			s.merge(t, bucket, out)
		} else {
			s.outcomes[t] = s.bounded(t, out)
		}
	}
}

// Response returns the response to the request, after all parts are answered.
func (s *Split) Response() Response {
	r := Response{ID: s.request.ID}
	switch {
	case s.ended != nil && s.ended.Code == Unavailable && s.executed:
		r.Error = Fail(Unknown, "some buckets have executed their part, and one has not: %s", s.ended.Message)
	case s.ended != nil:
		r.Error = s.ended
	case s.refused != nil && !s.differ:
		r.Error = s.refused
	default:
		r.Outcomes = s.outcomes
	}
	return r
}
