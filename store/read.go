package store

import "slices"

// found is a row that is read. It is valid until the next one is looked for.
type found struct {
	stored
	table    *table // of the row; nil: there is no row that refers to it
	key      string // "": the row that refers to it has no such column
	selected []int  // the columns that are asked for
}

// lookUp finds the row that a Get or Resolve asks for, if the answer has room for it.
func (n *namespace) lookUp(t *table, o *Op) (r found, there bool, err error) {
	r.table, r.key = t, o.Key
	if o.Kind == Resolve {
		r.table, r.key, err = n.referred(t, o)
	}
	if err != nil || r.table == nil || r.key == "" {
		return r, false, err
	}
	if r.stored, there, err = n.find(r.table, r.key); err != nil || !there {
		return r, false, err
	}
	selected, failed := r.table.selection(o.Only)
	if failed != nil {
		return r, false, failed
	}
	r.selected = selected
	if !n.fits(r.table.size(r.key, &r.stored, selected)) {
		return r, false, errReply()
	}
	return r, true, nil
}

// get executes Get and Resolve.
func (n *namespace) get(t *table, o *Op, out *Result) error {
	r, there, err := n.lookUp(t, o)
	switch {
	case err != nil:
		return err
	case r.table == nil:
		return Fail(NotFound, "there is no row %q in table %q", o.Key, o.Table)
	case r.key == "":
		return Fail(NotFound, "row %q of table %q has no column %q", o.Key, o.Table, t.Columns[t.through()])
	case !there:
		return Fail(NotFound, "there is no row %q", r.key)
	}
	row := r.table.row(r.key, &r.stored, r.selected)
	out.Row, out.Version = &row, row.Version
	return nil
}

// referred returns to which row of another table a row refers (section IV-A); see found.
func (n *namespace) referred(t *table, o *Op) (to *table, key string, err error) {
	if t.RefersTo == "" {
		return nil, "", Fail(Invalid, "table %q refers to no other table", o.Table)
	}
	r, there, err := n.find(t, o.Key)
	if err != nil || !there {
		return nil, "", err
	}
	if to, err = n.table(t.RefersTo); err != nil {
		return nil, "", err
	}
	return to, string(r.columns[t.through()]), nil
}

// through returns the index of the column that refers to another table.
func (d *Definition) through() int {
	if d.Through == "" {
		return 0
	}
	return slices.Index(d.Columns, d.Through)
}
