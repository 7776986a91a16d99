package e2e

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"testing"

	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/lab/cluster"
	"github.com/holdfast-sdn/holdfast/lab/netlab"
	"github.com/holdfast-sdn/holdfast/network/monitor"
)

// A port of an Open vSwitch crosses a threshold once when traffic begins, and once when it ends, although the leader
// dies in between. Agents listen at Unix sockets.
func TestMonitor(t *testing.T) {
	inModes(t, []mode{withAgents, stockOVS}, func(t *testing.T, m mode) {
		needOVS(t)
		groups := "groups: 1\n"
		if m.stock {
			groups = "groups: per-controller\n"
		}
		s := m.start(t, 1, cluster.Config{Apps: []string{monitor.Name}, Binary: plain, Patience: 4 * patience,
			Sections: groups, Sockets: true})
		lab, web := s.lab(), newWeb(t)
		sw, err := lab.AddSwitch("s1", 1)
		s.check(err)
		host, err := lab.AddHost("h1", netip.MustParsePrefix("10.0.1.1/24"))
		s.check(err)
		station := s.plug(lab, sw, host)
		s.control(lab, []*netlab.Switch{sw})

		const busy, other = "busy", "other"
		put := func(name string) {
			const body = `{"of":"ports","port":1,"measure":"bandwidth","above":500,"below":100}`
			await.Until(t, "trigger "+name+" to be set", func() bool {
				for _, c := range s.Controllers() {
					if status, _ := web.ask(c, "PUT", "/apps/monitor/1/"+name, body); status == 204 {
						return true
					}
				}
				return false
			})
		}
		said := func(name string, crossings uint64, raised int) {
			var list []monitor.Status
			is := func() bool {
				for _, c := range s.Controllers() {
					status, text := web.ask(c, "GET", "/apps/monitor/1", "")
					if status != 200 || json.Unmarshal([]byte(text), &list) != nil {
						continue
					}
					for _, l := range list {
						if l.Name == name && l.Crossings == crossings && len(l.Raised) == raised {
							return true
						}
					}
				}
				return false
			}
			await.Until(t, fmt.Sprintf("%s to have crossed %d times, and %d ports to be above", name, crossings, raised), is)
		}
		put(busy)
		said(busy, 0, 0)
		stop := station.stream(t, datagram(53, "x"))
		said(busy, 1, 1)
		s.check(s.leader().Kill())
		put(other)
		said(other, 1, 1) // so the next leader has measured
		said(busy, 1, 1)
		stop()
		said(busy, 2, 0)
	})
}
