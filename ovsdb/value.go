package ovsdb

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// uuid is the identity of a row. As JSON it is ["uuid", "…"] (5.1).
type uuid string

// MarshalJSON implements json.Marshaler.
func (u uuid) MarshalJSON() ([]byte, error) { return json.Marshal([2]string{"uuid", string(u)}) }

// textMap is a map of strings to strings, ["map", [[k, v], …]], in a fixed order.
type textMap map[string]string

// MarshalJSON implements json.Marshaler.
func (m textMap) MarshalJSON() ([]byte, error) {
	pairs := [][2]string{}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		pairs = append(pairs, [2]string{k, m[k]})
	}
	return json.Marshal([2]any{"map", pairs})
}

// UnmarshalJSON implements json.Unmarshaler.
func (m *textMap) UnmarshalJSON(b []byte) error {
	var pairs [][]string
	if err := tagged(b, "map", &pairs); err != nil {
		return err
	}
	*m = make(textMap, len(pairs))
	for _, p := range pairs {
		if len(p) != 2 {
			return fmt.Errorf("a map with a pair of %d", len(p))
		}
		(*m)[p[0]] = p[1]
	}
	return nil
}

// textSet is a set of strings, ["set", ["…", …]].
type textSet []string

// MarshalJSON implements json.Marshaler.
func (s textSet) MarshalJSON() ([]byte, error) { return json.Marshal([2]any{"set", []string(s)}) }

// set is a set of any atoms. A single atom is encoded without ["set", …] (5.1).
type set[T any] []T

// UnmarshalJSON implements json.Unmarshaler.
func (s *set[T]) UnmarshalJSON(b []byte) error {
	var atoms []json.RawMessage
	if err := tagged(b, "set", &atoms); err != nil {
		atoms = []json.RawMessage{b}
	}
	*s = make(set[T], len(atoms))
	for i, a := range atoms {
		if err := json.Unmarshal(a, &(*s)[i]); err != nil {
			return err
		}
	}
	return nil
}

// first returns the only element of an optional value, or the zero value.
func (s set[T]) first() (v T) {
	if len(s) > 0 {
		v = s[0]
	}
	return v
}

// UnmarshalJSON implements json.Unmarshaler.
func (u *uuid) UnmarshalJSON(b []byte) error { return tagged(b, "uuid", (*string)(u)) }

// tagged reads [tag, value].
func tagged(b []byte, tag string, value any) error {
	var pair []json.RawMessage
	if err := json.Unmarshal(b, &pair); err != nil || len(pair) != 2 {
		return errors.Join(fmt.Errorf("no %s: %.40s", tag, b), err)
	}
	var got string
	if err := json.Unmarshal(pair[0], &got); err != nil || got != tag {
		return fmt.Errorf("no %s: %.40s", tag, b)
	}
	return json.Unmarshal(pair[1], value)
}
