package wire

import (
	"bytes"
	"testing"
)

// FuzzInput decodes arbitrary bytes as an input: the result is an error, or an input that is encoded to the same
// bytes.
func FuzzInput(f *testing.F) {
	for _, in := range []Input{
		{Number: 1, Kind: Up, Switch: 1, Features: []byte("features"), Ports: []byte("ports")},
		{Number: 2, Kind: Down, Switch: 1},
		{Number: 3, Kind: Message, Switch: 1, Message: []byte("message")},
		{Number: 4, Kind: Timer},
		{Number: 5, Kind: Request, Request: (&HTTPRequest{"GET", "/", []Header{{"A", "b"}}, nil}).Append(nil)},
		{Number: 6, Kind: Files, Files: (&FileSet{true, []File{{"/a", false, []byte("b")}, {"/c", true, nil}}}).Append(nil)},
	} {
		f.Add(in.Append(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		in, rest, err := ParseInput(b)
		if err != nil {
			return
		}
		read := bytes.Clone(b[:len(b)-len(rest)])
		if in.Kind == Request || in.Kind == Files {
			copy(read[17:25], read[:8]) // its own id is its number
		}
		if again := in.Append(nil); !bytes.Equal(again, read) {
			t.Fatalf("read   %x\nwritten %x", read, again)
		}
	})
}

// FuzzResult decodes arbitrary bytes as a result.
func FuzzResult(f *testing.F) {
	f.Add(appendResult(nil, result(1)))
	f.Add(appendResult(nil, Result{Number: 2, Wake: NoWake}))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, rest, err := ParseResult(b)
		if err != nil {
			return
		}
		if again := appendResult(nil, r); !bytes.Equal(again, b[:len(b)-len(rest)]) {
			t.Fatalf("read   %x\nwritten %x", b[:len(b)-len(rest)], again)
		}
	})
}

// FuzzFrame decodes arbitrary bytes as frames of a host: the result is an error, never a panic.
func FuzzFrame(f *testing.F) {
	for typ, body := range map[FrameType][]byte{
		TypeReady: readyBody(), TypeResults: resultsBody(result(1), result(2)),
		TypeFatal: appendString(nil, "it broke"), TypeCheckpointed: checkpointedBody(), TypeStirred: nil,
	} {
		f.Add(append(appendHeader(nil, typ, len(body)), body...))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < HeaderLen {
			return
		}
		typ, size, err := ParseHeader([HeaderLen]byte(b))
		if err != nil || size != len(b)-HeaderLen {
			return
		}
		switch body := b[HeaderLen:]; typ {
		case TypeReady:
			_, _ = ParseReady(body)
		case TypeResults:
			if results, err := ParseResults(body); err == nil && !bytes.Equal(resultsBody(results...), body) {
				t.Fatalf("read   %x\nwritten %x", body, resultsBody(results...))
			}
		case TypeFatal:
			_, _ = ParseFatal(body)
		case TypeCheckpointed:
			_, _ = ParseCheckpointed(body)
		}
	})
}
