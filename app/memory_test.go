package app_test

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/holdfast-sdn/holdfast/app"
)

// A table that remembers values has what any other one has, also after transactions that are undone.
func TestRemembers(t *testing.T) {
	type row struct{ Text []string }
	texts := rapid.SliceOfN(rapid.SampledFrom([]string{"", "text", "a longer text"}), 0, 2)
	rapid.Check(t, func(r *rapid.T) {
		a := app.New("a").Whole()
		plain := app.NewTable[uint64, row](a, "plain")
		remembers := app.NewTable[uint64, row](a, "remembers", app.Remembers(2))
		var keys []uint64 // that are put if there is one text, deleted without, and read
		var put [][]string
		fails, wrong := false, 0
		run(app.Whole(plain, remembers), func(tx *app.Tx, _ app.PacketIn) error {
			for i, k := range keys {
				switch len(put[i]) {
				case 0:
					plain.Delete(tx, k)
					remembers.Delete(tx, k)
				case 1:
					plain.Put(tx, k, row{put[i]})
					remembers.Put(tx, k, row{put[i]})
				}
				want, there := plain.Get(tx, k)
				if got, is := remembers.Get(tx, k); is != there || !slices.Equal(got.Text, want.Text) {
					wrong++
				}
			}
			if fails {
				return errors.New("undone")
			}
			return nil
		})(a)
		b := newBench(t, a)
		b.event(switchUp())
		for range 10 {
			keys = rapid.SliceOfN(rapid.Uint64Range(0, 3), 1, 6).Draw(r, "keys")
			put, fails = nil, rapid.Bool().Draw(r, "fails")
			for range keys {
				put = append(put, texts.Draw(r, "put"))
			}
			b.event(packetIn(1, "x"))
		}
		if b.failures(); wrong > 0 {
			r.Errorf("%d values are wrong", wrong)
		}
	})
}
