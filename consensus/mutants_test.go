//go:build mutants

package consensus

import (
	"testing"

	"github.com/holdfast-sdn/holdfast/lab/mutation"
)

// mutantTests are the tests that notice the seeded bugs.
const mutantTests = "Starv|FalseAlarm|FailureRaises|OwnLateness|Lateness|SilentLeader|Transfer$|Hosts|" +
	"OfGroups|StuckGroup|AbsentGroup|FaultOfLog|FullInbox|Saver|SaveNow|Rewind|OwnerHangs|Safety|Vouch|" +
	"Crowd|Nominat|AtOnce|FirstTerm|Seconds|TermAhead"

// The tests of this package fail with each bug, and pass without.
func TestMutants(t *testing.T) {
	mutation.TestNoticed(t, "..", "github.com/holdfast-sdn/holdfast", "./consensus", mutants,
		append(mutation.Rapid, "-test.run", mutantTests)...)
}
