package store

import (
	"encoding/binary"
	"errors"

	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/store/component"
)

// Micro components (section IV-D) are executed by package component, on the leader, in the transaction of their op.
// Their bounds are those of package component, and:
const (
	MaxComponents = 256 // of a namespace
	// MaxSteps bounds the steps of one run, and maxRunBytes the bytes of its values. Those of all runs of a request are
	// bounded by runsOfRequest times as much, so that other requests do not wait for long.
	MaxSteps      = 50_000
	maxRunBytes   = 1 << 20
	runsOfRequest = 4
)

// checkComponent checks an op on a component.
func (o *Op) checkComponent() *Error {
	switch {
	case o.Kind != ListComponents && !isName(o.Component):
		return Fail(Invalid, "%q is not the name of a component: %s", o.Component, nameRule)
	case o.Kind == ListComponents && o.Component != "":
		return Fail(Invalid, "%s has no component", o.Kind)
	case o.Kind != Upload && o.Source != "":
		return Fail(Invalid, "%s has no source", o.Kind)
	case o.Kind != Run && o.Columns != nil:
		return Fail(Invalid, "%s has no columns", o.Kind)
	case len(o.Columns) > MaxColumns:
		return Fail(Invalid, "a component has at most %d arguments, these are %d", MaxColumns, len(o.Columns))
	case o.Condition != nil && (o.Kind != Upload || o.Condition.Columns != nil):
		return Fail(Invalid, "%s has no such condition", o.Kind)
	case o.Kind != ListComponents && (o.Start != "" || o.Limit != 0):
		return Fail(Invalid, "%s has no range", o.Kind)
	case o.Limit < 0 || o.Limit > MaxPage:
		return Fail(Invalid, "limit %d: a list has at most %d components, and then next says where the others begin",
			o.Limit, MaxPage)
	case len(o.Key) > MaxKey:
		return Fail(Invalid, "a key has at most %d bytes, this one has %d", MaxKey, len(o.Key))
	case o.Table != "" || o.Key != "" && o.Kind != Run || o.Only != nil || o.Column != "" || o.Delta != 0 ||
		o.End != "" || o.Prefix != "" || o.Definition != nil:
		return Fail(Invalid, "%s has no table, and nothing that belongs to rows", o.Kind)
	}
	return o.checkSizes()
}

// storedComponent is a component as it is stored.
type storedComponent struct {
	version uint64
	source  []byte // not to be modified
}

func decodeComponent(b []byte) storedComponent {
	version, n := binary.Uvarint(b)
	return storedComponent{version, b[max(n, 0):]}
}

// component returns a component; false if it is not there.
func (n *namespace) component(name string) (storedComponent, bool) {
	b, there := n.tx.Get(n.tx.Table(componentTable), n.cell, ledger.Key{S: name})
	return decodeComponent(b), there
}

// onComponent executes an op on a component.
func (n *namespace) onComponent(o *Op, out *Result) error {
	switch {
	case o.Kind == ListComponents:
		return n.listComponents(o, out)
	case o.Kind == Run && o.Component == n.ran.name:
		return n.runProgram(o, n.ran.Program, out)
	}
	c, there := n.component(o.Component)
	if !there && o.Kind != Upload {
		return Fail(NotFound, "there is no component %q in namespace %s", o.Component, n.name)
	}
	switch o.Kind {
	case Upload:
		return n.upload(o, c, there, out)
	case RemoveComponent:
		n.removeComponent(o.Component, out)
		return nil
	}
	return n.runComponent(o, c, out)
}

func (n *namespace) removeComponent(name string, out *Result) {
	n.meta.components--
	out.Version = n.next()
	n.tx.Delete(n.tx.Table(componentTable), n.cell, ledger.Key{S: name})
	n.forgetSeen()
}

func (n *namespace) upload(o *Op, before storedComponent, there bool, out *Result) error {
	if _, err := n.parse(o.Component, o.Source); err != nil {
		if _, is := errors.AsType[*Error](err); is {
			return err
		}
		return Fail(Invalid, "component %s: %v", o.Component, err)
	}
	if c := o.Condition; c != nil && c.Version != nil && *c.Version != before.version {
		return Fail(Conflict, "the component has version %d, not %d", before.version, *c.Version)
	}
	if !there {
		if n.meta.components++; n.meta.components > MaxComponents {
			return Fail(TooLarge, "namespace %s has %d components, no more are possible", n.name, MaxComponents)
		}
	}
	if err := n.writes(len(o.Source)); err != nil {
		return err
	}
	out.Version = n.next()
	b := append(binary.AppendUvarint(nil, out.Version), o.Source...)
	n.tx.Put(n.tx.Table(componentTable), n.cell, ledger.Key{S: o.Component}, b)
	n.forgetSeen()
	return nil
}

// listComponents reads components, as list reads rows.
func (n *namespace) listComponents(o *Op, out *Result) error {
	out.Components = map[string]Component{}
	for field, b := range n.tx.FieldsFrom(n.tx.Table(componentTable), n.cell, ledger.Key{S: o.Start}) {
		if o.Limit > 0 && len(out.Components) == o.Limit {
			out.Next = field.S
			return nil
		}
		c := decodeComponent(b)
		if !n.fits(32 + len(field.S) + len(c.source)) {
			if len(out.Components) == 0 {
				return errReply()
			}
			out.Next = field.S
			return nil
		}
		out.Components[field.S] = Component{c.version, string(c.source)}
	}
	return nil
}

// program returns a parsed component.
func (n *namespace) program(name string, c storedComponent) (*component.Program, error) {
	id := programID{n.name, name}
	if p := n.app.programs[id]; p.source == string(c.source) {
		return p.Program, nil
	}
	source := string(c.source)
	p, err := n.parse(name, source)
	if _, is := errors.AsType[*component.Error](err); is {
		return nil, damaged("component "+name, n.name, err)
	}
	if err != nil {
		return nil, err
	}
	if n.app.parsed += len(source); n.app.parsed > maxParsed {
		clear(n.app.programs)
		n.app.parsed = len(source)
	}
	n.app.programs[id] = program{source, p}
	return p, nil
}

// maxParsed bounds the sources of the programs that are kept parsed, in bytes. A parsed one needs up to 80 times as
// much.
const maxParsed = 512 << 10

// stepsOfByte is what it takes to parse a byte of a source, in steps.
const stepsOfByte = 4

// parse parses a source, which is counted as steps of the request.
func (n *namespace) parse(name, source string) (*component.Program, error) {
	steps := stepsOfByte * min(len(source), component.MaxSource)
	if n.app.runs.Steps < steps {
		return nil, errTogether(name)
	}
	n.app.runs.Steps -= steps
	return component.Parse(source)
}

func errTogether(name string) *Error {
	return Fail(TooLarge, "component %s: the components of the request need too much together: do less at a time", name)
}

type programID struct{ namespace, name string }

// program is a component that was parsed. Its source tells whether it is the present one: what a refused transaction
// uploads has a version that is used again.
type program struct {
	source string
	*component.Program
}

func (n *namespace) runComponent(o *Op, c storedComponent, out *Result) error {
	p, err := n.program(o.Component, c)
	if err != nil {
		return err
	}
	n.ran = ranComponent{o.Component, p}
	return n.runProgram(o, p, out)
}

// ranComponent is a component that the ledger has, with its name.
type ranComponent struct {
	name string
	*component.Program
}

func (n *namespace) runProgram(o *Op, p *component.Program, out *Result) error {
	left := n.app.runs
	limits := component.Limits{Steps: min(left.Steps, MaxSteps), Bytes: min(left.Bytes, maxRunBytes)}
	before := limits
	s := &n.app.scratch
	s.runs.Reset()
	v, err := p.Run(&beside{n}, s.dict(o.Columns), &limits, &s.runs)
	n.app.runs.Steps -= before.Steps - limits.Steps
	n.app.runs.Bytes -= before.Bytes - limits.Bytes
	if err == nil {
		err = n.returned(v, out)
	}
	if err == nil {
		return nil
	}
	refused, is := errors.AsType[*Error](err)
	_, fault := errors.AsType[*component.Error](err)
	switch {
	case is:
		return Fail(refused.Code, "component %s: %s", o.Component, refused.Message)
	case errors.Is(err, component.ErrLimit) && (before.Steps < MaxSteps || before.Bytes < maxRunBytes):
		return errTogether(o.Component)
	case fault || errors.Is(err, component.ErrLimit):
		return Fail(ComponentFailed, "component %s: %v", o.Component, err)
	}
	return err
}

// returned sets the result of a component: a row, or several.
func (n *namespace) returned(v component.Value, out *Result) error {
	switch v := v.(type) {
	case nil:
		return nil
	case *component.List:
		return n.returnedRows(v.Items, out)
	case component.Tuple:
		return n.returnedRows(v, out)
	}
	row, err := n.returnedRow(v)
	out.Row = &row
	return err
}

func (n *namespace) returnedRows(items []component.Value, out *Result) error {
	if len(items) > MaxPage {
		return Fail(ComponentFailed, "it returns %d rows, %d are possible", len(items), MaxPage)
	}
	out.Rows = make([]Row, 0, len(items))
	for _, item := range items {
		row, err := n.returnedRow(item)
		if err != nil {
			return err
		}
		out.Rows = append(out.Rows, row)
	}
	return nil
}

// returnedRow converts a dictionary, or a value, which is then that of DefaultColumn. None is a row without columns.
func (n *namespace) returnedRow(v component.Value) (row Row, err error) {
	switch v := v.(type) {
	case nil:
	case *component.Dict:
		if row.Columns, err = n.app.scratch.columnsOf(v); err != nil {
			return row, err
		}
	default:
		b, err := n.app.scratch.bytesOf(v)
		if err != nil {
			return row, err
		}
		row.Columns = Value(b)
	}
	if !n.fits(row.size()) {
		return row, errReply()
	}
	return row, nil
}
