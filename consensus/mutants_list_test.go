package consensus

import (
	"testing"

	"github.com/holdfast-sdn/holdfast/lab/mutation"
)

// mutants are bugs of elections in which no safety is lost: the simulator does not count the changes of the leader.
// Others are in lab/sim and lab/shells.
var mutants = []mutation.Bug{
	{Name: "the timeout never falls again", File: "consensus/lateness.go",
		Before: "	l.longest /= 2\n", After: ""},
	{Name: "the timeout falls at once", File: "consensus/lateness.go",
		Before: "	l.longest /= 2\n", After: "	l.longest = 0\n"},
	{Name: "the silence of a leader that died raises the timeout", File: "consensus/lateness.go",
		Before: "			c.before, c.now = c.now, contact{",
		After:  "			waited = c.now.ticks\n			c.before, c.now = c.now, contact{"},
	{Name: "a failure that ended counts as lateness", File: "consensus/lateness.go",
		Before: " || ticks > l.most {", After: " {"},
	{Name: "a leader that was deposed and lives teaches nothing", File: "consensus/lateness.go",
		Before: "waited, c.before = c.before.ticks, contact{}", After: "c.before = contact{}"},
	{Name: "lateness delays the election after a death", File: "consensus/election.go",
		Before: "	if !e.hinted {\n", After: "	{\n"},
	{Name: "blame the leader for missed ticks", File: "consensus/election.go",
		Before: "	e.elapsed++\n", After: "	e.elapsed += 1 + missed\n"},
	{Name: "missed ticks never count as silence", File: "consensus/election.go",
		Before: "		e.owed = missed\n", After: ""},
	{Name: "own lateness does not count", File: "consensus/election.go",
		Before: "	e.late.waited(missed+1, LateSelf)\n", After: ""},
	{Name: "late answers teach a leader nothing", File: "consensus/answers.go",
		Before: "	if age < a.age {\n", After: "	if false {\n"},
	{Name: "a leader without a majority stays", File: "consensus/answers.go",
		Before: "	case c.answers.age >= 2*timeout:\n", After: "	case false:\n"},
	{Name: "a transfer that fails is not ended", File: "consensus/answers.go",
		Before: "	case c.Transferring() && c.clock-c.transferAt >= uint64(min(timeout, mostTransfer*c.election.base)):\n", After: "	case false:\n"},
}

// Each seeded bug can still be put into the code; TestMutants, which builds and runs them, has a build tag.
func TestMutantsApply(t *testing.T) {
	mutation.TestApply(t, "..", mutants)
}
