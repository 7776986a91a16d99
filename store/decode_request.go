package store

import "math"

// requestMemory is what the requests of an Application are decoded into, one after the other: it would be a third of
// their garbage.
type requestMemory struct {
	transactions [][]Op
	ops          []Op
	columns      Columns
	used         int // of columns
	names        names
}

// The most for which memory is kept for the next request.
const (
	maxKeptOps     = 256
	maxKeptColumns = 1024
)

// forget forgets the request that was decoded last: its columns are parts of it.
func (m *requestMemory) forget() {
	clear(m.transactions)
	clear(m.ops)
	clear(m.columns[:m.used])
	if m.transactions, m.ops = m.transactions[:0], m.ops[:0]; cap(m.ops) > maxKeptOps {
		m.ops = nil
	}
}

// Decode decodes a request. Its columns alias b.
func (r *Request) Decode(b []byte) error { return r.decodeInto(new(requestMemory), b) }

// decodeInto is Decode. The transactions are valid until the next request is decoded into the memory.
func (r *Request) decodeInto(m *requestMemory, b []byte) error {
	m.forget()
	n := min(count(b, 6), MaxOps)
	if n > cap(m.ops) { // most transactions have one
		m.ops = make([]Op, 0, n)
	}
	if n > cap(m.transactions) {
		m.transactions = make([][]Op, 0, n)
	}
	d := decoder{columns: m.columns, names: &m.names}
	err := fields(b, func(f field) error {
		switch f.num {
		case 1:
			r.ID = d.uint(f)
		case 2:
			r.Namespace = d.text(f)
		case 3:
			r.Session = d.uint(f)
		case 4:
			r.Seq = d.uint(f)
		case 5:
			r.Acked = d.uint(f)
		case 6:
			if len(m.transactions) == MaxOps {
				return errTooMany
			}
			from := len(m.ops)
			d.message(f, func(in field) {
				if d.ops++; d.ops > MaxOps {
					d.fail(errTooMany)
				} else if in.num == 1 {
					m.ops = append(m.ops, Op{})
					d.op(in, &m.ops[len(m.ops)-1])
				}
			})
			m.transactions = append(m.transactions, m.ops[from:len(m.ops):len(m.ops)])
		case 7:
			r.MaxAge = uint32(min(d.uint(f), math.MaxUint32))
		case 8:
			r.Client = d.text(f)
		}
		return d.err
	})
	if len(m.transactions) > 0 {
		r.Transactions = m.transactions
	}
	if taken := min(d.taken, maxKeptColumns); taken > len(m.columns) {
		m.columns, m.used = make(Columns, taken), 0
	} else {
		m.used = taken
	}
	return err
}
