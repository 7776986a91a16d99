//go:build mutants

package trunk

import (
	"testing"

	"github.com/holdfast-sdn/holdfast/lab/mutation"
)

// The tests of this package fail with each bug, and pass without.
func TestMutants(t *testing.T) {
	mutation.TestNoticed(t, "../..", "github.com/holdfast-sdn/holdfast", "./internal/trunk", mutants,
		"-test.timeout=10s")
}
