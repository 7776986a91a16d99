package apps

import (
	"bytes"
	"errors"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// NewFragile counts packets, and sends them out with one byte for each that it has counted. When
// the packet's text begins with "panic" or "error" it fails in that way, having done all that.
func NewFragile() *app.App {
	a := app.New("fragile")
	counts := app.NewTable[string, uint64](a, "counts")
	cell := app.Need(counts.Cell("packets"))
	app.Handle(a, func(app.PacketIn) app.Cells { return cell }, func(tx *app.Tx, in app.PacketIn) error {
		n, _ := counts.Get(tx, "packets")
		n++
		counts.Put(tx, "packets", n)
		tx.PacketOut(in.Switch, of13.PacketOut{BufferID: of13.NoBuffer, InPort: of13.PortController,
			Actions: of13.Actions(nil).Output(1, 0), Data: append(bytes.Clone(in.Data[:14]),
				bytes.Repeat([]byte{'+'}, int(n))...)})
		switch text := in.Data[14:]; {
		case bytes.HasPrefix(text, []byte("panic")):
			var none *app.Tx
			none.CancelTimer("") // as bugs are
		case bytes.HasPrefix(text, []byte("error")):
			return errors.New("this is not a packet that I like")
		}
		return nil
	})
	return a
}
