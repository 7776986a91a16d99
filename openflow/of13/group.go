package of13

import "fmt"

// Reserved group ids (section 7.3.4.2).
const (
	GroupMax uint32 = 0xffffff00
	GroupAll uint32 = 0xfffffffc // in deletions: every group
	GroupAny uint32 = 0xffffffff // in flow-mods and statistics: no restriction
)

// Commands of a group-mod.
const (
	GroupAdd uint16 = iota
	GroupModify
	GroupDelete
)

// Types of groups.
const (
	GroupTypeAll          uint8 = iota // every bucket
	GroupTypeSelect                    // one bucket, chosen by the switch according to the weights
	GroupTypeIndirect                  // the only bucket
	GroupTypeFastFailover              // the first live bucket
)

// Bucket is an alternative of a group.
type Bucket struct {
	Weight     uint16 // select groups only
	WatchPort  Port   // fast failover only, else PortAny
	WatchGroup uint32 // fast failover only, else GroupAny
	Actions    Actions
}

// Buckets are the buckets of a group as wire bytes.
type Buckets = List[Bucket]

const bucketLen = 16

func (Bucket) shape() shape { return shape{name: "bucket", least: bucketLen, lenAt: 0} }

func (Bucket) check(msg []byte, off, end int) error { return checkActions(msg, off+bucketLen, end) }

func (Bucket) parse(b []byte) Bucket {
	return Bucket{u16(b[2:]), Port(u32(b[4:])), u32(b[8:]), Actions(b[bucketLen:])}
}

// AppendTo appends the encoded bucket.
func (b Bucket) AppendTo(dst []byte) []byte {
	dst = put16(put16(dst, uint16(bucketLen+len(b.Actions))), b.Weight)
	dst = put32(put32(dst, uint32(b.WatchPort)), b.WatchGroup)
	return append(pad(dst, 4), b.Actions...)
}

// GroupMod changes a group (section 7.3.4.2).
type GroupMod struct {
	Command   uint16
	GroupType uint8
	GroupID   uint32
	Buckets   Buckets
}

// Type returns TypeGroupMod.
func (*GroupMod) Type() uint8 { return TypeGroupMod }

// Append appends the message.
func (m *GroupMod) Append(dst []byte, xid uint32) []byte {
	n := len(dst)
	dst = append(put16(begin(dst, TypeGroupMod, xid), m.Command), m.GroupType, 0)
	return end(append(put32(dst, m.GroupID), m.Buckets...), n)
}

// Decode reads a GROUP_MOD.
func (m *GroupMod) Decode(msg []byte) error {
	if err := open(msg, TypeGroupMod, 16); err != nil {
		return err
	}
	if err := checkList[Bucket](msg, 16, len(msg)); err != nil {
		return err
	}
	*m = GroupMod{u16(msg[8:]), msg[10], u32(msg[12:]), Buckets(msg[16:])}
	return nil
}

// String returns the message in one line.
func (m *GroupMod) String() string {
	b := fmt.Appendf(nil, "GROUP_MOD %s group=%d type=%s",
		nameOf([]string{"add", "modify", "delete"}, uint32(m.Command)),
		m.GroupID, nameOf([]string{"all", "select", "indirect", "ff"}, uint32(m.GroupType)))
	for k := range m.Buckets.All() {
		b = append(b, " bucket="...)
		if k.Weight != 0 {
			b = fmt.Appendf(b, "weight:%d,", k.Weight)
		}
		if k.WatchPort != PortAny {
			b = fmt.Appendf(b, "watch_port:%v,", k.WatchPort)
		}
		if k.WatchGroup != GroupAny {
			b = fmt.Appendf(b, "watch_group:%d,", k.WatchGroup)
		}
		b = fmt.Appendf(b, "actions=%v", k.Actions)
	}
	return string(b)
}
