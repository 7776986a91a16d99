package app_test

import (
	"testing"

	"github.com/holdfast-sdn/holdfast/lab/mutation"
)

// mutants are bugs of what waits, which is messages above the rate of an actor and calls, and of bounds of what hosts
// fill.
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
	{Name: "one port takes the places of all", File: "app/sources.go",
		Before: "	return all.Hosts < s.perKey || here.Hosts < s.perKey/all.Ports", After: "	return all.Hosts < s.perKey"},
	{Name: "a port has no bound", File: "app/sources.go",
		Before: "	case here.Hosts >= s.perPort:\n", After: "	case false:\n"},
	{Name: "an address that moves is counted twice", File: "app/sources.go",
		Before: "	case known:\n		s.Forget(tx, k, host)\n", After: ""},
	{Name: "an address is forgotten although it was seen", File: "app/sources.go",
		Before: "		s.places.Put(tx, k, host, place{At: at, Minute: minute})\n		return seen\n",
		After:  "		return seen\n"},
	{Name: "addresses of a port that is gone are counted", File: "app/sources.go",
		Before: "	all.Hosts -= here.Hosts\n", After: ""},
	{Name: "end a call that is answered again when it is late", File: "app/call.go",
		Before: "	a.tx.ledger.CancelTimer(r.ID)\n", After: ""},
}

// Checks that each seeded bug still applies to the code. TestMutants, which builds and runs them, has a build tag.
func TestMutantsApply(t *testing.T) {
	mutation.TestApply(t, "..", mutants)
}
