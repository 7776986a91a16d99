package store

import (
	_ "embed"
	"errors"
	"maps"
	"slices"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// Proto is store.proto, for those who generate clients from it. Its messages are encoded by hand here, because
// controllers and clients do that for each operation.
//
//go:embed store.proto
var Proto string

// field is a field of a message: the bytes of one that has a length, else its number.
type field struct {
	num    protowire.Number
	sized  bool
	bytes  []byte
	number uint64
}

var (
	errMalformed = errors.New("it is not a message of store.proto")
	errText      = errors.New("a text is not UTF-8")
)

// fields calls f with the fields of a message.
func fields(b []byte, f func(field) error) error {
	for len(b) > 0 {
		num, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return errMalformed
		}
		b = b[n:]
		in := field{num: num}
		switch kind {
		case protowire.BytesType:
			in.sized = true
			in.bytes, n = protowire.ConsumeBytes(b)
		case protowire.VarintType:
			in.number, n = protowire.ConsumeVarint(b)
		default: // no message has such a field
			in.num = 0
			n = protowire.ConsumeFieldValue(num, kind, b)
		}
		if n < 0 {
			return errMalformed
		}
		if err := f(in); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// decoder notes the first error of a message whose fields have the wrong type.
type decoder struct{ err error }

func (d *decoder) fail(err error) {
	if d.err == nil {
		d.err = err
	}
}

func (d *decoder) text(f field) string {
	if !f.sized {
		d.fail(errMalformed)
	}
	if !utf8.Valid(f.bytes) {
		d.fail(errText)
	}
	return string(f.bytes)
}

func (d *decoder) uint(f field) uint64 {
	if f.sized {
		d.fail(errMalformed)
	}
	return f.number
}

// message decodes a field that is a message.
func (d *decoder) message(f field, each func(field)) {
	if !f.sized {
		d.fail(errMalformed)
	}
	d.fail(fields(f.bytes, func(in field) error { each(in); return d.err }))
}

// column decodes an entry of a map of columns.
func (d *decoder) column(f field, columns *Columns) {
	c := Column{Value: []byte{}}
	d.message(f, func(in field) {
		switch {
		case in.num == 1:
			c.Name = d.text(in)
		case in.num == 2 && in.sized:
			c.Value = in.bytes[:len(in.bytes):len(in.bytes)]
		}
	})
	*columns = append(*columns, c)
}

// Decode decodes a request. Its columns alias b.
func (r *Request) Decode(b []byte) error {
	var d decoder
	all := make([]Op, 0, min(len(b)/leastOp+1, MaxOps)) // of all transactions
	return fields(b, func(f field) error {
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
			if len(r.Transactions) > MaxOps { // it is refused, and needs no more memory
				return nil
			}
			all = all[len(all):]
			d.message(f, func(in field) {
				if in.num == 1 {
					all = append(all, Op{})
					d.op(in, &all[len(all)-1])
				}
			})
			r.Transactions = append(r.Transactions, all[:len(all):len(all)])
		}
		return d.err
	})
}

// leastOp is about how long a short op is, in bytes.
const leastOp = 24

func (d *decoder) op(f field, o *Op) {
	d.message(f, func(f field) {
		switch f.num {
		case 1:
			o.Kind = Kind(min(d.uint(f), 255))
		case 2:
			o.Table = d.text(f)
		case 3:
			o.Key = d.text(f)
		case 4:
			d.column(f, &o.Columns)
		case 5:
			o.Only = append(o.Only, d.text(f))
		case 6:
			o.Condition = new(Condition)
			d.condition(f, o.Condition)
		case 7:
			o.Column = d.text(f)
		case 8:
			o.Delta = protowire.DecodeZigZag(d.uint(f))
		case 9:
			o.Start = d.text(f)
		case 10:
			o.End = d.text(f)
		case 11:
			o.Prefix = d.text(f)
		case 12:
			o.Limit = int(min(d.uint(f), MaxPage+1))
		case 13:
			o.Definition = new(Definition)
			d.definition(f, o.Definition)
		}
	})
}

func (d *decoder) condition(f field, c *Condition) {
	d.message(f, func(f field) {
		switch f.num {
		case 1:
			v := d.uint(f)
			c.Version = &v
		case 2:
			d.column(f, &c.Columns)
		}
	})
}

func (d *decoder) definition(f field, of *Definition) {
	d.message(f, func(f field) {
		switch f.num {
		case 1:
			of.Columns = append(of.Columns, d.text(f))
		case 2:
			of.RefersTo = d.text(f)
		case 3:
			of.Through = d.text(f)
		}
	})
}

// Decode decodes a response. Its columns alias b.
func (r *Response) Decode(b []byte) error {
	var d decoder
	return fields(b, func(f field) error {
		switch f.num {
		case 1:
			r.ID = d.uint(f)
		case 2:
			r.Outcomes = append(r.Outcomes, Outcome{})
			d.outcome(f, &r.Outcomes[len(r.Outcomes)-1])
		case 3:
			r.Error = d.error(f)
		}
		return d.err
	})
}

func (d *decoder) outcome(f field, o *Outcome) {
	d.message(f, func(f field) {
		switch f.num {
		case 1:
			o.Revision = d.uint(f)
		case 2:
			o.Results = append(o.Results, Result{})
			d.result(f, &o.Results[len(o.Results)-1])
		case 3:
			o.Error = d.error(f)
		}
	})
}

func (d *decoder) error(f field) *Error {
	e := &Error{Op: -1}
	d.message(f, func(f field) {
		switch f.num {
		case 1:
			e.Code = Code(min(d.uint(f), 255))
		case 2:
			e.Message = d.text(f)
		case 3:
			e.Op = int(min(d.uint(f), MaxOps))
		}
	})
	return e
}

func (d *decoder) result(f field, r *Result) {
	d.message(f, func(f field) {
		switch f.num {
		case 1:
			r.Version = d.uint(f)
		case 2:
			row := d.row(f)
			r.Row = &row
		case 3:
			r.Rows = append(r.Rows, d.row(f))
		case 4:
			r.Next = d.text(f)
		case 5:
			r.Value = protowire.DecodeZigZag(d.uint(f))
		case 6:
			r.Session = d.uint(f)
		case 7:
			d.table(f, r)
		}
	})
}

func (d *decoder) row(f field) Row {
	var r Row
	d.message(f, func(f field) {
		switch f.num {
		case 1:
			r.Key = d.text(f)
		case 2:
			r.Version = d.uint(f)
		case 3:
			d.column(f, &r.Columns)
		}
	})
	return r
}

func (d *decoder) table(f field, r *Result) {
	var name string
	var t Table
	d.message(f, func(f field) {
		switch f.num {
		case 1:
			name = d.text(f)
		case 2:
			d.message(f, func(f field) {
				switch f.num {
				case 1:
					t.Version = d.uint(f)
				case 2:
					d.definition(f, &t.Definition)
				}
			})
		}
	})
	if r.Tables == nil {
		r.Tables = map[string]Table{}
	}
	r.Tables[name] = t
}

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
	for _, ops := range r.Transactions {
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
	for _, name := range slices.Sorted(maps.Keys(r.Tables)) {
		t := r.Tables[name]
		e.message(7, func() {
			e.text(1, name)
			e.message(2, func() {
				e.uint(1, t.Version)
				e.message(2, func() { e.definition(&t.Definition) })
			})
		})
	}
}

func (e *encoder) row(r *Row) {
	e.text(1, r.Key)
	e.uint(2, r.Version)
	e.columns(3, r.Columns)
}

// peek returns the id and the namespace of an encoded request, and looks at no more than that.
func peek(b []byte) (id uint64, namespace string) {
	_ = fields(b, func(f field) error { // what is malformed is refused later
		switch {
		case f.num == 1 && !f.sized:
			id = f.number
		case f.num == 2 && f.sized:
			namespace = string(f.bytes)
		}
		return nil
	})
	return id, namespace
}

// Refusal returns the encoded response to an encoded request of which nothing is executed.
func Refusal(request []byte, why *Error) []byte {
	id, _ := peek(request)
	return (&Response{ID: id, Error: why}).Append(nil)
}
