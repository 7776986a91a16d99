package app

import (
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// Prefetch implements ledger.Prefetcher: most handlers of packets look up the sender and the receiver in maps that have
// Ethernet addresses by switch. The receiver is often that of the packet before, such as a gateway, and then its row is
// in the cache already.
func (a *App) Prefetch(in *ledger.Input, row func(table string, cell, field ledger.Key)) {
	if len(a.hosts) == 0 || len(in.Message) < openflow.HeaderLen || in.Message[1] != of13.TypePacketIn ||
		len(a.handlers[of13.TypePacketIn]) == 0 {
		return
	}
	p := &a.ahead
	if p.decode(in) != nil {
		return
	}
	to := receiver{in.Switch, p.EthDst()}
	for _, name := range a.hosts {
		row(name, toKey(in.Switch), toKey(p.EthSrc()))
		if to != a.last {
			row(name, toKey(in.Switch), toKey(to.address))
		}
	}
	a.last = to
	*p = PacketIn{} // it would keep the buffer of the message
}

// receiver is the receiver of a packet.
type receiver struct {
	at      Switch
	address MAC
}
