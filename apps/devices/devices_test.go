package devices

import (
	"encoding/binary"
	"encoding/json"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/app/apptest"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
	"github.com/holdfast-sdn/holdfast/openflow/packet"
)

// says is a packet in which host n says that it has an address.
func says(n byte, address string) string {
	p := packet.Packet{Src: of13.MAC{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, To: netip.MustParseAddr(address),
		From: netip.MustParseAddr("10.0.0.99")}
	return string(p.Reply(of13.MAC{2, 0, 0, 0, 0, n}))
}

// A host is known by its addresses, where it was seen last, in one group and in several.
func TestDevices(t *testing.T) {
	for _, groups := range []uint64{1, 3} {
		a := New()
		net := apptest.NewOf(t, groups, a)
		net.SwitchUp(1)
		net.SwitchUp(2)
		ask := func(route, name, value string, to any) bool {
			r := net.Call(a, route, app.Request{Values: map[string]string{name: value}})
			if r.Status == http.StatusNotFound {
				return false
			}
			if err := json.Unmarshal(r.Body, to); err != nil {
				t.Errorf("%s: %v", r.Body, err)
			}
			return true
		}
		const mac = "02:00:00:00:00:01"
		expect := func(address string, sw app.Switch, port app.Port, addresses map[string]int) {
			t.Helper()
			var d Device
			if !ask("GET /{mac}", "mac", mac, &d) || d.MAC != mac || d.Address != address || d.Switch != sw.String() ||
				d.Port != port {
				t.Errorf("%d groups: %+v, want %s at %v, %d", groups, d, address, sw, port)
			}
			for at, n := range addresses {
				var list []string
				if ask("GET /addresses/{address}", "address", at, &list); len(list) != n {
					t.Errorf("%d groups: %v have %s, want %d", groups, list, at, n)
				}
			}
		}
		var d Device
		if ask("GET /{mac}", "mac", mac, &d) || ask("GET /{mac}", "mac", "x", &d) {
			t.Errorf("nobody was seen: %+v", d)
		}
		net.PacketIn(1, 3, of13.NoBuffer, says(1, "10.0.0.1"))
		expect("10.0.0.1", 1, 3, map[string]int{"10.0.0.1": 1, "10.0.0.2": 0})
		net.PacketIn(2, 4, of13.NoBuffer, says(1, "10.0.0.1")) // it moves
		expect("10.0.0.1", 2, 4, map[string]int{"10.0.0.1": 1})
		net.PacketIn(2, 4, of13.NoBuffer, says(1, "10.0.0.2")) // it has another address
		expect("10.0.0.2", 2, 4, map[string]int{"10.0.0.1": 0, "10.0.0.2": 1})
		net.PacketIn(1, 1, of13.NoBuffer, says(2, "10.0.0.2")) // so has another host
		expect("10.0.0.2", 2, 4, map[string]int{"10.0.0.2": 2})

		ask("GET /{mac}", "mac", mac, &d)
		first := d.Seen
		net.PacketIn(2, 4, of13.NoBuffer, says(1, "10.0.0.2"))
		if ask("GET /{mac}", "mac", mac, &d); !d.Seen.Equal(first) {
			t.Errorf("a packet soon after is written: %v, %v", first, d.Seen)
		}
		net.Advance(2 * SeenEvery)
		net.PacketIn(2, 4, of13.NoBuffer, says(1, "10.0.0.2"))
		if ask("GET /{mac}", "mac", mac, &d); d.Seen.Sub(first) < 2*SeenEvery-time.Millisecond {
			t.Errorf("seen at %v, and again at %v", first, d.Seen)
		}
		net.PacketIn(2, 4, of13.NoBuffer, "\xff\xff\xff\xff\xff\xff\x01\x00\x5e\x00\x00\x01\x08\x00")
		if rows := net.Rows(Name); len(rows) != 9 { // of two hosts: each, where it is, two counts; and an address
			t.Errorf("rows %+v", rows)
		}
	}
}

// One host that sends from very many addresses, and says that it has as many IP addresses, takes no place of others.
func TestManyAddressesAtOnePort(t *testing.T) {
	n := app.SourcesPerPort / 2
	if os.Getenv("HOLDFAST_MATRIX") == "all" {
		n = 1_000_000
	}
	net := apptest.New(t, New())
	net.SwitchUp(1)
	send := func(port app.Port, i uint32) {
		mac := of13.MAC{2, 1}
		binary.BigEndian.PutUint32(mac[2:], i)
		from := netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, 10<<24+i)))
		p := packet.Packet{Src: of13.MAC{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, To: from, From: from}
		net.PacketIn(1, port, of13.NoBuffer, string(p.Reply(mac)))
	}
	hosts := app.NewMap[uint32, app.MAC, Device](app.New(Name), "hosts", app.Sharded)
	// how many hosts are known, by port, and rows there are, by table
	known := func() (at map[app.Port]int, rows map[string]int) {
		at, rows = map[app.Port]int{}, map[string]int{}
		list := net.Rows(Name)
		for _, r := range list {
			rows[r.Table]++
		}
		count := hosts.Each(func(_ uint32, _ app.MAC, d Device) { at[d.Port]++ })
		if err := app.Read(slices.Values(list), count); err != nil {
			t.Fatal(err)
		}
		if rows["sources"] != rows["hosts"] {
			t.Errorf("%d sources of %d hosts", rows["sources"], rows["hosts"])
		}
		return at, rows
	}
	for i := range n {
		send(2, uint32(i))
	}
	if at, rows := known(); at[2] > app.SourcesPerPort*buckets/parts || at[2] < n/4 && n < app.SourcesPerPort ||
		rows["addresses"] != at[2] {
		t.Errorf("%d hosts at the port, and %d IP addresses, after %d", at[2], rows["addresses"], n)
	}
	for i := range 100 {
		send(3, uint32(2_000_000+i))
	}
	if at, _ := known(); at[3] != 100 {
		t.Errorf("%d of 100 hosts at another port are known", at[3])
	}
}
