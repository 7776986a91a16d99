package clusterkey

import (
	"net"
	"testing"
)

// FuzzPeer has somebody without the key say anything, to the side that listens and to the one that dials: it is
// refused, and nothing that it says is passed on.
func FuzzPeer(f *testing.F) {
	f.Add([]byte(magic))
	f.Add(append([]byte(magic), make([]byte, 2*nonceLen+64)...))
	f.Add([]byte{22, 3, 1, 0, 200})
	k := newKey(f)
	f.Fuzz(func(t *testing.T, said []byte) {
		for _, dials := range []bool{false, true} {
			mine, theirs := net.Pipe()
			go func() { // ends when mine is closed
				buf := make([]byte, 256)
				for n := 0; n >= 0; {
					var err error
					if n, err = theirs.Read(buf); err != nil {
						return
					}
				}
			}()
			go func() { // likewise
				_, _ = theirs.Write(said)
				_ = theirs.Close()
			}()
			c := newConn(k, mine)
			if dials {
				c.shake.Do(func() { c.err = c.dialing() })
			}
			if n, err := c.Read(make([]byte, 64)); n > 0 || err == nil {
				t.Errorf("read %d bytes of a peer without the key, %v", n, err)
			}
			_ = mine.Close()
		}
	})
}
