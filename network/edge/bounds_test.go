package edge

import (
	"encoding/binary"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/network/topology"
)

// A host that sends from very many addresses fills neither the tables of topology nor those of this application, and
// the port with them can go down. A host at another port is found meanwhile.
func TestManyAddressesAtOnePort(t *testing.T) {
	n := 4000
	if os.Getenv("HOLDFAST_MATRIX") == "all" {
		n = 1_000_000
	}
	w := triangle(t)
	bad, good := at(1, 3), at(2, 3)
	count := func(name string, table string) (n int) {
		for _, r := range w.net.Rows(name) {
			if r.Table == table {
				n++
			}
		}
		return n
	}
	for i := range n {
		from := app.MAC{2, 9}
		binary.BigEndian.PutUint32(from[2:], uint32(i))
		a := netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, 11<<24+uint32(i))))
		w.send(bad, arp(1, from, everyone, a, a))
	}
	w.ask(good, ip(mac(9)))
	const most = 1024 + 2 // of the port, and the hosts at the other switches
	for name, tables := range map[string][]string{topology.Name: {"hosts"}, Name: {"hosts", "addresses"}} {
		for _, table := range tables {
			if rows := count(name, table); rows > most || rows < 2 {
				t.Errorf("%s has %d rows in %s, at most %d expected", name, rows, table, most)
			}
		}
	}
	w.setPort(bad, false)
	w.advance(50 * time.Millisecond)
	if hosts, of := count(topology.Name, "hosts"), count(Name, "hosts"); hosts < 1 || hosts > 2 || of != hosts {
		t.Errorf("%d and %d hosts are left, want those at the other switches", hosts, of)
	}
}
