package experimenter

import "math"

// The epochs of a switch only grow, so a peer that claims the highest one would lock out every later incarnation of the
// switch. An epoch is a clock reading in nanoseconds, or one more than the last: so any up to clockEpochs is taken (the
// year 2262), and above that only those that follow the last one closely. To use up the rest of the numbers in steps
// of epochStep takes 2^43 epochs.
const (
	clockEpochs uint64 = 1 << 63
	epochStep   uint64 = 1 << 20
)

// MaxEpoch returns the highest epoch of a switch that is taken after the epoch last, 0 if none is known. An agent that
// has no controllers may begin many epochs meanwhile, each one more than the one before.
func MaxEpoch(last uint64) uint64 {
	if last > math.MaxUint64-epochStep {
		return math.MaxUint64
	}
	return max(clockEpochs, last+epochStep)
}
