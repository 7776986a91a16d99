package monitor

import (
	"testing"

	"github.com/holdfast-sdn/holdfast/lab/mutation"
)

// mutants are bugs that fire a trigger twice, or when nothing has reached its threshold.
var mutants = []mutation.Bug{
	{Name: "measure from before a change of the leader", File: "network/monitor/sample.go",
		Before: "last != 0 && r.xid == last {", After: "true {"},
	{Name: "measure across counters that have begun again", File: "network/monitor/sample.go",
		Before: "	case s.restarted(before):\n		return false, 0\n", After: ""},
	{Name: "trust the clock that has gone less far", File: "network/monitor/sample.go",
		Before: "bytes / max(ledger, own)", After: "bytes / min(ledger, own)"},
	{Name: "forget what the earlier parts of a reply have", File: "network/monitor/poll.go",
		Before: "row.Seen == c.xid || c.seen[j]", After: "c.seen[j]"},
	{Name: "fall at the threshold", File: "network/monitor/sample.go",
		Before: "most < t.Below", After: "most < t.Above"},
}

// Checks that each seeded bug still applies to the code. TestMutants, which builds and runs them, has a build tag.
func TestMutantsApply(t *testing.T) {
	mutation.TestApply(t, "../..", mutants)
}
