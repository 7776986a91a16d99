package app_test

import (
	"testing"

	"github.com/holdfast-sdn/holdfast/lab/mutation"
)

// mutants are bugs of what waits: messages above the rate of an actor, and calls.
var mutants = []mutation.Bug{
	{Name: "handle a message before those that wait", File: "app/rate.go",
		Before: "	ok := m.count == 0 && (", After: "	ok := ("},
	{Name: "handle one more than the rate permits", File: "app/rate.go",
		Before: "m.next <= now+r.ahead }", After: "m.next <= now+r.ahead+r.every }"},
	{Name: "do not count what has waited", File: "app/rate.go",
		Before: "			m.use(r, now)\n		}\n	}\n", After: "			_ = now\n		}\n	}\n"},
	{Name: "forget those that wait behind the first", File: "app/rate.go",
		Before: "	if m.count == 0 {\n		return nil\n	}\n	return tx.release(m, now)\n", After: "	return nil\n"},
	{Name: "handle again what has waited", File: "app/rate.go",
		Before: "		m.first++\n		m.count--\n", After: "		m.count--\n"},
	{Name: "end a call that is answered again when it is late", File: "app/call.go",
		Before: "	a.tx.ledger.CancelTimer(r.ID)\n", After: ""},
}

// Checks that each seeded bug still applies to the code. TestMutants, which builds and runs them, has a build tag.
func TestMutantsApply(t *testing.T) {
	mutation.TestApply(t, "..", mutants)
}
