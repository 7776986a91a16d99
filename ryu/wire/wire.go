// Package wire is the protocol between Holdfast and a host of Ryu applications, as docs/design/ryu.md lays it out:
// bytes only, no I/O. Inputs are also what the ledger keeps as the history of its replayed applications, in the same
// bytes. It is not the process that hosts: that is package ryu.
package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/holdfast-sdn/holdfast/openflow"
)

// Version is that of the protocol; both sides have the same.
const Version = 1

// FrameBytes bounds a frame without its length.
const FrameBytes = 64 << 20

// Kind is what an input is.
type Kind uint8

// The kinds of input.
const (
	Up      Kind = iota + 1 // Switch, Features, Ports
	Down                    // Switch
	Message                 // Switch, Message
	Timer                   // nothing: time has gone by
	Request                 // Request
	Files                   // Files
)

// Input is one thing that happens to replayed applications.
type Input struct {
	Number   uint64 // 1, 2, 3, … without a gap
	Time     int64  // ns since 1970, never less than that of the input before
	Kind     Kind
	Switch   openflow.DatapathID
	Features []byte // a FEATURES_REPLY
	Ports    []byte // the replies with the port descriptions, one after the other
	Message  []byte // a whole OpenFlow message
	Request  []byte // as HTTPRequest.Append makes it
	Files    []byte // as FileSet.Append makes it
}

// Append appends the input as it stands in an INPUTS frame.
func (in *Input) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, in.Number)
	b = append(binary.BigEndian.AppendUint64(b, uint64(in.Time)), byte(in.Kind))
	switch in.Kind {
	case Up:
		b = binary.BigEndian.AppendUint64(b, uint64(in.Switch))
		b = appendBytes(appendBytes(b, in.Features), in.Ports)
	case Down:
		b = binary.BigEndian.AppendUint64(b, uint64(in.Switch))
	case Message:
		b = binary.BigEndian.AppendUint64(b, uint64(in.Switch))
		b = appendBytes(b, in.Message)
	case Request:
		b = binary.BigEndian.AppendUint64(b, in.Number) // the request's own id
		b = append(b, in.Request...)
	case Files:
		b = binary.BigEndian.AppendUint64(b, in.Number) // likewise
		b = append(b, in.Files...)
	}
	return b
}

// ParseInput takes the first input off b, whose slices alias it.
func ParseInput(b []byte) (in Input, rest []byte, err error) {
	d := decoder{b: b}
	in = Input{Number: d.uint64(), Time: int64(d.uint64()), Kind: Kind(d.uint8())}
	switch in.Kind {
	case Up:
		in.Switch, in.Features, in.Ports = openflow.DatapathID(d.uint64()), d.bytes(), d.bytes()
	case Down:
		in.Switch = openflow.DatapathID(d.uint64())
	case Message:
		in.Switch, in.Message = openflow.DatapathID(d.uint64()), d.bytes()
	case Timer:
	case Request:
		d.uint64()
		from := d.b
		_ = parseRequest(&d)
		in.Request = from[:len(from)-len(d.b)]
	case Files:
		d.uint64()
		from := d.b
		parseFiles(&d)
		in.Files = from[:len(from)-len(d.b)]
	default:
		d.fail(fmt.Errorf("input %d has kind %d", in.Number, in.Kind))
	}
	if d.err != nil {
		return Input{}, nil, fmt.Errorf("ryu: %w", d.err)
	}
	return in, d.b, nil
}

// Header is one of HTTP's.
type Header struct{ Name, Value string }

// HTTPRequest is a request to an application's REST interface.
type HTTPRequest struct {
	Method, Path string // Path with the query string
	Headers      []Header
	Body         []byte
}

// Append appends the request as it stands in an Input.
func (r *HTTPRequest) Append(b []byte) []byte {
	b = appendString(appendString(b, r.Method), r.Path)
	return appendBytes(appendHeaders(b, r.Headers), r.Body)
}

func parseRequest(d *decoder) HTTPRequest {
	return HTTPRequest{d.string(), d.string(), d.headers(), d.bytes()}
}

// FileSet is configuration files of applications. If it is the First, it is only for hosts that have had none.
type FileSet struct {
	First bool
	Files []File
}

// File is a file with its contents.
type File struct {
	Path    string
	Missing bool // there is no such file
	Content []byte
}

// Append appends the files as they stand in an Input.
func (s *FileSet) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(appendBool(b, s.First), uint32(len(s.Files)))
	for _, f := range s.Files {
		b = appendBytes(appendBool(appendString(b, f.Path), f.Missing), f.Content)
	}
	return b
}

// parseFiles passes over a FileSet. Only hosts look into it.
func parseFiles(d *decoder) {
	d.uint8()
	for n := d.uint32(); n > 0 && d.err == nil; n-- {
		d.bytes()
		d.uint8()
		d.bytes()
	}
}

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

// Answer answers the request, or files, that were the input of that number.
type Answer struct {
	Request uint64
	Status  int
	Headers []Header
	Body    []byte
}

// Command is a message for a switch. Its xid is the application's.
type Command struct {
	Switch  openflow.DatapathID
	Message []byte
}

// Failure is an application that raised. App is empty when it was the framework.
type Failure struct{ App, Traceback string }

// Line is one that an application has logged. Level is Python's: 20 is INFO.
type Line struct {
	Level        uint8
	Logger, Text string
}

// Result is what was done because of one input.
type Result struct {
	Number uint64
	Wake   int64  // when a Timer is wanted, ns since 1970; NoWake for never
	Digest uint32 // of Wake, Commands, Answers and of who failed: equal hosts have equal ones

	Commands []Command
	Answers  []Answer
	Failures []Failure
	Lines    []Line
}

// NoWake says that no timer is wanted.
const NoWake = -1

// resultLen is that of a Result with nothing in it.
const resultLen = 8 + 8 + 4*4

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ParseResult takes the first result off b, whose slices alias it.
func ParseResult(b []byte) (r Result, rest []byte, err error) {
	d := decoder{b: b}
	r = Result{Number: d.uint64()}
	start := d.b
	r.Wake = int64(d.uint64())
	commands, answers, failures, lines := d.uint32(), d.uint32(), d.uint32(), d.uint32()
	if d.err == nil {
		r.Digest = crc32.Checksum(start[:8+3*4], castagnoli)
	}
	start = d.b
	for ; commands > 0 && d.err == nil; commands-- {
		r.Commands = append(r.Commands, Command{openflow.DatapathID(d.uint64()), d.bytes()})
	}
	for ; answers > 0 && d.err == nil; answers-- {
		r.Answers = append(r.Answers, Answer{d.uint64(), int(d.uint16()), d.headers(), d.bytes()})
	}
	r.Digest = crc32.Update(r.Digest, castagnoli, start[:len(start)-len(d.b)])
	for ; failures > 0 && d.err == nil; failures-- {
		f := Failure{d.string(), d.string()}
		r.Digest = crc32.Update(r.Digest, castagnoli, []byte(f.App)) // tracebacks may have addresses
		r.Failures = append(r.Failures, f)
	}
	for ; lines > 0 && d.err == nil; lines-- {
		r.Lines = append(r.Lines, d.line())
	}
	if d.err != nil {
		return Result{}, nil, fmt.Errorf("ryu: result %d: %w", r.Number, d.err)
	}
	return r, d.b, nil
}

var errShort = errors.New("ends within a field")

// decoder reads fields; after the first error it returns zero values.
type decoder struct {
	b   []byte
	err error
}

func (d *decoder) raw(n int) []byte {
	if n > len(d.b) {
		d.fail(errShort)
		return nil
	}
	v := d.b[:n:n]
	d.b = d.b[n:]
	return v
}

func (d *decoder) uint8() uint8 {
	if v := d.raw(1); v != nil {
		return v[0]
	}
	return 0
}

func (d *decoder) uint16() uint16 {
	if v := d.raw(2); v != nil {
		return binary.BigEndian.Uint16(v)
	}
	return 0
}

func (d *decoder) uint32() uint32 {
	if v := d.raw(4); v != nil {
		return binary.BigEndian.Uint32(v)
	}
	return 0
}

func (d *decoder) uint64() uint64 {
	if v := d.raw(8); v != nil {
		return binary.BigEndian.Uint64(v)
	}
	return 0
}

func (d *decoder) bytes() []byte  { return d.raw(int(d.uint32())) }
func (d *decoder) string() string { return string(d.bytes()) }

func (d *decoder) headers() (list []Header) {
	for n := d.uint32(); n > 0 && d.err == nil; n-- {
		list = append(list, Header{d.string(), d.string()})
	}
	return list
}

func (d *decoder) fail(err error) {
	if d.err == nil {
		d.err = err
	}
	d.b = nil
}

func appendBytes(b, v []byte) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(v))), v...)
}

func appendString(b []byte, v string) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(v))), v...)
}

func appendHeaders(b []byte, list []Header) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(len(list)))
	for _, h := range list {
		b = appendString(appendString(b, h.Name), h.Value)
	}
	return b
}
