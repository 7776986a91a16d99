package store

import (
	"slices"
	"unicode/utf8"

	"github.com/holdfast-sdn/holdfast/store/component"
)

// beside is what components can do with the data of a namespace: the functions of `store`. It implements
// component.Host.
type beside struct{ n *namespace }

// functions of components, with their parameters: fields of an op.
var functions = map[string]struct {
	kind       Kind
	parameters []string
}{
	"get":     {Get, []string{"table", "key", "only"}},
	"version": {Get, []string{"table", "key"}},
	"resolve": {Resolve, []string{"table", "key", "only"}},
	"list":    {List, []string{"table", "prefix", "start", "end", "limit", "only"}},
	"create":  {Create, []string{"table", "key", "columns"}},
	"put":     {Put, []string{"table", "key", "columns", "if_version", "if_columns"}},
	"update":  {Update, []string{"table", "key", "columns", "if_version", "if_columns"}},
	"delete":  {Delete, []string{"table", "key", "if_version", "if_columns"}},
	"check":   {0, []string{"table", "key", "if_version", "if_columns"}},
	"add":     {Add, []string{"table", "key", "delta", "column", "if_version", "if_columns"}},
}

// Call executes an op. Reads return None for a row that is not there.
func (b *beside) Call(name string, args []component.Value, named *component.Dict) (component.Value, error) {
	if name == "now_ms" && len(args) == 0 && named.Len() == 0 {
		return b.n.tx.Now().UnixMilli(), nil
	}
	f, there := functions[name]
	if !there {
		return nil, Fail(ComponentFailed, "there is no function store.%s with these arguments", name)
	}
	o := &b.n.app.scratch.op
	*o = Op{Kind: f.kind}
	if o.Kind == Add {
		o.Delta = 1
	}
	for i, v := range args {
		if i == len(f.parameters) {
			return nil, Fail(ComponentFailed, "store.%s has %d parameters, %d are given", name, i, len(args))
		}
		if err := b.set(o, name, f.parameters[i], v); err != nil {
			return nil, err
		}
	}
	for k, v := range named.All {
		parameter, _ := k.(string)
		if i := slices.Index(f.parameters, parameter); i < len(args) {
			return nil, Fail(ComponentFailed, "store.%s has no parameter %q, or it is given twice", name, parameter)
		}
		if err := b.set(o, name, parameter, v); err != nil {
			return nil, err
		}
	}
	return b.do(name, o)
}

func (b *beside) do(name string, o *Op) (component.Value, error) {
	if !utf8.ValidString(o.Key) || o.Kind == List && !o.IsText() { // other names are those of tables and columns
		return nil, Fail(ComponentFailed, "a name or key that store.%s is given is not UTF-8", name)
	}
	if o.Kind == 0 {
		return nil, b.checkRow(o)
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	if o.Kind == Get || o.Kind == Resolve {
		return b.read(name, o)
	}
	out := &b.n.app.scratch.result
	*out = Result{}
	switch err := b.n.do(o, out); {
	case err != nil:
		return nil, err
	case o.Kind == Add:
		return out.Value, nil
	case o.Kind != List:
		return int64(out.Version), nil
	}
	if out.Next != "" && (o.Limit == 0 || len(out.Rows) < o.Limit) {
		return nil, Fail(TooLarge, "store.list: there are more rows than one answer has: give a limit, or a range")
	}
	l := &component.List{}
	for _, row := range out.Rows {
		l.Items = append(l.Items, component.Tuple{row.Key, b.n.app.scratch.dict(row.Columns)})
	}
	return l, nil
}

// read returns a row, or its version.
func (b *beside) read(name string, o *Op) (component.Value, error) {
	t, err := b.n.table(o.Table)
	if err != nil {
		return nil, err
	}
	r, there, err := b.n.lookUp(t, o)
	switch {
	case err != nil:
		return nil, err
	case name == "version":
		return int64(r.version), nil
	case !there:
		return nil, nil
	}
	return b.n.app.scratch.row(&r), nil
}

// checkRow refuses the transaction if a condition does not hold for a row, which stays as it is.
func (b *beside) checkRow(o *Op) error {
	get := Op{Kind: Get, Table: o.Table, Key: o.Key}
	if err := get.check(); err != nil {
		return err
	}
	t, err := b.n.table(o.Table)
	if err != nil {
		return err
	}
	r, there, err := b.n.find(t, o.Key)
	if err != nil {
		return err
	}
	return o.Condition.holds(t, &r, there)
}

// set sets a field of an op.
func (b *beside) set(o *Op, function, parameter string, v component.Value) (err error) {
	s, is := &b.n.app.scratch, true
	switch parameter {
	case "table":
		o.Table, is = v.(string)
	case "key":
		o.Key, is = v.(string)
	case "prefix":
		o.Prefix, is = v.(string)
	case "start":
		o.Start, is = v.(string)
	case "end":
		o.End, is = v.(string)
	case "column":
		o.Column, is = v.(string)
	case "delta":
		o.Delta, is = v.(int64)
	case "limit":
		var limit int64
		limit, is = v.(int64)
		o.Limit = int(max(-1, min(limit, MaxPage+1)))
	case "if_version":
		var version int64
		if version, is = v.(int64); is {
			at := uint64(version)
			o.condition().Version = &at
		}
	case "columns", "if_columns":
		var d *component.Dict
		if d, is = v.(*component.Dict); is {
			to := &o.Columns
			if parameter == "if_columns" {
				to = &o.condition().Columns
			}
			*to, err = s.columnsOf(d)
		}
	case "only":
		var l *component.List
		if l, is = v.(*component.List); is {
			if s.only == nil {
				s.only = make([]string, 0, MaxColumns)
			}
			o.Only = s.only[:0]
			for _, item := range l.Items {
				name, text := item.(string)
				o.Only, is = append(o.Only, name), is && text
			}
		}
	}
	if !is {
		return Fail(ComponentFailed, "%s of store.%s cannot be a %s", parameter, function, component.TypeOf(v))
	}
	return err
}

// condition returns the condition of an op, which it has then.
func (o *Op) condition() *Condition {
	if o.Condition == nil {
		o.Condition = new(Condition)
	}
	return o.Condition
}
