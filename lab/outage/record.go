package outage

import "time"

const (
	// underway is how long a frame may take before it counts as lost.
	underway = 20 * time.Millisecond

	// quiet is how long all frames must have arrived again before an outage is over.
	quiet = 50 * time.Millisecond

	// maxFrames bounds a record: four minutes of the fastest stream. Later frames are not recorded.
	maxFrames = 1 << 20
)

// record is which frames of a stream arrived. Frames are numbered from 0. It is not for concurrent use.
type record struct {
	first int // number of the oldest recorded frame
	sent  []time.Duration
	came  []bool
}

// send notes that the next frame leaves, and returns its number.
func (r *record) send(at time.Duration) int {
	if len(r.sent) < maxFrames {
		r.sent, r.came = append(r.sent, at), append(r.came, false)
		return r.first + len(r.sent) - 1
	}
	return -1
}

// receive records the arrival of a frame.
func (r *record) receive(n int) {
	if i := n - r.first; i >= 0 && i < len(r.came) {
		r.came[i] = true
	}
}

// full reports whether frames were not recorded.
func (r *record) full() bool { return len(r.sent) == maxFrames }

// forget drops the frames that can be judged by now, and returns how many of them were lost.
func (r *record) forget(now time.Duration) (lost int) {
	n := r.judged(now)
	for _, came := range r.came[:n] {
		if !came {
			lost++
		}
	}
	r.first += n
	r.sent, r.came = append(r.sent[:0], r.sent[n:]...), append(r.came[:0], r.came[n:]...)
	return lost
}

// judged is how many of the frames must have arrived by now, or are lost.
func (r *record) judged(now time.Duration) int {
	n := len(r.sent)
	for n > 0 && now-r.sent[n-1] < underway {
		n--
	}
	return n
}

// lost reports whether a frame was lost that was sent after since.
func (r *record) lost(since, now time.Duration) bool {
	for i := range r.judged(now) {
		if !r.came[i] && r.sent[i] >= since {
			return true
		}
	}
	return false
}

// outage returns the interruption that began after since: from the sending of the first lost frame to that of the first
// frame after the last lost one. So a stream that recovers with further losses is interrupted until these end. It is
// over only when all frames have arrived for a while.
func (r *record) outage(since, now time.Duration) (o Sample, over bool) {
	first, last := -1, -1
	n := r.judged(now)
	for i := range n {
		if r.came[i] || r.sent[i] < since {
			continue
		}
		if first < 0 {
			first = i
		}
		last = i
	}
	if first < 0 || last+1 >= n || r.sent[n-1]-r.sent[last] < quiet {
		return Sample{}, false
	}
	o.Outage = r.sent[last+1] - r.sent[first]
	o.Resolution = r.sent[last+1] - r.sent[last]
	if first > 0 {
		o.Resolution = max(o.Resolution, r.sent[first]-r.sent[first-1])
	}
	return o, true
}
