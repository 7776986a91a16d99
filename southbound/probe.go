package southbound

// Probe decides between two sessions with one datapath id. The older one is sent an echo request when the newer one
// arrives. If the older one is alive, the newer one is refused as a duplicate. Otherwise the older one is closed, and
// the newer one replaces it.
type Probe struct {
	Gone  bool // the older session has ended by itself
	Heard bool // its peer has sent something
	Late  bool // Config.ProbeTimeout has passed
	Busy  bool // it is not being read, because its Handler is busy
}

// Alive reports whether the older session is alive. If that is not known yet, call it again later.
func (p Probe) Alive() (alive, known bool) {
	switch {
	case p.Gone:
		return false, true
	case p.Heard:
		return true, true
	case p.Late:
		return p.Busy, true // a peer that is not being read cannot be heard
	}
	return false, false
}
