package of14

import (
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// Properties of a bucket in 1.5, of 8 bytes each, where 1.3 has fields.
const (
	bucketWeight     uint16 = 0
	bucketWatchPort  uint16 = 1
	bucketWatchGroup uint16 = 2
)

// bucketAll stands for every bucket of a group, and for none in commands that name no bucket.
const bucketAll uint32 = 0xffffffff

// groupModFromV13 translates to 1.5; in 1.4 the message is as in 1.3. Buckets are numbered from 0.
func groupModFromV13(dst, msg []byte, version uint8) ([]byte, error) {
	const fixed = 24
	var in of13.GroupMod
	if err := in.Decode(msg); err != nil {
		return dst, err
	}
	if version == openflow.Version14 {
		return relabel(dst, msg, version), nil
	}
	n := len(dst)
	dst = pad(relabel(dst, msg[:16], version), 4) // with room for the length of the buckets
	dst = be.AppendUint32(dst, bucketAll)
	id := uint32(0)
	for b := range in.Buckets.All() {
		dst = bucketFromV13(dst, b, id, in.GroupType)
		id++
		if len(dst)-n > openflow.MaxMessageLen {
			return dst[:n], unsupported(msg, 16, "a group of this size")
		}
	}
	be.PutUint16(dst[n+16:], uint16(len(dst)-n-fixed))
	openflow.SetLength(dst[n:])
	return dst, nil
}

// bucketFromV13 leaves out what means nothing for the type of the group: there a switch may refuse it.
func bucketFromV13(dst []byte, b of13.Bucket, id uint32, groupType uint8) []byte {
	n := len(dst)
	dst = be.AppendUint16(be.AppendUint16(dst, 0), uint16(len(b.Actions)))
	dst = append(be.AppendUint32(dst, id), b.Actions...)
	if groupType == of13.GroupTypeSelect {
		dst = pad(be.AppendUint16(property8(dst, bucketWeight), b.Weight), 2)
	}
	if groupType == of13.GroupTypeFastFailover {
		if b.WatchPort != of13.PortAny {
			dst = be.AppendUint32(property8(dst, bucketWatchPort), uint32(b.WatchPort))
		}
		if b.WatchGroup != of13.GroupAny {
			dst = be.AppendUint32(property8(dst, bucketWatchGroup), b.WatchGroup)
		}
	}
	be.PutUint16(dst[n:], uint16(len(dst)-n))
	return dst
}

func property8(dst []byte, typ uint16) []byte { return be.AppendUint16(be.AppendUint16(dst, typ), 8) }

// groupDescToV13 appends a group of 1.5, which is msg[off:end].
func groupDescToV13(dst, msg []byte, off, end int) ([]byte, error) {
	const fixed = 16
	buckets := off + fixed + int(be.Uint16(msg[off+8:])) // where they end
	if buckets > end {
		return dst, fail(msg, off+8, openflow.BadLength, "buckets of %d bytes, %d left", buckets-off-fixed,
			end-off-fixed)
	}
	n, groupType := len(dst), msg[off+2]
	dst = append(dst, msg[off:off+8]...)
	for off += fixed; off < buckets; {
		size, err := sized(msg, off, buckets, 0, 8, "a bucket")
		if err == nil {
			dst, err = bucketToV13(dst, msg, off, off+size, groupType)
		}
		if err != nil {
			return dst, err
		}
		off += size
	}
	be.PutUint16(dst[n:], uint16(len(dst)-n)) // of more than 16 bits: then it does not fit a message either
	return dst, nil
}

func bucketToV13(dst, msg []byte, off, end int, groupType uint8) ([]byte, error) {
	actions := off + 8 + int(be.Uint16(msg[off+2:])) // where they end
	if actions > end {
		return dst, fail(msg, off+2, openflow.BadLength, "actions of %d bytes, %d left", actions-off-8, end-off-8)
	}
	b := of13.Bucket{WatchPort: of13.PortAny, WatchGroup: of13.GroupAny, Actions: of13.Actions(msg[off+8 : actions])}
	if groupType == of13.GroupTypeSelect {
		b.Weight = 1 // without the property; 0 would mean that the bucket is not used
	}
	err := properties(msg, actions, end, func(typ uint16, p []byte) {
		switch {
		case len(p) != 8:
		case typ == bucketWeight:
			b.Weight = be.Uint16(p[4:])
		case typ == bucketWatchPort:
			b.WatchPort = of13.Port(be.Uint32(p[4:]))
		case typ == bucketWatchGroup:
			b.WatchGroup = be.Uint32(p[4:])
		}
	})
	if err != nil {
		return dst, err
	}
	return b.AppendTo(dst), nil
}
