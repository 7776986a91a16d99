package vswitch

import (
	"fmt"
	"time"

	"github.com/holdfast-sdn/holdfast/bfd"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// port is a port with its counters. Its State has link-down or live, or neither if it is closed, or its BFD session is
// not up.
type port struct {
	of13.PortDesc
	stats   of13.PortStats
	created time.Duration
	session *bfd.Session // or nil
}

func (p *port) live() bool   { return p.State&of13.PortStateLive != 0 }
func (p *port) linkUp() bool { return p.State&of13.PortStateLinkDown == 0 }

// receives reports whether frames that arrive are processed.
func (p *port) receives() bool { return p.Up() && p.Config&of13.PortConfigNoRecv == 0 }

// sends reports whether frames may leave.
func (p *port) sends() bool { return p.Up() && p.Config&of13.PortConfigNoFwd == 0 }

// setState derives the live bit from the link, the configuration and the BFD session.
func (p *port) setState(linkUp bool) {
	p.State &^= of13.PortStateLinkDown | of13.PortStateLive
	if !linkUp {
		p.State |= of13.PortStateLinkDown
	} else if p.Config&of13.PortConfigDown == 0 && (p.session == nil || p.session.Status().State == bfd.Up) {
		p.State |= of13.PortStateLive
	}
}

// Ports describes n gigabit ports with the numbers 1 to n for the switch with the given number: names
// such as s3-eth1 and locally administered addresses.
func Ports(switchNumber, n int) []of13.PortDesc {
	ports := make([]of13.PortDesc, n)
	for i := range ports {
		no := i + 1
		ports[i] = of13.PortDesc{
			Port:   of13.Port(no),
			Name:   fmt.Sprintf("s%d-eth%d", switchNumber, no),
			HwAddr: of13.MAC{0x02, 0x53, byte(switchNumber >> 8), byte(switchNumber), byte(no >> 8), byte(no)},
			Curr:   of13.Port1GbFD | of13.PortCopper, Supported: of13.Port1GbFD | of13.PortCopper,
			CurrSpeed: 1000000, MaxSpeed: 1000000,
		}
	}
	return ports
}

// AddPort adds a port, up unless its State has link-down, and notifies the controllers. It fails if the number is in
// use or not valid for a port.
func (s *Switch) AddPort(now time.Duration, desc of13.PortDesc) error {
	s.begin(now)
	if desc.Port == 0 || desc.Port > of13.PortMax && desc.Port != of13.PortLocal {
		return fmt.Errorf("vswitch: %v is not the number of a port: use 1 to %#x, or LOCAL", desc.Port,
			uint32(of13.PortMax))
	}
	if s.ports[desc.Port] != nil {
		return fmt.Errorf("vswitch: there is a port %v already", desc.Port)
	}
	p := &port{PortDesc: desc, created: now}
	p.setState(p.linkUp())
	s.ports[desc.Port] = p
	s.sortPorts()
	s.portStatus(of13.PortAdd, p)
	return nil
}

// RemovePort removes a port, if it exists, and notifies the controllers. Flow entries stay.
func (s *Switch) RemovePort(now time.Duration, no of13.Port) {
	s.begin(now)
	p := s.ports[no]
	if p == nil {
		return
	}
	delete(s.ports, no)
	s.sortPorts()
	s.portStatus(of13.PortDelete, p)
}

// SetPortLive reports that the link of a port came up or went down. The controllers are notified of changes.
func (s *Switch) SetPortLive(now time.Duration, no of13.Port, up bool) {
	s.begin(now)
	if p := s.ports[no]; p != nil {
		s.setLink(p, up)
	}
}

// setLink updates the state of a port, and notifies the controllers if it has changed.
func (s *Switch) setLink(p *port, up bool) {
	old := p.State
	if p.setState(up); p.State != old {
		s.portStatus(of13.PortModify, p)
	}
}

func (s *Switch) sortPorts() {
	s.inOrder = sortedBy(s.ports, func(p *port) of13.Port { return p.Port })
}

// portMod executes a PORT_MOD (section 7.3.4.3).
func (s *Switch) portMod(m *of13.PortMod) error {
	const known = of13.PortConfigDown | of13.PortConfigNoRecv | of13.PortConfigNoFwd | of13.PortConfigNoPacketIn
	p := s.ports[m.Port]
	switch {
	case p == nil:
		return refuse(of13.ErrTypePortModFailed, of13.PortModFailedBadPort)
	case p.HwAddr != m.HwAddr:
		return refuse(of13.ErrTypePortModFailed, of13.PortModFailedBadHwAddr)
	case m.Mask&^known != 0 || m.Config&^m.Mask != 0:
		return refuse(of13.ErrTypePortModFailed, of13.PortModFailedBadConfig)
	case m.Advertise&^p.Supported != 0:
		return refuse(of13.ErrTypePortModFailed, of13.PortModFailedBadAdvertise)
	}
	old := p.PortDesc
	p.Config = p.Config&^m.Mask | m.Config
	if m.Advertise != 0 {
		p.Advertised = m.Advertise
	}
	p.setState(p.linkUp())
	switch {
	case s.rehearsing:
		s.undo = append(s.undo, func() { p.PortDesc = old })
	case p.PortDesc != old:
		s.portStatus(of13.PortModify, p)
	}
	return nil
}

// transmit adds a copy of p to the frames to send.
func (s *Switch) transmit(p *packet, out *port) {
	if !out.sends() {
		out.stats.TxDropped++
		return
	}
	out.stats.TxPackets++
	out.stats.TxBytes += uint64(len(p.data))
	if p.sent == nil {
		n := len(s.slab)
		s.slab = append(s.slab, p.data...)
		p.sent = s.slab[n:len(s.slab):len(s.slab)]
	}
	s.frames = append(s.frames, Frame{out.Port, p.sent})
}

// output executes an output action (section 4.5).
func (s *Switch) output(p *packet, to of13.Port, maxLen uint16) {
	switch to {
	case of13.PortInPort:
		if out := s.ports[p.inPort]; out != nil {
			s.transmit(p, out)
		}
	case of13.PortAll, of13.PortFlood:
		for _, out := range s.inOrder {
			if out.Port != p.inPort && out.Port != of13.PortLocal {
				if s.budget--; s.budget < 0 {
					return
				}
				if out.sends() { // closed ports are not part of a flood: they drop nothing
					s.transmit(p, out)
				}
			}
		}
	case of13.PortController:
		reason := of13.PacketInAction
		if p.miss {
			reason = of13.PacketInNoMatch
		}
		s.packetIn(p, reason, maxLen)
	case of13.PortTable:
		q := s.newPacket()
		q.copyFrom(p)
		s.pipeline(q)
		s.freePacket(q)
	default:
		// Back to the incoming port only by OFPP_IN_PORT.
		if out := s.ports[to]; out != nil && to != p.inPort {
			s.transmit(p, out)
		}
	}
}
