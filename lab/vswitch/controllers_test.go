package vswitch

import (
	"testing"

	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

func (r *rig) role(id ConnID, role of13.Role, generation uint64) of13.RoleReply {
	r.t.Helper()
	out := r.from(id, &of13.RoleRequest{Role: role, GenerationID: generation})
	a, ok := out[0].(*of13.RoleReply)
	if !ok {
		r.t.Fatalf("role request was answered by %v", out)
	}
	return *a
}

// Section 6.3.6: one master, slaves, and the generation id.
func TestRoles(t *testing.T) {
	r := newRig(t)
	r.connect(2)
	if a := r.role(1, of13.RoleNoChange, 0); a.Role != of13.RoleEqual || a.GenerationID != ^uint64(0) {
		t.Fatalf("at first: %+v", a)
	}
	r.role(1, of13.RoleMaster, 10)
	r.role(2, of13.RoleMaster, 11)
	if a := r.role(1, of13.RoleNoChange, 0); a.Role != of13.RoleSlave || a.GenerationID != 11 {
		t.Fatalf("the old master: %+v", a)
	}
	const e = of13.ErrTypeRoleRequestFailed
	r.fails(&of13.RoleRequest{Role: of13.RoleMaster, GenerationID: 10}, e, of13.RoleRequestFailedStale)
	r.fails(&of13.RoleRequest{Role: of13.RoleSlave, GenerationID: 10}, e, of13.RoleRequestFailedStale)
	r.fails(&of13.RoleRequest{Role: 7, GenerationID: 12}, e, of13.RoleRequestFailedBadRole)
	r.fails(&of13.RoleRequest{Role: of13.RoleMaster, GenerationID: 11 + 1<<63}, e, of13.RoleRequestFailedStale)
	r.role(1, of13.RoleMaster, 11+1<<62) // generation ids wrap around, so this one is later
	r.failsAt(2, add(0, 1, nil, nil), of13.ErrTypeBadRequest, of13.BadRequestIsSlave)
	r.failsAt(2, &of13.PacketOut{BufferID: of13.NoBuffer, InPort: 1, Data: ping(1)}, of13.ErrTypeBadRequest,
		of13.BadRequestIsSlave)
	if out := r.from(2, &of13.BarrierRequest{}); len(out) != 1 {
		t.Fatal("a slave may ask")
	}
	r.role(2, of13.RoleEqual, 0) // needs no generation id
	if r.s.Role(2) != of13.RoleEqual || r.s.Role(1) != of13.RoleMaster || r.s.Role(9) != of13.RoleNoChange {
		t.Fatal("wrong roles")
	}
}

// Section 7.4.3: ports appear and disappear, and a packet for a port that is gone is dropped.
func TestPortsComeAndGo(t *testing.T) {
	r := newRig(t)
	status := func(reason uint8, no of13.Port) {
		t.Helper()
		got := r.take(1)
		if len(got) != 1 {
			t.Fatalf("port %d: the controller got %v", no, got)
		}
		if st, ok := got[0].(*of13.PortStatus); !ok || st.Reason != reason || st.Port.Port != no {
			t.Fatalf("port %d: the controller got %v, want reason %d", no, got[0], reason)
		}
	}
	if err := r.s.AddPort(0, of13.PortDesc{Port: 9}); err != nil {
		t.Fatal(err)
	}
	status(of13.PortAdd, 9)
	if r.s.AddPort(0, of13.PortDesc{Port: 9}) == nil {
		t.Fatal("port 9 was added twice")
	}
	r.ok(add(0, 0, nil, out(9)))
	r.goes(1, ping(1), 9)
	r.s.RemovePort(0, 9)
	status(of13.PortDelete, 9)
	r.goes(1, ping(1))
	r.s.RemovePort(0, 9) // no such port
	if got := r.take(1); len(got) != 0 {
		t.Fatalf("a port that is not there went away: %v", got)
	}
}

// Section 7.3.10: which controllers receive which messages, by default and as configured.
func TestAsync(t *testing.T) {
	r := newRig(t)
	r.connect(2)
	r.role(2, of13.RoleSlave, 1)
	r.ok(add(0, 0, nil, out(of13.PortController)))
	r.goes(1, ping(1))
	r.s.SetPortLive(0, 3, false)
	if a, b := r.take(1), r.take(2); len(a) != 2 || len(b) != 1 || b[0].Type() != of13.TypePortStatus {
		t.Fatalf("equal got %v, slave got %v", a, b)
	}
	r.s.SetPortLive(0, 3, false) // no change
	if a := r.take(1); len(a) != 0 {
		t.Fatalf("got %v", a)
	}
	want := of13.SetAsync{PacketIn: [2]uint32{0, 1 << of13.PacketInNoMatch}}
	r.from(2, &want)
	if got := r.from(2, &of13.GetAsyncRequest{})[0].(*of13.GetAsyncReply); of13.SetAsync(*got) != want {
		t.Fatalf("got %+v", got)
	}
	r.goes(1, ping(1))
	if a, b := r.take(1), r.take(2); len(a) != 1 || len(b) != 1 || b[0].Type() != of13.TypePacketIn {
		t.Fatalf("equal got %v, slave got %v", a, b)
	}
}

// A controller that does not read loses packet-ins and nothing else.
func TestSlowController(t *testing.T) {
	r := newRig(t, func(c *Config) { c.QueueLimit = 4096; c.Buffers = -1 })
	r.ok(add(0, 0, nil, out(of13.PortController)))
	for range 1000 {
		r.frame(1, ping(1))
	}
	r.s.SetPortLive(0, 3, false)
	r.xid++
	r.s.Message(0, 1, (&of13.BarrierRequest{}).Append(nil, r.xid))
	msgs := r.take(1)
	c := r.s.Counters()
	n := len(msgs)
	if uint64(n) != c.PacketIns+2 || c.PacketIns+c.PacketInsDropped != 1000 || c.PacketInsDropped == 0 ||
		msgs[n-2].Type() != of13.TypePortStatus || msgs[n-1].Type() != of13.TypeBarrierReply {
		t.Fatalf("%d messages, %+v", n, c)
	}
	for range hardLimit * 4096 / 8 { // a controller that sends requests without reading is disconnected
		r.s.Message(0, 1, (&of13.BarrierRequest{}).Append(nil, 1))
	}
	if _, open := r.s.Pending(1); !open {
		t.Fatal("given up too early")
	}
	r.s.Message(0, 1, (&of13.BarrierRequest{}).Append(nil, 1))
	if _, open := r.s.Pending(1); open {
		t.Fatal("not given up")
	}
}

// Section 6.3.1: negotiation.
func TestHello(t *testing.T) {
	for name, c := range map[string]struct {
		hello of13.Hello
		open  bool
	}{
		"1.3":              {of13.Hello{Version: 4}, true},
		"1.5 with bitmap":  {of13.NewHello(of13.VersionsOf(openflow.Version15, openflow.Version13)), true},
		"1.5 no bitmap":    {of13.Hello{Version: 6}, true},
		"1.0":              {of13.Hello{Version: 1}, false},
		"1.4 and 1.5 only": {of13.NewHello(of13.VersionsOf(openflow.Version14, openflow.Version15)), false},
	} {
		s := New(Config{})
		s.Connect(5)
		s.Message(0, 5, c.hello.Append(nil, 3))
		if _, open := s.Pending(5); open != c.open {
			t.Errorf("%s: open is %v", name, open)
		}
	}
	r := newRig(t)
	msg := (&of13.BarrierRequest{}).Append(nil, 7)
	msg[0] = 5
	r.s.Message(0, 1, msg)
	if e, ok := r.take(1)[0].(*of13.Error); !ok || e.ErrType != of13.ErrTypeBadRequest ||
		e.Code != of13.BadRequestBadVersion {
		t.Fatalf("got %v", e)
	}
}

// Section 7.3.4.3: port-mod.
func TestPortMod(t *testing.T) {
	r := newRig(t)
	r.ok(add(0, 1, nil, out(of13.PortAll)))
	hw := Ports(1, 4)[1].HwAddr
	mod := func(bit uint32) *of13.PortMod { return &of13.PortMod{Port: 2, HwAddr: hw, Config: bit, Mask: 0x65} }
	st := answer[*of13.PortStatus](r, mod(of13.PortConfigNoFwd))
	if st.Reason != of13.PortModify || st.Port.Config != of13.PortConfigNoFwd {
		t.Fatalf("got %v", st)
	}
	r.goes(1, ping(1), 3, 4)
	answer[*of13.PortStatus](r, mod(of13.PortConfigNoRecv))
	r.goes(2, ping(1))
	r.goes(1, ping(1), 2, 3, 4)
	st = answer[*of13.PortStatus](r, mod(of13.PortConfigDown))
	if st.Port.State&of13.PortStateLive != 0 {
		t.Fatalf("got %v", st)
	}
	const e = of13.ErrTypePortModFailed
	r.fails(&of13.PortMod{Port: 9}, e, of13.PortModFailedBadPort)
	r.fails(&of13.PortMod{Port: 2}, e, of13.PortModFailedBadHwAddr)
	r.fails(&of13.PortMod{Port: 2, HwAddr: hw, Mask: 1 << 20}, e, of13.PortModFailedBadConfig)
}
