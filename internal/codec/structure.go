package codec

import (
	"bytes"
	"reflect"
	"slices"
	"strings"
	"unsafe"
)

// field is a field of a struct.
type field struct {
	plan
	offset uintptr
	key    []byte                      // its name as CBOR
	empty  func(p unsafe.Pointer) bool // it is left out of a map; nil: it never is
}

// structure returns the plan of a struct, which has the fields of structs that it embeds.
func structure(t reflect.Type, within []reflect.Type) (plan, bool) {
	fields, is := fieldsOf(t, within)
	option, there := t.FieldByName("_")
	switch tag := option.Tag.Get("cbor"); {
	case !is || there && tag != ",toarray" && tag != "":
		return plan{}, false
	case tag == "":
		return mapOf(fields), true
	}
	return arrayOf(fields), true
}

// fieldsOf returns the fields of a struct that are encoded, in the order of fxamacker/cbor.
func fieldsOf(t reflect.Type, within []reflect.Type) (fields []field, is bool) {
	for _, f := range reflect.VisibleFields(t) {
		if f.Anonymous && f.IsExported() && f.Type.Kind() == reflect.Struct && f.Tag == "" {
			if slices.ContainsFunc(special, reflect.PointerTo(f.Type).Implements) {
				return nil, false
			}
			continue // its fields follow
		}
		if !f.IsExported() && !f.Anonymous {
			continue
		}
		p, is := planOf(f.Type, within)
		name, empty, simple := named(f)
		offset, direct := offsetOf(t, f.Index)
		if !is || f.Anonymous || !simple || !direct {
			return nil, false
		}
		key := append(appendHead(nil, textString, uint64(len(name))), name...)
		if slices.ContainsFunc(fields, func(o field) bool { return bytes.Equal(o.key, key) }) {
			return nil, false
		}
		fields = append(fields, field{p, offset, key, empty})
	}
	return fields, true
}

// named returns the name of a field, and when it is left out.
func named(f reflect.StructField) (name string, empty func(unsafe.Pointer) bool, is bool) {
	tag := f.Tag.Get("cbor")
	if tag == "" {
		tag = f.Tag.Get("json")
	}
	name, options, _ := strings.Cut(tag, ",")
	if name == "" {
		name = f.Name
	}
	if options == "" || name == "-" {
		return name, nil, name != "-"
	}
	switch f.Type.Kind() {
	case reflect.String:
		empty = func(p unsafe.Pointer) bool { return *(*string)(p) == "" }
	case reflect.Slice:
		empty = func(p unsafe.Pointer) bool { return (*header)(p).len == 0 }
	case reflect.Pointer:
		empty = func(p unsafe.Pointer) bool { return *(*unsafe.Pointer)(p) == nil }
	case reflect.Bool:
		empty = func(p unsafe.Pointer) bool { return !*(*bool)(p) }
	case reflect.Int:
		empty = func(p unsafe.Pointer) bool { return *(*int)(p) == 0 }
	case reflect.Uint16:
		empty = func(p unsafe.Pointer) bool { return *(*uint16)(p) == 0 }
	}
	return name, empty, options == "omitempty" && empty != nil
}

// offsetOf returns where a field is, which may be one of an embedded struct; false if a pointer leads to it.
func offsetOf(t reflect.Type, index []int) (offset uintptr, direct bool) {
	for _, i := range index {
		if t.Kind() == reflect.Pointer {
			return 0, false
		}
		f := t.Field(i)
		offset, t = offset+f.Offset, f.Type
	}
	return offset, true
}

func arrayOf(fields []field) plan {
	return plan{
		func(dst []byte, p unsafe.Pointer) []byte {
			dst = appendHead(dst, array, uint64(len(fields)))
			for i := range fields {
				dst = fields[i].append(dst, unsafe.Add(p, fields[i].offset))
			}
			return dst
		},
		func(b []byte, p unsafe.Pointer) ([]byte, bool) {
			major, n, b, is := head(b)
			if !is || major != array || n != uint64(len(fields)) {
				return nil, false
			}
			for i := range fields {
				if b, is = fields[i].parse(b, unsafe.Add(p, fields[i].offset)); !is {
					return nil, false
				}
			}
			return b, true
		},
	}
}

func mapOf(fields []field) plan {
	return plan{
		func(dst []byte, p unsafe.Pointer) []byte {
			n := 0
			for i := range fields {
				if f := &fields[i]; f.empty == nil || !f.empty(unsafe.Add(p, f.offset)) {
					n++
				}
			}
			dst = appendHead(dst, mapping, uint64(n))
			for i := range fields {
				if f := &fields[i]; f.empty == nil || !f.empty(unsafe.Add(p, f.offset)) {
					dst = f.append(append(dst, f.key...), unsafe.Add(p, f.offset))
				}
			}
			return dst
		},
		func(b []byte, p unsafe.Pointer) ([]byte, bool) {
			major, n, b, is := head(b)
			if !is || major != mapping {
				return nil, false
			}
			for i := 0; i < len(fields) && n > 0; i++ {
				f := &fields[i]
				if !bytes.HasPrefix(b, f.key) {
					continue
				}
				n--
				if b, is = f.parse(b[len(f.key):], unsafe.Add(p, f.offset)); !is {
					return nil, false
				}
			}
			return b, n == 0
		},
	}
}
