package onstore

import (
	"context"
	"strconv"

	"github.com/holdfast-sdn/holdfast/openflow/of13"
	"github.com/holdfast-sdn/holdfast/store"
)

// learning is a learning switch: the port of each address, for each switch.
type learning struct{ base }

const portTable = "ports"

// Setup implements App.
func (l *learning) Setup(ctx context.Context) error {
	return l.setup(ctx, makeTable(portTable, "", store.DefaultColumn), upload("learn"))
}

// Handle learns the port of the sender, and returns that of the receiver.
func (l *learning) Handle(ctx context.Context, p *Packet) (Reaction, error) {
	src, dst := p.Switch.String()+macText(p.Src), p.Switch.String()+macText(p.Dst)
	port, known := strconv.FormatUint(uint64(p.InPort), 10), ""
	broadcast := p.Dst[0]&1 != 0
	if broadcast {
		dst = ""
	}
	switch l.variant {
	case Component:
		r, err := l.do(ctx, store.Op{Kind: store.Run, Component: "learn",
			Columns: columns("src", src, "port", port, "dst", dst)})
		if err != nil {
			return Reaction{}, err
		}
		known = text(r.Row, store.DefaultColumn)
	case Cached:
		before, err := l.cached(ctx, portTable, src, MaxAge)
		if err == nil && text(before, store.DefaultColumn) != port {
			_, err = l.cache.Do(ctx, store.Op{Kind: store.Put, Table: portTable, Key: src, Columns: columns(
				store.DefaultColumn, port)})
		}
		if err != nil || broadcast {
			return Reaction{Out: of13.PortFlood}, err
		}
		row, err := l.cached(ctx, portTable, dst, MaxAge)
		if err != nil {
			return Reaction{}, err
		}
		known = text(row, store.DefaultColumn)
	default:
		learns := store.Op{Kind: store.Put, Table: portTable, Key: src, Columns: columns(store.DefaultColumn, port)}
		if broadcast {
			_, err := l.do(ctx, learns)
			return Reaction{Out: of13.PortFlood}, err
		}
		results, err := l.together(ctx, learns, store.Op{Kind: store.Get, Table: portTable, Key: dst})
		if err != nil {
			return Reaction{}, err
		}
		known = text(results[1].Row, store.DefaultColumn)
	}
	out, err := strconv.ParseUint(known, 10, 32)
	if err != nil {
		return Reaction{Out: of13.PortFlood}, nil // it is not known
	}
	return Reaction{Out: of13.Port(out)}, nil
}
