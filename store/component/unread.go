package component

import "strings"

// Fields are names with texts, each name once, that a host returns as a dictionary. They must not change until the
// Reset of the Memory.
type Fields interface {
	Len() int
	At(i int) (name string, text []byte)
}

// Of returns a dictionary that has fields. Most columns of rows are never read, or returned as they are, so they become
// entries only if that is needed.
func (m *Memory) Of(f Fields) *Dict {
	d := m.Dict(0)
	d.unread = f
	return d
}

// Unread returns the fields that the dictionary has, if none was set or removed and no loop went over them; else nil.
func (d *Dict) Unread() Fields { return d.unread }

// text returns the text of an unread field.
func (d *Dict) text(key Value) (Value, bool) {
	name, _ := key.(string)
	at := 0
	for i := range d.unread.Len() {
		other, b := d.unread.At(i)
		if other == name && name != "" {
			return d.all()[at : at+len(b)], true
		}
		at += len(b)
	}
	return nil, false
}

// all returns the texts of all fields. They are copied once, which costs less than many short strings.
func (d *Dict) all() string {
	if d.copied {
		return d.texts
	}
	size := 0
	for i := range d.unread.Len() {
		_, b := d.unread.At(i)
		size += len(b)
	}
	var all strings.Builder
	all.Grow(size)
	for i := range d.unread.Len() {
		_, b := d.unread.At(i)
		all.Write(b)
	}
	d.texts, d.copied = all.String(), true
	return d.texts
}

// read makes entries of the fields, because all of them are needed, or one changes.
func (d *Dict) read() {
	if d.unread == nil {
		return
	}
	f, all := d.unread, d.all()
	d.unread, d.texts, d.copied = nil, "", false
	for i := range f.Len() {
		name, b := f.At(i)
		d.Set(name, all[:len(b)])
		all = all[len(b):]
	}
}
