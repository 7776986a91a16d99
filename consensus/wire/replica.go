package wire

// A controller takes part in several groups, with one replica in each. The id of a replica contains the id of its
// controller, so a message finds its way by its ids alone:
//
//	n u16 | controller u48
//
// The first replica of a group at a controller has n = 0, so its id is that of the controller. A replica that was
// removed does not return, because its id is used only once: the controller's next replica of that group has the next
// n. See docs/decisions/0042-replicas-name-their-controller.md.

const controllerBits = 48

// MaxController is the largest id of a controller. The two ids above it would give replicas the ids that raft reserves.
const MaxController = 1<<controllerBits - 3

// ReplicaID is the id of the replica of a group that was the n-th to be placed at a controller, counted from 0.
func ReplicaID(controller uint64, n uint16) uint64 { return uint64(n)<<controllerBits | controller }

// ControllerOf is the id of the controller at which a replica is.
func ControllerOf(replica uint64) uint64 { return replica & (1<<controllerBits - 1) }

// Number is the n of ReplicaID.
func Number(replica uint64) uint16 { return uint16(replica >> controllerBits) }
