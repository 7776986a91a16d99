package sentry

import (
	"testing"

	"github.com/holdfast-sdn/holdfast/bfd"
)

// FuzzFrame reads any frame as that of a sentry: what it is taken for can be sent again.
func FuzzFrame(f *testing.F) {
	f.Add(appendFrame(nil, [6]byte{1}, bfd.Packet{Multiplier: 3}))
	f.Fuzz(func(t *testing.T, frame []byte) {
		p, err := parseFrame(frame)
		if err != nil {
			return
		}
		if again, err := parseFrame(appendFrame(nil, [6]byte{1}, p)); err != nil || again != p {
			t.Errorf("%+v becomes %+v, %v", p, again, err)
		}
	})
}
