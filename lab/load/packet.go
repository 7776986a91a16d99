package load

// The packets are those of cbench: 64 bytes of Ethernet from a rotating source, and one
// gratuitous ARP reply from the destination of all of them.

const (
	packetLen  = 64
	sourceAt   = 7 // the rotating part of the source address: all but its first byte
	sourcePort = 1 // where the sources are
	destPort   = 2 // where the destination is
)

// destination returns the address that all packets of a switch go to.
func destination(id byte) [6]byte { return [6]byte{0x80, 0, 0, 0, 0, id} }

// ipHeader says UDP-like protocol 255, 50 bytes, 192.168.0.40 to 192.168.1.40.
var ipHeader = [20]byte{0x45, 0, 0, 50, 0, 0, 0, 0, 64, 255, 0xf7, 0x2c, 192, 168, 0, 40, 192, 168, 1, 40}

// packet returns the packet whose source address is still 00:00:00:00:00:00.
func packet(id byte) []byte {
	p := make([]byte, packetLen)
	dst := destination(id)
	copy(p, dst[:])
	p[12], p[13] = 0x08, 0x00
	copy(p[14:], ipHeader[:])
	return p
}

// gratuitousARP returns the destination's announcement of itself.
func gratuitousARP(id byte) []byte {
	mac, ip := destination(id), [4]byte{192, 168, id, 40}
	p := make([]byte, 0, packetLen)
	p = append(p, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff)
	p = append(p, mac[:]...)
	p = append(p, 0x08, 0x06, 0, 1, 0x08, 0, 6, 4, 0, 2) // ARP; Ethernet, IPv4, their sizes; reply
	for range 2 {                                        // sender and target
		p = append(append(p, mac[:]...), ip[:]...)
	}
	return p[:packetLen]
}
