package queue

import (
	"testing"

	"github.com/holdfast-sdn/holdfast/lab/mutation"
)

// mutants are bugs by which a message is consumed twice, or never.
var mutants = []mutation.Bug{
	{Name: "put what is repeated", File: "apps/queue/queue.go",
		Before: "	case number == c.Put && number > 0:\n		return c.Last, nil\n	case number != c.Put+1:", After: "	case number != c.Put+1 && number != c.Put:"},
	{Name: "take the next for a repeated request", File: "apps/queue/queue.go",
		Before: "	case after+1 == c.Taken && c.Holds > 0:\n		return Taken{Message: c.Holds, Take: c.Taken}, nil\n", After: "	case after+1 == c.Taken && c.Holds > 0:\n		after++\n"},
	{Name: "lose what a client holds that is removed", File: "apps/queue/queue.go",
		Before: "	if c.Holds > 0 {\n		q.ready.Put(tx, name, c.Holds, true)\n	}\n	s.Clients--", After: "	_ = c\n	s.Clients--"},
	{Name: "accept a late acknowledgement", File: "apps/queue/queue.go",
		Before: "!leased || now != take {", After: "!leased && now != take {"},
	{Name: "keep the timer of what is acknowledged", File: "apps/queue/queue.go",
		Before: "	q.leases.Delete(tx, name, message)\n	tx.CancelTimer(strconv.FormatUint(message, 10))\n	s.Leases--", After: "	q.leases.Delete(tx, name, message)\n	s.Leases--"},
}

// Checks that each seeded bug still applies to the code. TestMutants, which builds and runs them, has a build tag.
func TestMutantsApply(t *testing.T) {
	mutation.TestApply(t, "../..", mutants)
}
