package vswitch

import (
	"time"

	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// Message handles one whole message from a controller. Every error is answered by an ERROR.
func (s *Switch) Message(now time.Duration, id ConnID, msg []byte) {
	s.begin(now)
	c := s.conn(id)
	switch {
	case c == nil || c.closing:
	case !c.hello:
		s.greet(c, msg)
	default:
		if err := s.dispatch(c, msg); err != nil {
			s.sendError(c, msg, err)
		}
	}
}

// dispatch executes a message and sends the answer; the error is for sendError.
func (s *Switch) dispatch(c *conn, msg []byte) error {
	if len(msg) < openflow.HeaderLen {
		return refuse(of13.ErrTypeBadRequest, of13.BadRequestBadLen)
	}
	if msg[0] != of13.Version {
		return refuse(of13.ErrTypeBadRequest, of13.BadRequestBadVersion)
	}
	switch msg[1] {
	case of13.TypeFlowMod, of13.TypeGroupMod, of13.TypePortMod, of13.TypeMeterMod, of13.TypePacketOut,
		of13.TypeTableMod:
		if c.role == of13.RoleSlave {
			return refuse(of13.ErrTypeBadRequest, of13.BadRequestIsSlave)
		}
		return s.command(c, msg)
	case of13.TypeHello, of13.TypeError, of13.TypeEchoReply:
		return nil
	}
	return s.request(c, msg, xidOf(msg))
}

// command executes a message that changes the switch or sends a packet.
func (s *Switch) command(c *conn, msg []byte) (err error) {
	now := s.now
	switch msg[1] {
	case of13.TypeFlowMod:
		var m of13.FlowMod
		if err = m.Decode(msg); err == nil {
			err = s.flowMod(now, &m)
		}
	case of13.TypeGroupMod:
		var m of13.GroupMod
		if err = m.Decode(msg); err == nil {
			err = s.groupMod(now, &m)
		}
	case of13.TypeMeterMod:
		var m of13.MeterMod
		if err = m.Decode(msg); err == nil {
			err = s.meterMod(now, &m)
		}
	case of13.TypePortMod:
		var m of13.PortMod
		if err = m.Decode(msg); err == nil {
			err = s.portMod(&m)
		}
	case of13.TypePacketOut:
		var m of13.PacketOut
		if err = m.Decode(msg); err == nil {
			err = s.packetOut(now, &m)
		}
	case of13.TypeTableMod:
		var m of13.TableMod
		if err = m.Decode(msg); err == nil {
			err = s.tableMod(&m)
		}
		return err // changes nothing
	}
	if err == nil && !s.rehearsing && s.config.Observe != nil {
		s.config.Observe(c.id, msg)
	}
	return err
}

// tableMod executes a TABLE_MOD, whose configuration has no bits in use (section 7.3.3).
func (s *Switch) tableMod(m *of13.TableMod) error {
	if int(m.TableID) >= len(s.tables) && m.TableID != of13.TableAll {
		return refuse(of13.ErrTypeTableModFailed, of13.TableModFailedBadTable)
	}
	if m.Config&^3 != 0 { // the lowest two are left from 1.2 (OFPTC_DEPRECATED_MASK)
		return refuse(of13.ErrTypeTableModFailed, of13.TableModFailedBadConfig)
	}
	return nil
}

// request answers a request or changes the state of the connection.
func (s *Switch) request(c *conn, msg []byte, xid uint32) error {
	m, err := of13.Decode(msg)
	if err != nil {
		return err
	}
	switch m := m.(type) {
	case *of13.EchoRequest:
		s.send(c, &of13.EchoReply{Data: m.Data}, xid)
	case *of13.FeaturesRequest:
		s.send(c, &of13.FeaturesReply{
			DatapathID: s.config.DatapathID, NBuffers: uint32(len(s.buffers.slots)), NTables: uint8(len(s.tables)),
			Capabilities: of13.CapFlowStats | of13.CapTableStats | of13.CapPortStats | of13.CapGroupStats,
		}, xid)
	case *of13.GetConfigRequest:
		s.send(c, &of13.GetConfigReply{Flags: s.config.flags, MissSendLen: s.config.missSendLen}, xid)
	case *of13.SetConfig:
		return s.setConfig(c, m)
	case *of13.BarrierRequest:
		s.send(c, &of13.BarrierReply{}, xid)
	case *of13.RoleRequest:
		return s.roleRequest(c, m, xid)
	case *of13.GetAsyncRequest:
		r := of13.GetAsyncReply(c.async)
		s.send(c, &r, xid)
	case *of13.SetAsync:
		c.async = of13.Async(*m)
	case *of13.MultipartRequest:
		return s.multipart(c, m, xid)
	case *of13.QueueGetConfigRequest:
		if s.ports[m.Port] == nil && m.Port != of13.PortAny {
			return refuse(of13.ErrTypeQueueOpFailed, of13.QueueOpFailedBadPort)
		}
		s.send(c, &of13.QueueGetConfigReply{Port: m.Port}, xid)
	case *of13.Experimenter:
		if m.ID == of13.OnfID && !s.config.NoBundles {
			return s.bundleMessage(c, m, xid)
		}
		return refuse(of13.ErrTypeBadRequest, of13.BadRequestBadExperimenter)
	default: // only a switch sends these
		return refuse(of13.ErrTypeBadRequest, of13.BadRequestBadType)
	}
	return nil
}

func (s *Switch) setConfig(c *conn, m *of13.SetConfig) error {
	if c.role == of13.RoleSlave {
		return refuse(of13.ErrTypeBadRequest, of13.BadRequestIsSlave)
	}
	if m.Flags != of13.FragNormal && m.Flags != of13.FragDrop {
		return refuse(of13.ErrTypeSwitchConfigFailed, of13.SwitchConfigFailedBadFlags)
	}
	s.config.flags, s.config.missSendLen = m.Flags, m.MissSendLen
	return nil
}

// packetOut executes a PACKET_OUT (section 7.3.7).
func (s *Switch) packetOut(now time.Duration, m *of13.PacketOut) error {
	if m.InPort != of13.PortController && s.ports[m.InPort] == nil {
		return refuse(of13.ErrTypeBadRequest, of13.BadRequestBadPort)
	}
	err := m.Actions.Validate()
	if err == nil {
		err = s.checkTargets(m.Actions, true)
	}
	if err != nil {
		return err
	}
	ops, err := compileActions(m.Actions)
	if err != nil {
		return err
	}
	data := m.Data
	if m.BufferID != of13.NoBuffer {
		if _, data, err = s.takeBuffer(now, m.BufferID); err != nil {
			return err
		}
	}
	if len(data) < ethLen || len(data) > MaxFrame {
		return refuse(of13.ErrTypeBadRequest, of13.BadRequestBadPacket)
	}
	if s.rehearsing {
		return nil
	}
	p := s.newPacket()
	p.reset(m.InPort, data)
	s.executeAll(p, ops, 0)
	s.freePacket(p)
	s.endPacket()
	return nil
}
