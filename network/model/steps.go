package model

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math"

	"github.com/holdfast-sdn/holdfast/app"
)

// Steps is a list of steps, encoded. A path is two or three of them, so they have a form that is small and quick:
// flags, then as varints and texts what the flags say is there.
type Steps []byte

// What a step has.
const (
	hasRemove byte = 1 << iota
	hasPop
	hasTag
	hasPush
	hasBackup
	hasClass
	hasVLAN // of the class
)

var errSteps = errors.New("steps of a change end within one: encode them with Steps.With")

// With appends a step.
func (s Steps) With(st *Step) Steps {
	at := len(s)
	s = append(s, 0)
	flags := flag(hasRemove, st.Remove) | flag(hasPop, st.Pop)
	number := func(f byte, n uint64) {
		if n > 0 {
			flags |= f
			s = binary.AppendUvarint(s, n)
		}
	}
	for _, n := range [...]uint64{st.ID, uint64(st.In), uint64(st.Out), uint64(st.Priority)} {
		s = binary.AppendUvarint(s, n)
	}
	number(hasTag, uint64(st.Tag))
	number(hasPush, uint64(st.Push))
	if st.Backup > 0 || st.BackupTag > 0 {
		flags |= hasBackup
		s = binary.AppendUvarint(binary.AppendUvarint(s, uint64(st.Backup)), uint64(st.BackupTag))
	}
	c := &st.Class
	texts := [...]string{c.Protocol, c.Source, c.Destination, c.SourcePorts, c.DestinationPorts}
	if texts != [len(texts)]string{} {
		flags |= hasClass
		for _, t := range texts {
			s = append(binary.AppendUvarint(s, uint64(len(t))), t...)
		}
	}
	if c.VLAN != nil {
		flags |= hasVLAN
		s = binary.AppendUvarint(s, uint64(*c.VLAN))
	}
	s[at] = flags
	return s
}

func flag(f byte, is bool) byte {
	if is {
		return f
	}
	return 0
}

// All yields the steps, and at the end an error if the encoding is wrong.
func (s Steps) All() iter.Seq2[*Step, error] {
	return func(yield func(*Step, error) bool) {
		for r := (reader{b: s}); len(r.b) > 0; {
			st := r.step()
			if r.failed {
				yield(nil, errSteps)
				return
			}
			if !yield(&st, nil) {
				return
			}
		}
	}
}

// reader reads the fields of steps. After the first error they are zero.
type reader struct {
	b      []byte
	failed bool
}

func (r *reader) step() (st Step) {
	flags := r.b[0]
	r.b = r.b[1:]
	st.Remove, st.Pop = flags&hasRemove > 0, flags&hasPop > 0
	st.ID, st.In, st.Out = r.number(math.MaxUint64), app.Port(r.number(math.MaxUint32)),
		app.Port(r.number(math.MaxUint32))
	st.Priority = uint16(r.number(math.MaxUint16))
	if flags&hasTag > 0 {
		st.Tag = uint16(r.number(math.MaxUint16))
	}
	if flags&hasPush > 0 {
		st.Push = uint16(r.number(math.MaxUint16))
	}
	if flags&hasBackup > 0 {
		st.Backup, st.BackupTag = app.Port(r.number(math.MaxUint32)), uint16(r.number(math.MaxUint16))
	}
	if flags&hasClass > 0 {
		c := &st.Class
		for _, t := range [...]*string{&c.Protocol, &c.Source, &c.Destination, &c.SourcePorts, &c.DestinationPorts} {
			*t = r.text()
		}
	}
	if flags&hasVLAN > 0 {
		vlan := uint16(r.number(math.MaxUint16))
		st.VLAN = &vlan
	}
	return st
}

func (r *reader) number(most uint64) uint64 {
	n, size := binary.Uvarint(r.b)
	if size <= 0 || n > most {
		r.b, r.failed = nil, true
		return 0
	}
	r.b = r.b[size:]
	return n
}

func (r *reader) text() string {
	n := r.number(math.MaxUint16)
	if n > uint64(len(r.b)) {
		r.b, r.failed = nil, true
		return ""
	}
	t := string(r.b[:n])
	r.b = r.b[n:]
	return t
}

// String lists the steps.
func (s Steps) String() string {
	text := ""
	for st, err := range s.All() {
		if err != nil {
			return text + err.Error()
		}
		text += fmt.Sprintf("%+v ", *st)
	}
	return text
}
