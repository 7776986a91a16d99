//go:build mutants

package transport

import (
	"testing"

	"github.com/holdfast-sdn/holdfast/lab/mutation"
)

// TestHeartbeatsGather fails with each bug, and passes without.
func TestMutants(t *testing.T) {
	mutation.TestNoticed(t, "../..", "github.com/holdfast-sdn/holdfast", "./consensus/transport", mutants,
		"-test.run", "HeartbeatsGather")
}
