package access

import (
	"maps"
	"sync"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/pki"
)

// Who may not change anything must not push the records of changes out of the audit log. So it has one refusal of the
// same holder and path in refusalEvery: some megabytes a day at most. The log of the process has how many there were.
const (
	refusalEvery = time.Hour
	maxRefusals  = 4096 // that are remembered; while there are more within an hour, further ones are not recorded
)

// refusals are those that were recorded not long ago. Safe for concurrent use.
type refusals struct {
	mu   sync.Mutex // guards last
	last map[refused]time.Time
}

// refused is what a holder was refused.
type refused struct {
	who     pki.Identity
	pattern string
}

// record reports whether a refusal is to be recorded, and takes it for recorded then.
func (r *refusals) record(of refused, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if last, known := r.last[of]; known && now.Sub(last) < refusalEvery {
		return false
	}
	if len(r.last) >= maxRefusals {
		maps.DeleteFunc(r.last, func(_ refused, last time.Time) bool { return now.Sub(last) >= refusalEvery })
	}
	if len(r.last) >= maxRefusals {
		return false
	}
	if r.last == nil {
		r.last = map[refused]time.Time{}
	}
	r.last[of] = now
	return true
}
