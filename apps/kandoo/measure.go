package kandoo

import (
	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// Before an application that has no flow entries for each source and destination, this one has its own, which count and
// pass on. They are at the switch of the source, for each pair of hosts.

// MaxPairs bounds those at a switch, so that MaxFlows has room for them and for elephants. Further pairs are not
// measured: they stay where they are.
const MaxPairs = MaxFlows - MaxElephants

const priorityMeasure = 100

// measure counts from a host that is at a port to all others, and from these to it if they do not yet.
func (k *kandoo) measure(tx *app.Tx, mac app.MAC, at app.PortOf, toIt bool) {
	if tx.Next() == 0 {
		return
	}
	local, total := map[app.Switch]int{}, -1 // none counts to itself
	for _, other := range k.hosts.All(tx, all) {
		local[other.Switch]++
		total++
	}
	for other, where := range k.hosts.All(tx, all) {
		if other == mac {
			continue
		}
		if local[at.Switch]*total <= MaxPairs {
			count(tx, at, mac, other)
		}
		if toIt && local[where.Switch]*total <= MaxPairs {
			count(tx, where, other, mac)
		}
	}
}

// count has a switch count what one of its hosts sends to another one.
func count(tx *app.Tx, at app.PortOf, from, to app.MAC) {
	tx.FlowMod(at.Switch, of13.FlowMod{Priority: priorityMeasure, Cookie: Cookie, BufferID: of13.NoBuffer,
		Match:        of13.Match(nil).WithInPort(at.Port).WithEthSrc(from).WithEthDst(to),
		Instructions: of13.Instructions(nil).Goto(tx.Next())})
}

// unmeasure removes the counting entries of a switch that match.
func (k *kandoo) unmeasure(tx *app.Tx, id app.Switch, m of13.Match) {
	if tx.Next() > 0 {
		tx.FlowMod(id, of13.FlowMod{Command: of13.FlowDelete, TableID: of13.TableAll, BufferID: of13.NoBuffer,
			Cookie: Cookie, CookieMask: 1<<64 - 1, OutPort: of13.PortAny, OutGroup: of13.GroupAny, Match: m})
	}
}

// unmeasureAll removes the counting entries from and to a host that is gone.
func (k *kandoo) unmeasureAll(tx *app.Tx, mac app.MAC) {
	at, known := k.hosts.Get(tx, all, mac)
	if !known {
		return
	}
	k.unmeasure(tx, at.Switch, of13.Match(nil).WithEthSrc(mac))
	done := map[app.Switch]bool{}
	for _, other := range k.hosts.All(tx, all) {
		if !done[other.Switch] {
			done[other.Switch] = true
			k.unmeasure(tx, other.Switch, of13.Match(nil).WithEthDst(mac))
		}
	}
}
