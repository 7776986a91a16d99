package ovsdb

// View is the last known state of a switch's database: its bridges, by name. It is immutable.
type View []Bridge

// Bridge is one bridge. To controllers it is a switch.
type Bridge struct {
	Name       string
	DatapathID uint64      // 0: not started yet
	Interfaces []Interface // by port
}

// Interface is a port of a bridge, or one of several interfaces of a bond.
type Interface struct {
	Name   string
	Port   uint32 // its OpenFlow number; 0: not assigned, yet or because the switch could not open it
	LinkUp bool
	BFD    BFDStatus
	Ours   bool // its BFD was set up by SetBFD

	id        uuid
	bfd, mark textMap // what is set, and which part of it SetBFD has set
}

// BFDStatus is a BFD session's status according to Open vSwitch.
type BFDStatus struct {
	State            string // "admin_down", "down", "init" or "up"; "" without BFD
	RemoteState      string // of the peer, likewise; "" while it is not heard
	Forwarding       bool   // fast-failover groups treat the port as live
	Diagnostic       string // why it last went down
	RemoteDiagnostic string
	Flaps            int // how often Forwarding has changed
}

// Bridge returns the bridge with a datapath id.
func (v View) Bridge(datapathID uint64) (Bridge, bool) {
	for _, b := range v {
		if b.DatapathID == datapathID {
			return b, true
		}
	}
	return Bridge{}, false
}

// Port returns the interface with an OpenFlow number at the bridge with a datapath id.
func (v View) Port(datapathID uint64, port uint32) (Interface, bool) {
	b, _ := v.Bridge(datapathID)
	for _, i := range b.Interfaces {
		if i.Port == port {
			return i, true
		}
	}
	return Interface{}, false
}

// Named returns the interface with a name, of any bridge: names are unique in a switch.
func (v View) Named(name string) (Interface, bool) {
	for _, b := range v {
		for _, i := range b.Interfaces {
			if i.Name == name {
				return i, true
			}
		}
	}
	return Interface{}, false
}
