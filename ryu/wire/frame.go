package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// FrameType is what a frame carries.
type FrameType uint8

// The types of frames. Holdfast sends HELLO, INPUTS and CHECKPOINT, the host the others.
const (
	TypeHello FrameType = iota + 1
	TypeReady
	TypeInputs
	TypeResults
	TypeFatal
	TypeCheckpoint
	TypeCheckpointed
	TypeStirred
)

func (t FrameType) String() string {
	names := [...]string{"type 0", "HELLO", "READY", "INPUTS", "RESULTS", "FATAL", "CHECKPOINT", "CHECKPOINTED",
		"STIRRED"}
	if int(t) < len(names) {
		return names[t]
	}
	return fmt.Sprintf("type %d", uint8(t))
}

// HeaderLen is the length of what stands before a frame's body: the length of the rest, and the type.
const HeaderLen = 4 + 1

// BodyBytes bounds the body of a frame.
const BodyBytes = FrameBytes - 1

// ParseHeader returns a frame's type, and how many bytes its body has.
func ParseHeader(b [HeaderLen]byte) (t FrameType, body int, err error) {
	size := binary.BigEndian.Uint32(b[:])
	if size < 1 || size > FrameBytes {
		return 0, 0, fmt.Errorf("ryu: a frame says that it has %d bytes: it may have 1 to %d", size, FrameBytes)
	}
	t = FrameType(b[4])
	if t < TypeHello || t > TypeStirred {
		return 0, 0, fmt.Errorf("ryu: a frame has %v, which version %d of the protocol does not know", t, Version)
	}
	return t, int(size) - 1, nil
}

func appendHeader(b []byte, t FrameType, body int) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(1+body)), byte(t))
}

// Hello is what a host is to be: all hosts of one log are given the same, but for Number and State.
type Hello struct {
	Seed                  uint64
	Time                  int64 // where virtual time begins, ns since 1970
	LogLevel              uint8 // Python's: 20 is INFO
	Cluster               string
	Applications, Options []string
	Number                uint64 // of the last input that State contains; 0: begin afresh
	State                 []byte // of a Checkpointed
}

// AppendHello appends a HELLO frame. It returns an error if h is too large for one.
func AppendHello(b []byte, h *Hello) ([]byte, error) {
	if len(h.State) > BodyBytes {
		return b, fmt.Errorf("ryu: a checkpoint of %d bytes does not fit into a frame of %d", len(h.State),
			FrameBytes)
	}
	start := len(b)
	out := appendHeader(b, TypeHello, 0)
	out = binary.BigEndian.AppendUint16(out, Version)
	out = binary.BigEndian.AppendUint64(out, h.Seed)
	out = append(binary.BigEndian.AppendUint64(out, uint64(h.Time)), h.LogLevel)
	out = appendStrings(appendStrings(appendString(out, h.Cluster), h.Applications), h.Options)
	out = appendBytes(binary.BigEndian.AppendUint64(out, h.Number), h.State)
	size := len(out) - start - 4
	if size > FrameBytes {
		return b, fmt.Errorf("ryu: a HELLO of %d bytes does not fit into a frame of %d", size, FrameBytes)
	}
	binary.BigEndian.PutUint32(out[start:], uint32(size))
	return out, nil
}

// AppendInputs appends an INPUTS frame with so many inputs, as Input.Append makes them.
func AppendInputs(b, inputs []byte, count int) ([]byte, error) {
	if count < 1 || count > math.MaxInt32 || len(inputs) > BodyBytes-4 {
		return b, fmt.Errorf("ryu: %d inputs of %d bytes do not make a frame: it has one at least, and %d "+
			"bytes at most", count, len(inputs), BodyBytes-4)
	}
	b = appendHeader(b, TypeInputs, 4+len(inputs))
	return append(binary.BigEndian.AppendUint32(b, uint32(count)), inputs...), nil
}

// AppendCheckpoint appends a CHECKPOINT frame.
func AppendCheckpoint(b []byte) []byte { return appendHeader(b, TypeCheckpoint, 0) }

// Ready says that the applications are loaded.
type Ready struct {
	Version       uint16 // of the protocol, as the host speaks it
	Wake          int64  // as in Result
	Python, OSKen string // versions
	Classes       []string
	Lines         []Line
}

// ParseReady reads the body of a READY frame.
func ParseReady(body []byte) (Ready, error) {
	d := decoder{b: body}
	r := Ready{Version: d.uint16()}
	if d.err == nil && r.Version != Version {
		return Ready{}, fmt.Errorf("ryu: the host speaks version %d of the protocol, Holdfast %d: they are not "+
			"of the same release", r.Version, Version)
	}
	r.Wake, r.Python, r.OSKen, r.Classes = int64(d.uint64()), d.string(), d.string(), d.strings()
	for n := d.uint32(); n > 0 && d.err == nil; n-- {
		r.Lines = append(r.Lines, d.line())
	}
	if err := d.end(TypeReady); err != nil {
		return Ready{}, err
	}
	return r, nil
}

// ParseResults reads the body of a RESULTS frame, which has one at least. What it returns aliases body.
func ParseResults(body []byte) ([]Result, error) {
	d := decoder{b: body}
	count := d.uint32()
	if d.err == nil && count == 0 {
		d.fail(errors.New("it is empty"))
	}
	results := make([]Result, 0, min(int(count), len(d.b)/resultLen))
	for ; count > 0 && d.err == nil; count-- {
		r, rest, err := ParseResult(d.b)
		if err != nil {
			return nil, err
		}
		results, d.b = append(results, r), rest
	}
	if err := d.end(TypeResults); err != nil {
		return nil, err
	}
	return results, nil
}

// ParseFatal reads the body of a FATAL frame: the traceback of what ends the host.
func ParseFatal(body []byte) (string, error) {
	d := decoder{b: body}
	text := d.string()
	return text, d.end(TypeFatal)
}

// Checkpointed answers a CHECKPOINT.
type Checkpointed struct {
	Number uint64 // of the last input that was executed
	State  []byte // for Hello; empty if the applications' state cannot be kept
	Reason string // why not
}

// ParseCheckpointed reads the body of a CHECKPOINTED frame. What it returns aliases body.
func ParseCheckpointed(body []byte) (Checkpointed, error) {
	d := decoder{b: body}
	c := Checkpointed{d.uint64(), d.bytes(), d.string()}
	if err := d.end(TypeCheckpointed); err != nil {
		return Checkpointed{}, err
	}
	return c, nil
}

func (d *decoder) strings() (list []string) {
	for n := d.uint32(); n > 0 && d.err == nil; n-- {
		list = append(list, d.string())
	}
	return list
}

func (d *decoder) line() Line { return Line{d.uint8(), d.string(), d.string()} }

// end returns what is wrong with the frame, of which nothing may be left.
func (d *decoder) end(t FrameType) error {
	if len(d.b) > 0 {
		d.fail(fmt.Errorf("%d bytes too many", len(d.b)))
	}
	if d.err != nil {
		return fmt.Errorf("ryu: %v frame: %w", t, d.err)
	}
	return nil
}

func appendStrings(b []byte, list []string) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(len(list)))
	for _, v := range list {
		b = appendString(b, v)
	}
	return b
}
