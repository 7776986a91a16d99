package of13

// Role is the role of a controller toward a switch (section 7.3.9).
type Role uint32

// The roles.
const (
	RoleNoChange Role = iota // requests the current one
	RoleEqual
	RoleMaster
	RoleSlave
)

func (r Role) String() string {
	return nameOf([]string{"nochange", "equal", "master", "slave"}, uint32(r))
}

// RoleChange is the body of both role messages.
type RoleChange struct {
	Role         Role
	GenerationID uint64 // grows with each mastership; a switch refuses one that is older than the last
}

func (r RoleChange) append(dst []byte, t uint8, xid uint32) []byte {
	n := len(dst)
	dst = put32(begin(dst, t, xid), uint32(r.Role))
	return end(put64(pad(dst, 4), r.GenerationID), n)
}

func (r *RoleChange) decode(msg []byte, t uint8) error {
	if err := openExact(msg, t, 24); err != nil {
		return err
	}
	*r = RoleChange{Role(u32(msg[8:])), u64(msg[16:])}
	return nil
}

// RoleRequest asks for a role.
type RoleRequest RoleChange

// Type returns TypeRoleRequest.
func (*RoleRequest) Type() uint8 { return TypeRoleRequest }

// Append appends the message.
func (m *RoleRequest) Append(dst []byte, xid uint32) []byte {
	return RoleChange(*m).append(dst, TypeRoleRequest, xid)
}

// Decode reads a ROLE_REQUEST.
func (m *RoleRequest) Decode(msg []byte) error { return (*RoleChange)(m).decode(msg, TypeRoleRequest) }

// RoleReply reports the role.
type RoleReply RoleChange

// Type returns TypeRoleReply.
func (*RoleReply) Type() uint8 { return TypeRoleReply }

// Append appends the message.
func (m *RoleReply) Append(dst []byte, xid uint32) []byte {
	return RoleChange(*m).append(dst, TypeRoleReply, xid)
}

// Decode reads a ROLE_REPLY.
func (m *RoleReply) Decode(msg []byte) error { return (*RoleChange)(m).decode(msg, TypeRoleReply) }

// Async selects the asynchronous messages that a controller receives (section 7.3.10). Each mask has bit r set
// for reason r; index 0 applies while the controller is master or equal, index 1 while it is slave.
type Async struct {
	PacketIn    [2]uint32
	PortStatus  [2]uint32
	FlowRemoved [2]uint32
}

func (a Async) append(dst []byte, t uint8, xid uint32) []byte {
	n := len(dst)
	dst = begin(dst, t, xid)
	for _, mask := range [...][2]uint32{a.PacketIn, a.PortStatus, a.FlowRemoved} {
		dst = put32(put32(dst, mask[0]), mask[1])
	}
	return end(dst, n)
}

func (a *Async) decode(msg []byte, t uint8) error {
	if err := openExact(msg, t, 32); err != nil {
		return err
	}
	pair := func(i int) [2]uint32 { return [2]uint32{u32(msg[i:]), u32(msg[i+4:])} }
	*a = Async{pair(8), pair(16), pair(24)}
	return nil
}

// GetAsyncReply reports which messages the controller receives.
type GetAsyncReply Async

// Type returns TypeGetAsyncReply.
func (*GetAsyncReply) Type() uint8 { return TypeGetAsyncReply }

// Append appends the message.
func (m *GetAsyncReply) Append(dst []byte, xid uint32) []byte {
	return Async(*m).append(dst, TypeGetAsyncReply, xid)
}

// Decode reads a GET_ASYNC_REPLY.
func (m *GetAsyncReply) Decode(msg []byte) error { return (*Async)(m).decode(msg, TypeGetAsyncReply) }

// SetAsync selects the messages that the controller receives.
type SetAsync Async

// Type returns TypeSetAsync.
func (*SetAsync) Type() uint8 { return TypeSetAsync }

// Append appends the message.
func (m *SetAsync) Append(dst []byte, xid uint32) []byte {
	return Async(*m).append(dst, TypeSetAsync, xid)
}

// Decode reads a SET_ASYNC.
func (m *SetAsync) Decode(msg []byte) error { return (*Async)(m).decode(msg, TypeSetAsync) }
