package store

import (
	_ "embed"
	"errors"
	"fmt"
	"math"
	"time"
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

// decoder notes the first error of a message.
type decoder struct {
	err      error
	ops      int
	elements int // of lists in ops
	names    *names
	columns  Columns  // room for those of rows and ops
	taken    int      // columns for which there was to be room
	results  []Result // likewise for the first ones of outcomes
}

// names are the latest names of a message, each in a place of its own.
type names [16]string

// maxElements bounds the columns and names of all ops of a request.
const maxElements = MaxOps * MaxColumns

var errTooMany = fmt.Errorf("it has more than %d ops, or %d columns", MaxOps, maxElements)

// trust removes the bound of lists: a controller has sent the message.
func (d *decoder) trust() { d.elements = math.MinInt }

// grow counts an element of a list, so that a short message does not need much memory.
func (d *decoder) grow() {
	if d.elements++; d.elements > maxElements {
		d.fail(errTooMany)
	}
}

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

// name is text for names, which are the same in most ops and rows of a message.
func (d *decoder) name(f field) string {
	if len(f.bytes) == 0 || len(f.bytes) > maxName {
		return d.text(f)
	}
	if d.names == nil {
		d.names = new(names)
	}
	at := &d.names[(len(f.bytes)+int(f.bytes[0])+5*int(f.bytes[len(f.bytes)-1]))%len(d.names)]
	if *at == string(f.bytes) {
		return *at
	}
	name := d.text(f)
	if d.err == nil {
		*at = name
	}
	return name
}

func (d *decoder) uint(f field) uint64 {
	if f.sized {
		d.fail(errMalformed)
	}
	return f.number
}

// uints appends the numbers of a field, which has one or many, to a list of at most MaxBuckets.
func (d *decoder) uints(f field, list []uint64) []uint64 {
	if !f.sized {
		list = append(list, f.number)
	}
	for b := f.bytes; len(b) > 0 && len(list) <= MaxBuckets; {
		v, n := protowire.ConsumeVarint(b)
		if n < 0 {
			d.fail(errMalformed)
			return list
		}
		list, b = append(list, v), b[n:]
	}
	if len(list) > MaxBuckets {
		d.fail(fmt.Errorf("it has more than %d revisions", MaxBuckets))
	}
	return list
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
	d.grow()
	c := Column{Value: []byte{}}
	d.message(f, func(in field) {
		switch {
		case in.num == 1:
			c.Name = d.name(in)
		case in.num == 2 && !in.sized:
			d.fail(errMalformed)
		case in.num == 2:
			c.Value = in.bytes[:len(in.bytes):len(in.bytes)]
		}
	})
	*columns = append(*columns, c)
}

// count returns how many fields with a number a message has.
func count(b []byte, num protowire.Number) (n int) {
	_ = fields(b, func(f field) error { // what is malformed is refused later
		if f.num == num {
			n++
		}
		return nil
	})
	return n
}

// roomFor is for how many columns memory is allocated at a time.
const roomFor = 64

// room returns columns with room for those of a message, if they are not too many.
func (d *decoder) room(f field, num protowire.Number) Columns {
	n := min(count(f.bytes, num), MaxColumns)
	if n == 0 {
		return nil
	}
	d.taken += n
	if len(d.columns) < n {
		d.columns = make(Columns, max(n, min(roomFor, len(f.bytes))))
	}
	room := d.columns[:0:n]
	d.columns = d.columns[n:]
	return room
}

func (d *decoder) op(f field, o *Op) {
	o.Columns = d.room(f, 4)
	d.message(f, func(f field) {
		switch f.num {
		case 1:
			o.Kind = Kind(min(d.uint(f), 255))
		case 2:
			o.Table = d.name(f)
		case 3:
			o.Key = d.text(f)
		case 4:
			d.column(f, &o.Columns)
		case 5:
			d.grow()
			o.Only = append(o.Only, d.text(f))
		case 6:
			o.Condition = new(Condition)
			d.condition(f, o.Condition)
		case 7:
			o.Column = d.name(f)
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
		case 14:
			o.Component = d.name(f)
		case 15:
			o.Source = d.text(f)
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
			d.grow()
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
	d.trust()
	if n := count(b, 2); n > 1 {
		r.Outcomes = make([]Outcome, 0, min(n, MaxOps))
		d.results = make([]Result, 0, min(n, MaxOps)) // most outcomes have one
	}
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
			o.Results = d.more(o.Results)
			d.result(f, &o.Results[len(o.Results)-1])
		case 3:
			o.Error = d.error(f)
		case 4:
			o.Revisions = d.uints(f, o.Revisions)
		}
	})
}

// more appends a result. The first one of an outcome is where there is room for all outcomes.
func (d *decoder) more(list []Result) []Result {
	n := len(d.results)
	if len(list) > 0 || n == cap(d.results) {
		return append(list, Result{})
	}
	d.results = d.results[:n+1]
	return d.results[n : n+1 : n+1]
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
		case 8:
			d.component(f, r)
		}
	})
}

func (d *decoder) component(f field, r *Result) {
	var name string
	var c Component
	d.message(f, func(f field) {
		switch f.num {
		case 1:
			name = d.text(f)
		case 2:
			d.message(f, func(f field) {
				switch f.num {
				case 1:
					c.Version = d.uint(f)
				case 2:
					c.Source = d.text(f)
				}
			})
		}
	})
	if r.Components == nil {
		r.Components = map[string]Component{}
	}
	r.Components[name] = c
}

func (d *decoder) row(f field) Row {
	r := Row{Columns: d.room(f, 3)}
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

// peek returns the id, namespace and MaxAge of an encoded request, and looks at no more than that.
func peek(b []byte) (id uint64, namespace string, maxAge time.Duration) {
	_ = fields(b, func(f field) error { // what is malformed is refused later
		switch {
		case f.num == 1 && !f.sized:
			id = f.number
		case f.num == 2 && f.sized:
			namespace = string(f.bytes)
		case f.num == 7 && !f.sized:
			maxAge = time.Duration(min(f.number, math.MaxUint32)) * time.Millisecond
		}
		return nil
	})
	return id, namespace, maxAge
}

// RevisionOf returns the revision of the first outcome of an encoded response; 0 if there is none.
func RevisionOf(response []byte) (revision uint64) {
	_ = fields(response, func(f field) error {
		if f.num != 2 || !f.sized || revision > 0 {
			return nil
		}
		return fields(f.bytes, func(in field) error {
			if in.num == 1 && !in.sized {
				revision = in.number
			}
			return nil
		})
	})
	return revision
}

// Refusal returns the encoded response to an encoded request of which nothing is executed.
func Refusal(request []byte, why *Error) []byte {
	id, _, _ := peek(request)
	return (&Response{ID: id, Error: why}).Append(nil)
}
