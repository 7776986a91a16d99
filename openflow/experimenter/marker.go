package experimenter

// The cookies of markers, the flow entries by which switches without an agent tell what they have done
// (docs/design/stock.md), begin with one byte.
const (
	MarkerCookie uint64 = 0x48 << 56
	MarkerMask   uint64 = 0xff << 56
)

// IsMarker reports whether a cookie is that of a marker.
func IsMarker(cookie uint64) bool { return cookie&MarkerMask == MarkerCookie }
