package history

import (
	"testing"

	"github.com/holdfast-sdn/holdfast/ledger"
)

// counter counts its calls, and takes that back if the call is named "try".
type counter struct{}

func (counter) Name() string { return "counter" }
func (counter) Handle(tx *ledger.Tx, in *ledger.Input) error {
	t, n := tx.Table("t"), byte(0)
	if b, ok := tx.Get(t, ledger.Key{}, ledger.Key{}); ok {
		n = b[0]
	}
	m := tx.Mark()
	if tx.Put(t, ledger.Key{}, ledger.Key{}, []byte{n + 1}); in.Name == "try" {
		return tx.Rewind(m)
	}
	return nil
}

// A leader whose log does not show a call that it took back may have written the next value in another record than a
// controller that never had that call. The entry is right all the same.
func TestRowWrittenAgainAfterACallThatIsNotLogged(t *testing.T) {
	apps := func() []ledger.Application { return []ledger.Application{counter{}} }
	for _, wrong := range []bool{false, true} {
		violations := 0
		h := New(func(string, ...any) { violations++ })
		g := h.Group(GroupConfig{Applications: apps()})
		c, err := ledger.New(apps(), ledger.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Lead(1, 1000); err != nil {
			t.Fatal(err)
		}
		g.Leading(1, 1)
		for id, name := range []string{"add", "add", "try", "add"} {
			if err := c.Call(ledger.Call{Actor: ledger.Actor{App: "counter"}, Name: name, ID: uint64(id)}); err != nil {
				t.Fatal(err)
			}
		}
		entry, _ := c.Cut()
		if wrong {
			entry[len(entry)-1]++ // the last value
		}
		if g.Committed(1, 1, 1, entry); (violations > 0) != wrong {
			t.Errorf("wrong: %v, %d violations", wrong, violations)
		}
	}
}
