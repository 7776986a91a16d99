//go:build mutants

package store

import (
	"testing"

	"github.com/holdfast-sdn/holdfast/lab/mutation"
)

// The tests of buckets fail with each bug, and pass without.
func TestMutants(t *testing.T) {
	mutation.TestNoticed(t, "..", "github.com/holdfast-sdn/holdfast", "./store", mutants, "-test.run",
		"^Test(Split|MergePages|Bucket)", "-rapid.nofailfile", "-rapid.shrinktime=0s")
}
