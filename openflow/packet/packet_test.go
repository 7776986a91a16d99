package packet

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

func mac(n byte) of13.MAC { return of13.MAC{2, 0, 0, 0, 0, n} }

func ip(n byte) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, n}) }

// Packets are read, and answered, as they are on the wire.
func TestPacket(t *testing.T) {
	want := Packet{Src: mac(100), Dst: mac(2), Type: ARP, ARP: ARPReply, From: ip(100), To: ip(1)}
	asked := Packet{Src: mac(2), From: ip(1), To: ip(100)}
	if got, ok := Parse(asked.Reply(mac(100))); !ok || got != want {
		t.Errorf("an answer is %+v, want %+v", got, want)
	}
	odd := asked.Reply(mac(100))
	odd[etherLen+6], odd[etherLen+7] = 0, 0
	if p, ok := Parse(odd); !ok || p.ARP != 0 || p.To.IsValid() {
		t.Errorf("a packet of ARP without an operation is %+v", p)
	}
	for n := range 60 { // of any length
		b := make([]byte, n)
		if n > 13 {
			b[12] = 0x08
		}
		if n > 14 {
			b[14] = 0x45
		}
		if p, ok := Parse(b); ok != (n >= etherLen) || ok && p.To.IsValid() != (n >= etherLen+ipv4Len) {
			t.Errorf("%d bytes: %+v, %v", n, p, ok)
		}
	}
}

func TestRedirect(t *testing.T) {
	p := Packet{Src: mac(1), Dst: mac(100), Type: IPv4, From: ip(1), To: ip(100)}
	to, back := p.Redirect(7, &Server{ip(2), mac(2), 9}, 30)
	ends := func(a of13.Actions, port of13.Port) bool {
		return strings.HasSuffix(string(a), string(of13.Actions(nil).Output(port, 0)))
	}
	has := func(b []byte, part []byte) bool { return strings.Contains(string(b), string(part)) }
	one, two, virtual := mac(1), mac(2), mac(100)
	if !ends(to.Actions, 9) || !has(to.Actions, two[:]) || !has(to.Actions, ip(2).AsSlice()) ||
		!has(to.Match, ip(1).AsSlice()) || !has(to.Match, ip(100).AsSlice()) {
		t.Errorf("to the server: %v", to)
	}
	if !ends(back.Actions, 7) || !has(back.Actions, virtual[:]) || !has(back.Actions, ip(100).AsSlice()) ||
		has(back.Actions, one[:]) || !has(back.Match, ip(2).AsSlice()) || !has(back.Match, ip(1).AsSlice()) {
		t.Errorf("back: %v", back)
	}
}
