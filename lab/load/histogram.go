package load

import (
	"math/bits"
	"time"
)

// Histogram counts durations in buckets that are about 3 % wide. The zero value is empty.
// Not for concurrent use.
type Histogram struct {
	count   uint64
	max     time.Duration
	buckets [bucketCount]uint64
}

const (
	subBits     = 5 // each power of two has 32 buckets
	subBuckets  = 1 << subBits
	bucketCount = (64 - subBits) * subBuckets
)

func bucket(ns uint64) int {
	if ns < subBuckets {
		return int(ns)
	}
	shift := bits.Len64(ns) - subBits - 1
	return shift*subBuckets + int(ns>>shift)
}

// highest returns the largest value in a bucket, in nanoseconds.
func highest(bucket int) uint64 {
	if bucket < subBuckets {
		return uint64(bucket)
	}
	shift := bucket/subBuckets - 1
	return uint64(bucket-shift*subBuckets+1)<<shift - 1
}

// Record counts d; less than 0 counts as 0.
func (h *Histogram) Record(d time.Duration) {
	d = max(d, 0)
	h.count++
	h.max = max(h.max, d)
	h.buckets[bucket(uint64(d))]++
}

// Merge adds what o counted.
func (h *Histogram) Merge(o *Histogram) {
	h.count += o.count
	h.max = max(h.max, o.max)
	for i, n := range o.buckets {
		h.buckets[i] += n
	}
}

// Count returns how many durations were recorded.
func (h *Histogram) Count() uint64 { return h.count }

// Max returns the largest duration recorded.
func (h *Histogram) Max() time.Duration { return h.max }

// Quantile returns a duration that a share q of the recorded ones, 0 to 1, does not exceed.
// It is 0 when there are none.
func (h *Histogram) Quantile(q float64) time.Duration {
	if h.count == 0 {
		return 0
	}
	rank := uint64(q*float64(h.count-1)) + 1
	for i, n := range h.buckets {
		if rank <= n {
			return min(time.Duration(highest(i)), h.max)
		}
		rank -= n
	}
	return h.max
}
