//go:build mutants

package ledger

import (
	"testing"

	"github.com/holdfast-sdn/holdfast/lab/mutation"
)

// The tests of suspended actors, of what followers pass on, of epochs that are too high, of what is counted, of rows
// that are written again, and of the memory of snapshots, fail with each bug, and pass without.
func TestMutants(t *testing.T) {
	mutation.TestNoticed(t, "..", "github.com/holdfast-sdn/holdfast", "./ledger", mutants,
		append(mutation.Rapid, "-test.run", "Suspen|Relay|EpochAhead|Crowd|Compare|Forget|MoveOfMuch|Sample|MemoryOf|Again|ForgetsPuts")...)
}
