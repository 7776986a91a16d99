package of14

import (
	"bytes"
	"errors"
	"testing"

	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// FuzzToV13: no input causes a panic. Accepted input becomes valid messages of 1.3 with the xid of the input, and
// refused input appends nothing.
func FuzzToV13(f *testing.F) {
	for _, c := range toV13Cases() {
		f.Add(c.msg)
	}
	f.Fuzz(func(t *testing.T, msg []byte) {
		// so that the fuzzer changes what follows the header
		if len(msg) >= openflow.HeaderLen && len(msg) <= openflow.MaxMessageLen {
			msg[0] = v14 + msg[0]&1
			openflow.SetLength(msg)
		}
		out, err := ToV13([]byte("before"), msg)
		if !bytes.HasPrefix(out, []byte("before")) {
			t.Fatalf("dst became %x", out)
		}
		out = out[len("before"):]
		var e *openflow.Error
		if err != nil {
			if !errors.As(err, &e) || len(out) > 0 || e.Offset > len(msg) {
				t.Fatalf("error %v, and %x", err, out)
			}
			return
		}
		for len(out) > 0 {
			m, rest, err := openflow.Next(out)
			if err != nil || m == nil || openflow.XID(m) != openflow.XID(msg) {
				t.Fatalf("%x became %x: %v", msg, out, err)
			}
			if _, err := of13.Decode(m); err != nil {
				t.Fatalf("%x became %x: %v", msg, m, err)
			}
			out = rest
		}
	})
}

// FuzzFromV13: the same in the other direction. Without a decoder of the later versions, the output is only checked
// to be complete messages.
func FuzzFromV13(f *testing.F) {
	for _, c := range fromV13Cases() {
		f.Add(c.msg.Append(nil, testXID))
	}
	f.Fuzz(func(t *testing.T, msg []byte) {
		if len(msg) >= openflow.HeaderLen && len(msg) <= openflow.MaxMessageLen {
			msg[0] = of13.Version
			openflow.SetLength(msg)
		}
		for _, version := range []uint8{v14, v15} {
			out, err := FromV13([]byte("before"), msg, version)
			if !bytes.HasPrefix(out, []byte("before")) {
				t.Fatalf("dst became %x", out)
			}
			out = out[len("before"):]
			var e *openflow.Error
			if err != nil {
				if !errors.As(err, &e) || len(out) > 0 || e.Offset > len(msg) {
					t.Fatalf("error %v, and %x", err, out)
				}
				continue
			}
			h, err := openflow.ParseHeader(out)
			if err != nil || int(h.Length) != len(out) || h.Version != version || h.XID != openflow.XID(msg) {
				t.Fatalf("%x became %x: %v", msg, out, err)
			}
		}
	})
}
