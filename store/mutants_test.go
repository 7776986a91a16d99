//go:build mutants

package store

import (
	"testing"

	"github.com/holdfast-sdn/holdfast/lab/mutation"
)

// The tests of this package fail with each bug, and pass without.
func TestMutants(t *testing.T) {
	mutation.TestNoticed(t, "..", "github.com/holdfast-sdn/holdfast", "./store", mutants,
		append(mutation.Rapid, "-test.run", "^Test(Split|MergePages|Bucket|Refused|Unchanged|Replaced)")...)
}
