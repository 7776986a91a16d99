package client

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/config"
)

// three is a client of c1, c2 and c3.
func three() *Client {
	return &Client{cluster: &config.Cluster{Controllers: []config.Controller{{Name: "c1"}, {Name: "c2"}, {Name: "c3"}}},
		waiting: func(string) {}}
}

// reply is what a controller answers after a time; 0 is an error, and a negative value is stale.
type reply struct {
	after time.Duration
	value int
}

// hangs is the reply of a controller that does not answer.
var hangs = reply{after: time.Hour}

func asker(replies map[string]reply) func(context.Context, config.Controller) (int, error) {
	return func(ctx context.Context, n config.Controller) (int, error) {
		r := replies[n.Name]
		if err := sleep(ctx, r.after); err != nil {
			return 0, err
		}
		if r.value == 0 {
			return 0, errors.New(n.Name)
		}
		return r.value, nil
	}
}

// An answer of a controller that knows no leader counts only if for a second no other answers that does.
func TestNewest(t *testing.T) {
	for name, c := range map[string]struct {
		replies map[string]reply
		want    int
		after   time.Duration
	}{
		"a leader":        {map[string]reply{"c1": {0, 7}, "c2": hangs, "c3": hangs}, 7, 0},
		"a minority":      {map[string]reply{"c1": hangs, "c2": {100, -2}, "c3": hangs}, -2, staleAfter + 100},
		"two, and none":   {map[string]reply{"c1": {0, -1}, "c2": {0, -4}, "c3": {0, 0}}, -4, 0},
		"the leader late": {map[string]reply{"c1": {0, -5}, "c2": {staleAfter / 2, 3}, "c3": hangs}, 3, staleAfter / 2},
		"none":            {map[string]reply{"c1": {0, 0}, "c2": {5, 0}, "c3": {0, 0}}, 0, 5},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cl, began := three(), time.Now()
				w := cl.wait("waiting")
				defer w.end()
				got, err := newest(t.Context(), cl, w, asker(c.replies), func(n int) bool { return n < 0 },
					func(a, b int) bool { return a < b }, func(a, b error) error { return errors.Join(a, b) })
				if got != c.want || (err != nil) != (c.want == 0) || time.Since(began) != c.after {
					t.Errorf("%d, %v after %v; want %d after %v", got, err, time.Since(began), c.want, c.after)
				}
			})
		})
	}
}

// A controller that hangs delays a question by half a second, and one that fails not at all.
func TestInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl, began := three(), time.Now()
		w := cl.wait("waiting")
		defer w.end()
		var names []string
		inTurn(t.Context(), cl, w, askNext, asker(map[string]reply{"c1": hangs, "c3": {10, 3}}),
			func(a said[int]) bool {
				names = append(names, a.from.Name)
				return a.err != nil
			})
		if !slices.Equal(names, []string{"c2", "c3"}) || time.Since(began) != askNext+10 {
			t.Errorf("%v answer after %v", names, time.Since(began))
		}
	})
}
