//go:build mutants

package disk

import (
	"testing"

	"github.com/holdfast-sdn/holdfast/lab/mutation"
)

// mutantTests are the tests that notice the seeded bugs.
const mutantTests = "LikeMemory|CarriedForward|LogStaysSmall|Forgotten|Needed|WrittenAgain"

// The tests of this package fail with each bug, and pass without.
func TestMutants(t *testing.T) {
	mutation.TestNoticed(t, "../../..", "github.com/holdfast-sdn/holdfast", "./consensus/storage/disk", mutants,
		"-test.run", mutantTests, "-test.failfast", "-rapid.nofailfile", "-rapid.shrinktime=0s")
}
