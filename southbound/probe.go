package southbound

// Probe is what is known of the older of two sessions with one datapath id, since it was sent
// an echo request because the newer came. If it is alive the newer is refused, as a duplicate;
// else the older is closed, and the newer takes its place.
type Probe struct {
	Gone  bool // it has ended by itself
	Heard bool // something came from its peer
	Late  bool // Config.ProbeTimeout is over
	Busy  bool // it is not being read, because its Handler is busy
}

// Alive judges the older session. Unless the answer is known, ask again with what comes.
func (p Probe) Alive() (alive, known bool) {
	switch {
	case p.Gone:
		return false, true
	case p.Heard:
		return true, true
	case p.Late:
		return p.Busy, true // of who is not read nothing can be heard
	}
	return false, false
}
