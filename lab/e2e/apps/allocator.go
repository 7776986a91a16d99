package apps

import (
	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// The network of the allocator: switches 1 and 2 each have a source at port 1, and path p
// begins at port AllocatorPath+p; switches from 3 on are the ends of paths and send all to port 3.
const (
	AllocatorPath     = 2
	AllocatorPaths    = 2
	AllocatorCapacity = 2 // of a path
)

// NewAllocator gives each new flow to the first path that has room for it (Ravana, figure 2a). A flow is a
// destination address, whose fifth byte is its demand.
func NewAllocator() *app.App {
	a := app.New("allocator")
	loads := app.NewTable[uint32, uint32](a, "loads") // by path
	paths := app.NewTable[app.MAC, uint32](a, "paths")
	app.Handle(a, nil, func(tx *app.Tx, up app.SwitchUp) error {
		out := of13.PortController
		if up.Switch > 2 {
			out = 3
		}
		tx.FlowMod(up.Switch, flow(0, nil, out))
		return nil
	})
	cells := func(in app.PacketIn) app.Cells {
		return app.Need(paths.Cell(in.EthDst()), loads.Cell(0), loads.Cell(1))
	}
	app.Handle(a, cells, func(tx *app.Tx, in app.PacketIn) error {
		dst := in.EthDst()
		demand := uint32(dst[4])
		path, known := paths.Get(tx, dst)
		for !known && path < AllocatorPaths-1 {
			if load, _ := loads.Get(tx, path); load+demand <= AllocatorCapacity {
				break
			}
			path++
		}
		if !known {
			load, _ := loads.Get(tx, path)
			loads.Put(tx, path, load+demand)
			paths.Put(tx, dst, path)
			tx.FlowMod(in.Switch, flow(1, of13.Match(nil).WithEthDst(dst), app.Port(AllocatorPath+path)))
		}
		tx.PacketOut(in.Switch, of13.PacketOut{BufferID: of13.NoBuffer, InPort: in.InPort, Data: in.Data,
			Actions: of13.Actions(nil).Output(app.Port(AllocatorPath+path), 0)})
		return nil
	})
	return a
}

// flow adds a flow that sends what matches to a port.
func flow(priority uint16, m of13.Match, out app.Port) of13.FlowMod {
	return of13.FlowMod{Command: of13.FlowAdd, Priority: priority, Match: m, BufferID: of13.NoBuffer,
		Instructions: of13.Instructions(nil).Apply(of13.Actions(nil).Output(out, of13.MaxLenNoBuffer))}
}
