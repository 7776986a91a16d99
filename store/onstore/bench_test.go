package onstore

import "testing"

// What one flow costs the leader, with each variant.
func BenchmarkFlows(b *testing.B) {
	for _, v := range Names["learning"] {
		b.Run(string(v), func(b *testing.B) {
			s := newStore(b)
			a, err := New("learning", v, s, s)
			if err == nil {
				err = a.Setup(b.Context())
			}
			if err != nil {
				b.Fatal(err)
			}
			for n := 0; b.Loop(); n++ {
				if _, err := a.Handle(b.Context(), toHost(byte(n%100+1), byte(n%99+1))); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
