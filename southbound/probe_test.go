package southbound

import "testing"

func TestProbe(t *testing.T) {
	for _, tc := range []struct {
		p            Probe
		alive, known bool
	}{
		{Probe{}, false, false},
		{Probe{Busy: true}, false, false},
		{Probe{Heard: true}, true, true},
		{Probe{Late: true}, false, true},
		{Probe{Late: true, Busy: true}, true, true},
		{Probe{Late: true, Heard: true}, true, true},
		{Probe{Gone: true, Busy: true, Heard: true}, false, true},
	} {
		if alive, known := tc.p.Alive(); alive != tc.alive || known != tc.known {
			t.Errorf("%+v: alive %v, known %v", tc.p, alive, known)
		}
	}
}
