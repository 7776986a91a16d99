package edge

import (
	"fmt"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/network/topology"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

const (
	// Floods in a second, of all hosts and of those at one port. Further ones are dropped and counted.
	networkRate, portRate = 100, 20

	maxLength = 2048 // of a frame, in bytes; discovery needs less

	// turn is how many bytes of PACKET_OUT a flood sends at once; the rest waits for a timer. A transaction may have 3
	// MiB.
	turn = 1 << 20
)

// rate counts the floods of the current second.
type rate struct {
	_      struct{} `cbor:",toarray"`
	Second int64
	Floods uint32
}

// take reports whether there is room for one more, and takes it.
func (r *rate) take(now time.Time, most uint32) bool {
	if s := now.Unix(); s != r.Second {
		r.Second, r.Floods = s, 0
	}
	if r.Floods >= most {
		return false
	}
	r.Floods++
	return true
}

// totals counts frames.
type totals struct {
	_        struct{} `cbor:",toarray"`
	Rate     rate
	Flooded  uint64
	Directed uint64 // to one host
	Dropped  uint64 // over the rate
}

// discovery reads a frame, and reports whether it is one by which hosts find each other.
func discovery(in *app.PacketIn) (f topology.Frame, ok bool) {
	f, _ = topology.ReadFrame(in.Data)
	return f, f.Discovery && len(in.Data) <= maxLength && len(in.Data) >= int(in.TotalLen)
}

// packetIn handles a frame that came in at the edge.
func (e *edge) packetIn(tx *app.Tx, in app.PacketIn) error {
	at := app.PortOf{Switch: in.Switch, Port: in.InPort}
	f, ok := discovery(&in)
	if !ok {
		return nil // most are probes
	}
	row, i, known := e.find(tx, at)
	if !known || !row[i].outside(tx.Now().UnixNano()) {
		return nil
	}
	if h, known := e.hosts.Get(tx, all, f.From); known && h.At != at {
		return nil // it has looped back; or the host has moved here, which topology reports after this
	}
	if o, _ := e.addresses.Get(tx, all, f.Own.String()); o.Asked && o.MAC == f.From {
		e.addresses.Put(tx, all, f.Own.String(), owner{MAC: o.MAC})
	}
	if !f.Group {
		return nil
	}
	sum, _ := e.totals.Get(tx, all)
	if to, known := e.meant(tx, f); known {
		sum.Directed++
		e.totals.Put(tx, all, sum)
		if to != at { // else it has received it already
			tx.PacketOut(to.Switch, frameOut(in.Data, of13.Actions(nil).Output(to.Port, 0)))
		}
		return nil
	}
	r, _ := e.rates.Get(tx, all, at)
	if !r.take(tx.Now(), portRate) || !sum.Rate.take(tx.Now(), networkRate) {
		sum.Dropped++
		e.totals.Put(tx, all, sum)
		return nil
	}
	sum.Flooded++
	e.rates.Put(tx, all, at, r)
	e.totals.Put(tx, all, sum)
	return e.flood(tx, flood{Number: sum.Flooded, From: at, Frame: in.Data})
}

// meant finds the one host that a frame is for. A host that was asked and has not answered may have lost its address to
// another host that has not sent anything yet, so the next request is flooded.
func (e *edge) meant(tx *app.Tx, f topology.Frame) (app.PortOf, bool) {
	o, known := e.addresses.Get(tx, all, f.Asks.String())
	if !known || o.Asked || o.MAC == f.From {
		return app.PortOf{}, false
	}
	o.Asked = true
	e.addresses.Put(tx, all, f.Asks.String(), o)
	h, known := e.hosts.Get(tx, all, o.MAC)
	return h.At, known
}

// flood is a frame that is flooded at the edge, or the part of that which is left to do.
type flood struct {
	_      struct{} `cbor:",toarray"`
	Number uint64
	From   app.PortOf
	Next   app.Switch // lower ones have been sent it
	Frame  []byte
}

func (e *edge) flood(tx *app.Tx, f flood) error {
	sent, now := 0, tx.Now().UnixNano()
	for id, row := range e.switches.All(tx, all) {
		if id < f.Next {
			continue
		}
		if sent >= turn {
			f.Next = id
			rest, err := cbor.Marshal(f)
			if err != nil {
				return fmt.Errorf("keep the rest of a flood: %w", err)
			}
			return tx.SetTimer(fmt.Sprintf("flood %d", f.Number), 1, rest)
		}
		var out of13.Actions
		for _, p := range row {
			if p.outside(now) && (app.PortOf{Switch: id, Port: p.Port}) != f.From {
				out = out.Output(p.Port, 0)
			}
		}
		if len(out) > 0 {
			tx.PacketOut(id, frameOut(f.Frame, out))
			sent += len(out) + len(f.Frame)
		}
	}
	return nil
}

// goOn sends the rest of a flood.
func (e *edge) goOn(tx *app.Tx, in app.Timer) error {
	var f flood
	if err := cbor.Unmarshal(in.Data, &f); err != nil {
		return fmt.Errorf("read the rest of a flood: %w", err)
	}
	return e.flood(tx, f)
}

func frameOut(data []byte, out of13.Actions) of13.PacketOut {
	return of13.PacketOut{BufferID: of13.NoBuffer, InPort: of13.PortController, Actions: out, Data: data}
}
