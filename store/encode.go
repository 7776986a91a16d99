package store

import (
	"maps"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// encoder appends fields. Those that are zero are left out.
type encoder []byte

func (e *encoder) uint(num protowire.Number, v uint64) {
	if v != 0 {
		*e = protowire.AppendVarint(protowire.AppendTag(*e, num, protowire.VarintType), v)
	}
}

func (e *encoder) text(num protowire.Number, s string) {
	if s != "" {
		*e = protowire.AppendString(protowire.AppendTag(*e, num, protowire.BytesType), s)
	}
}

func (e *encoder) texts(num protowire.Number, list []string) {
	for _, s := range list {
		*e = protowire.AppendString(protowire.AppendTag(*e, num, protowire.BytesType), s)
	}
}

// uints appends numbers as one field.
func (e *encoder) uints(num protowire.Number, list []uint64) {
	if len(list) == 0 {
		return
	}
	var packed []byte
	for _, v := range list {
		packed = protowire.AppendVarint(packed, v)
	}
	*e = protowire.AppendBytes(protowire.AppendTag(*e, num, protowire.BytesType), packed)
}

// message appends a field that is a message.
func (e *encoder) message(num protowire.Number, content func()) {
	*e = append(protowire.AppendTag(*e, num, protowire.BytesType), 0)
	start := len(*e)
	content()
	size := len(*e) - start
	for range protowire.SizeVarint(uint64(size)) - 1 {
		*e = append(*e, 0)
	}
	copy((*e)[len(*e)-size:], (*e)[start:start+size])
	protowire.AppendVarint((*e)[:start-1], uint64(size))
}

func (e *encoder) column(num protowire.Number, name string, value []byte) {
	size := 2 + protowire.SizeBytes(len(name)) + protowire.SizeBytes(len(value)) // of one byte each: the tags
	*e = protowire.AppendVarint(protowire.AppendTag(*e, num, protowire.BytesType), uint64(size))
	*e = protowire.AppendString(protowire.AppendTag(*e, 1, protowire.BytesType), name)
	*e = protowire.AppendBytes(protowire.AppendTag(*e, 2, protowire.BytesType), value)
}

func (e *encoder) columns(num protowire.Number, columns Columns) {
	for _, c := range columns {
		e.column(num, c.Name, c.Value)
	}
}

// Append appends the encoded request.
func (r *Request) Append(b []byte) []byte {
	e := (*encoder)(&b)
	e.uint(1, r.ID)
	e.text(2, r.Namespace)
	e.uint(3, r.Session)
	e.uint(4, r.Seq)
	e.uint(5, r.Acked)
	e.uint(7, uint64(r.MaxAge))
	e.text(8, r.Client)
	return AppendTransactions(b, r.Transactions)
}

// WithClient returns an encoded request as one of this client, whatever it says itself; false if it is malformed: its
// last field could be too long, and have what is appended as its end.
func WithClient(request []byte, client string) ([]byte, bool) {
	if fields(request, func(field) error { return nil }) != nil {
		return nil, false
	}
	b := protowire.AppendTag(request[:len(request):len(request)], 8, protowire.BytesType) // the last one counts
	return protowire.AppendString(b, client), true
}

// AppendTransactions appends encoded transactions to a request that is encoded without them, or to none.
func AppendTransactions(b []byte, transactions [][]Op) []byte {
	e := (*encoder)(&b)
	for _, ops := range transactions {
		e.message(6, func() {
			for i := range ops {
				e.message(1, func() { e.op(&ops[i]) })
			}
		})
	}
	return b
}

func (e *encoder) op(o *Op) {
	e.uint(1, uint64(o.Kind))
	e.text(2, o.Table)
	e.text(3, o.Key)
	e.columns(4, o.Columns)
	e.texts(5, o.Only)
	if c := o.Condition; c != nil {
		e.message(6, func() {
			if c.Version != nil {
				*e = protowire.AppendVarint(protowire.AppendTag(*e, 1, protowire.VarintType), *c.Version)
			}
			e.columns(2, c.Columns)
		})
	}
	e.text(7, o.Column)
	e.uint(8, protowire.EncodeZigZag(o.Delta))
	e.text(9, o.Start)
	e.text(10, o.End)
	e.text(11, o.Prefix)
	e.uint(12, uint64(o.Limit))
	if o.Definition != nil {
		e.message(13, func() { e.definition(o.Definition) })
	}
	e.text(14, o.Component)
	e.text(15, o.Source)
}

func (e *encoder) definition(d *Definition) {
	e.texts(1, d.Columns)
	e.text(2, d.RefersTo)
	e.text(3, d.Through)
}

// Append appends the encoded response.
func (r *Response) Append(b []byte) []byte {
	e := (*encoder)(&b)
	e.uint(1, r.ID)
	for i := range r.Outcomes {
		e.message(2, func() { e.outcome(&r.Outcomes[i]) })
	}
	if r.Error != nil {
		e.message(3, func() { e.error(r.Error) })
	}
	return b
}

func (e *encoder) outcome(o *Outcome) {
	e.uint(1, o.Revision)
	for i := range o.Results {
		e.message(2, func() { e.result(&o.Results[i]) })
	}
	if o.Error != nil {
		e.message(3, func() { e.error(o.Error) })
	}
	e.uints(4, o.Revisions)
}

func (e *encoder) error(err *Error) {
	e.uint(1, uint64(err.Code))
	e.text(2, err.Message)
	if err.Op >= 0 {
		*e = protowire.AppendVarint(protowire.AppendTag(*e, 3, protowire.VarintType), uint64(err.Op))
	}
}

func (e *encoder) result(r *Result) {
	e.uint(1, r.Version)
	if r.Row != nil {
		e.message(2, func() { e.row(r.Row) })
	}
	for i := range r.Rows {
		e.message(3, func() { e.row(&r.Rows[i]) })
	}
	e.text(4, r.Next)
	e.uint(5, protowire.EncodeZigZag(r.Value))
	e.uint(6, r.Session)
	for _, name := range sorted(r.Tables) {
		t := r.Tables[name]
		e.message(7, func() {
			e.text(1, name)
			e.message(2, func() {
				e.uint(1, t.Version)
				e.message(2, func() { e.definition(&t.Definition) })
			})
		})
	}
	for _, name := range sorted(r.Components) {
		c := r.Components[name]
		e.message(8, func() {
			e.text(1, name)
			e.message(2, func() {
				e.uint(1, c.Version)
				e.text(2, c.Source)
			})
		})
	}
}

// sorted returns the keys of a map in order; nil if it is empty, as in most results.
func sorted[V any](m map[string]V) []string {
	if len(m) == 0 {
		return nil
	}
	return slices.Sorted(maps.Keys(m))
}

func (e *encoder) row(r *Row) {
	e.text(1, r.Key)
	e.uint(2, r.Version)
	e.columns(3, r.Columns)
}
