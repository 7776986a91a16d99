package router

import "testing"

// FuzzConfig has a client put any configuration: it is refused, or each route has an interface.
func FuzzConfig(f *testing.F) {
	f.Add([]byte(configuration))
	f.Fuzz(func(t *testing.T, body []byte) {
		c, err := parse(requestOf(string(body)))
		if err != nil {
			return
		}
		for _, r := range c.Routes {
			if i, source := c.interfaceOf(r.Via); i == nil || !source.IsValid() {
				t.Errorf("the route to %v has no interface", r.Prefix)
			}
		}
	})
}
