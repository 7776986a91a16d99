// Package mirror copies structures to and from messages of protobuf that have the same fields: a field of a message is
// the field of a structure whose name for JSON is the same. So what a controller computes need not be listed a second
// time for its API.
//
// It neither encodes nor decodes anything. It uses reflection, and is not for the control path.
package mirror

import (
	"encoding"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
)

// Copy copies from, a structure or a message, to a pointer to its counterpart. Fields that only one of them has are
// left alone. It panics if fields of one name cannot be copied, which a test of their types finds with Check.
func Copy(to, from any) {
	f := reflect.ValueOf(from)
	if f.Kind() == reflect.Pointer {
		f = f.Elem()
	}
	if err := set(reflect.ValueOf(to).Elem(), f); err != nil {
		panic(fmt.Sprintf("mirror %T to %T: %v", from, to, err))
	}
}

var (
	timeType      = reflect.TypeFor[time.Time]()
	timestampType = reflect.TypeFor[*timestamppb.Timestamp]()
	textType      = reflect.TypeFor[encoding.TextMarshaler]()
	textReadType  = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// set copies a value, which may be of another type.
func set(to, from reflect.Value) error {
	t, f := to.Type(), from.Type()
	switch {
	case f == timeType && t == timestampType:
		if at := from.Interface().(time.Time); !at.IsZero() {
			to.Set(reflect.ValueOf(timestamppb.New(at)))
		}
	case f == timestampType && t == timeType:
		if at := from.Interface().(*timestamppb.Timestamp); at != nil {
			to.Set(reflect.ValueOf(at.AsTime()))
		}
	case f.Kind() == reflect.Pointer && f != timestampType:
		if from.IsNil() {
			return nil
		}
		if t.Kind() == reflect.Pointer && t != timestampType { // also if it is empty
			to.Set(reflect.New(t.Elem()))
			to = to.Elem()
		}
		return set(to, from.Elem())
	case t.Kind() == reflect.Pointer && t != timestampType:
		if from.Kind() == reflect.Struct && from.IsZero() {
			return nil
		}
		p := reflect.New(t.Elem())
		to.Set(p)
		return set(p.Elem(), from)
	case t.Kind() == reflect.Pointer || f.Kind() == reflect.Pointer: // one is a timestamp, and the other a pointer
		return setTime(to, from)
	default:
		return setPlain(to, from)
	}
	return nil
}

// setTime copies between a timestamp and a pointer to a time.
func setTime(to, from reflect.Value) error {
	switch {
	case from.Kind() == reflect.Pointer && from.IsNil():
	case from.Kind() == reflect.Pointer && from.Type() != timestampType:
		return set(to, from.Elem())
	case to.Type() != timestampType && to.Kind() == reflect.Pointer && to.Type().Elem() == timeType:
		to.Set(reflect.New(timeType))
		return set(to.Elem(), from)
	default:
		return fmt.Errorf("%v cannot become %v", from.Type(), to.Type())
	}
	return nil
}

func setPlain(to, from reflect.Value) error {
	switch {
	case to.Kind() == reflect.Struct && from.Kind() == reflect.Struct:
		return setStruct(to, from)
	case to.Kind() == reflect.Slice && from.Kind() == reflect.Slice && to.Type().Elem().Kind() == reflect.Uint8:
		to.Set(from)
	case to.Kind() == reflect.Slice && (from.Kind() == reflect.Slice || from.Kind() == reflect.Array):
		if from.Kind() == reflect.Slice && from.IsNil() {
			return nil
		}
		to.Set(reflect.MakeSlice(to.Type(), from.Len(), from.Len()))
		return setAll(to, from)
	case to.Kind() == reflect.Array && from.Kind() == reflect.Slice:
		if from.Len() > to.Len() {
			return fmt.Errorf("%d values for %v", from.Len(), to.Type())
		}
		return setAll(to, from)
	case to.Kind() == reflect.String && from.Type().Implements(textType):
		text, err := from.Interface().(encoding.TextMarshaler).MarshalText()
		if err != nil {
			return err
		}
		to.SetString(valid(string(text)))
	case from.Kind() == reflect.String && to.Addr().Type().Implements(textReadType):
		return to.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(from.String()))
	case to.Kind() == reflect.String && from.Kind() == reflect.String:
		to.SetString(valid(from.String()))
	case to.Kind() == reflect.Bool && from.Kind() == reflect.Bool:
		to.SetBool(from.Bool())
	case to.CanFloat() && from.CanFloat():
		to.SetFloat(from.Float())
	case (to.CanInt() || to.CanUint()) && (from.CanInt() || from.CanUint()):
		return setNumber(to, from)
	default:
		return fmt.Errorf("%v cannot become %v", from.Type(), to.Type())
	}
	return nil
}

// valid replaces what is not UTF-8. Names come from switches and texts from applications, and one such byte would be in
// the way of a whole message.
func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

func setAll(to, from reflect.Value) error {
	for i := range from.Len() {
		if to.Type().Elem().Kind() == reflect.Pointer && from.Index(i).Kind() == reflect.Struct {
			to.Index(i).Set(reflect.New(to.Type().Elem().Elem())) // also if it is empty
			if err := set(to.Index(i).Elem(), from.Index(i)); err != nil {
				return err
			}
		} else if err := set(to.Index(i), from.Index(i)); err != nil {
			return err
		}
	}
	return nil
}

// setNumber copies a whole number. One that is too large becomes the largest one that is possible.
func setNumber(to, from reflect.Value) error {
	switch {
	case to.CanInt() && from.CanInt():
		to.SetInt(clampInt(to, from.Int()))
	case to.CanInt():
		to.SetInt(clampInt(to, int64(min(from.Uint(), 1<<63-1))))
	case from.CanInt():
		to.SetUint(clampUint(to, uint64(max(from.Int(), 0))))
	default:
		to.SetUint(clampUint(to, from.Uint()))
	}
	return nil
}

func clampInt(to reflect.Value, n int64) int64 {
	most := int64(1)<<(to.Type().Bits()-1) - 1
	return min(max(n, -most-1), most)
}

func clampUint(to reflect.Value, n uint64) uint64 {
	if bits := to.Type().Bits(); bits < 64 {
		return min(n, uint64(1)<<bits-1)
	}
	return n
}

func setStruct(to, from reflect.Value) error {
	for _, p := range pairsOf(to.Type(), from.Type()) {
		if err := set(to.FieldByIndex(p.to), from.FieldByIndex(p.from)); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		if list := to.FieldByIndex(p.to); p.listed && list.IsNil() {
			list.Set(reflect.MakeSlice(list.Type(), 0, 0))
		}
	}
	return nil
}

// pair is a field that two types have.
type pair struct {
	name     string
	to, from []int
	listed   bool // an empty list is [] in JSON, and not null
}

var paired sync.Map // from two of reflect.Type to what pairsOf returns

func pairsOf(to, from reflect.Type) []pair {
	key := [2]reflect.Type{to, from}
	if p, is := paired.Load(key); is {
		return p.([]pair)
	}
	list, theirs := []pair{}, fields(from)
	for name, at := range fields(to) {
		if other, both := theirs[name]; both {
			f := to.FieldByIndex(at)
			tag := f.Tag.Get("json")
			listed := f.Type.Kind() == reflect.Slice && f.Tag.Get("protobuf") == "" && !strings.Contains(tag, ",omit")
			list = append(list, pair{name, at, other, listed})
		}
	}
	paired.Store(key, list)
	return list
}

// fields returns the fields of a type, by their names. Those of embedded structures are its own.
func fields(t reflect.Type) map[string][]int {
	all := map[string][]int{}
	for _, f := range reflect.VisibleFields(t) {
		if name := fieldName(f); name != "" {
			all[name] = f.Index
		}
	}
	return all
}

func fieldName(f reflect.StructField) string {
	if !f.IsExported() {
		return ""
	}
	for part := range strings.SplitSeq(f.Tag.Get("protobuf"), ",") {
		if name, is := strings.CutPrefix(part, "name="); is {
			return name
		}
	}
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	if name == "-" {
		return ""
	}
	return name
}

// Check returns the fields of a structure that the message lacks, at any depth, as paths. It copies a structure of
// which everything is set, so it panics where Copy would.
func Check(message, structure any) (missing []string) {
	from := reflect.New(reflect.TypeOf(structure)).Elem()
	fill(from, 0)
	Copy(message, from.Interface())
	return lacks(reflect.TypeOf(message).Elem(), from.Type(), "", 0)
}

// maxDepth bounds the structures within structures.
const maxDepth = 8

func fill(v reflect.Value, depth int) {
	switch {
	case depth > maxDepth || v.Type() == timeType || !v.CanSet():
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), depth+1)
	case v.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), depth+1)
	case v.Kind() == reflect.Struct && !v.Type().Implements(textType):
		for i := range v.NumField() {
			fill(v.Field(i), depth+1)
		}
	}
}

func lacks(message, structure reflect.Type, path string, depth int) (missing []string) {
	for message.Kind() == reflect.Pointer || message.Kind() == reflect.Slice {
		message = message.Elem()
	}
	for structure.Kind() == reflect.Pointer || structure.Kind() == reflect.Slice || structure.Kind() == reflect.Array {
		structure = structure.Elem()
	}
	if depth > maxDepth || message.Kind() != reflect.Struct || structure.Kind() != reflect.Struct ||
		structure == timeType || structure.Implements(textType) {
		return nil
	}
	theirs := fields(message)
	for name, at := range fields(structure) {
		other, both := theirs[name]
		if !both {
			missing = append(missing, path+name)
			continue
		}
		missing = append(missing, lacks(message.FieldByIndex(other).Type, structure.FieldByIndex(at).Type,
			path+name+".", depth+1)...)
	}
	return missing
}
