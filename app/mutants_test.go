//go:build mutants

package app_test

import (
	"testing"

	"github.com/holdfast-sdn/holdfast/lab/mutation"
)

// The tests of this package fail with each bug, and pass without.
func TestMutants(t *testing.T) {
	mutation.TestNoticed(t, "..", "github.com/holdfast-sdn/holdfast", "./app", mutants,
		append(mutation.Rapid, "-test.run", "Rate|Call|Ask|Sources")...)
}
