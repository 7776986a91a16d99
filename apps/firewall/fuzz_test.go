package firewall

import (
	"testing"

	"github.com/holdfast-sdn/holdfast/app"
)

// FuzzList has a client put any list: it is refused, or there are entries for it.
func FuzzList(f *testing.F) {
	f.Add([]byte(`{"default":"deny","rules":[{"action":"allow","protocol":"tcp","destination_port":"80-90"}]}`))
	f.Add([]byte(`{"default":"allow","rules":[{"action":"deny","source":"10.0.0.0/8","vlan":7,"switch":"1","port":2}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, detours := range []bool{false, true} {
			c := Config{Detours: detours}
			l, err := c.parse(app.Request{Body: body})
			if err != nil {
				continue
			}
			if entries, err := l.compile(c, nil); err != nil || len(entries) == 0 || len(entries) > MaxEntries+MaxRules {
				t.Errorf("%d entries, %v", len(entries), err)
			}
		}
	})
}
