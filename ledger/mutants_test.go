//go:build mutants

package ledger

import (
	"testing"

	"github.com/holdfast-sdn/holdfast/lab/mutation"
)

// The tests of suspended actors fail with each bug, and pass without.
func TestMutants(t *testing.T) {
	mutation.TestNoticed(t, "..", "github.com/holdfast-sdn/holdfast", "./ledger", mutants, "-test.run", "Suspen",
		"-test.failfast")
}
