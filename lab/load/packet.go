package load

// The packets are those of cbench: 64 bytes of Ethernet from a rotating source, and one
// gratuitous ARP reply from the destination of all of them.

const (
	packetLen  = 64
	sourceAt   = 7 // the rotating part of the source address: all but its first byte
	sourcePort = 1 // where the first sources are
	destPort   = 2 // where the destination is

	// sourcesPerPort is how many sources are at one port of an OpenFlow 1.3 switch: fewer than applications learn there
	// (learning.MaxHosts), so that each new source is written. Further ones are at the ports behind destPort, of which
	// the switch tells only the first few: the learning application does not ask for them.
	sourcesPerPort = 10_000
)

// portOf returns the port where a source is, by the rotating part of its address.
func portOf(mac uint32) uint32 {
	if mac < sourcesPerPort {
		return sourcePort
	}
	return destPort + mac/sourcesPerPort
}

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
