package transport

import (
	"testing"

	"github.com/holdfast-sdn/holdfast/lab/mutation"
)

// mutants are bugs of what waits in the connection to a controller.
var mutants = []mutation.Bug{
	{Name: "heartbeats wait for other messages", File: "consensus/transport/peer.go",
		Before: "		p.late.Reset(d)\n", After: ""},
	{Name: "heartbeats wait as long as answers", File: "consensus/transport/peer.go",
		Before: " || p.gathering && d < p.waits {", After: " {"},
	{Name: "heartbeats wait although there are no more", File: "consensus/transport/peer.go",
		Before: "	if gathering {\n		p.signal()\n", After: "	if !gathering {\n		p.signal()\n"},
}

// Each seeded bug can still be put into the code; TestMutants, which builds and runs them, has a build tag.
func TestMutantsApply(t *testing.T) {
	mutation.TestApply(t, "../..", mutants)
}
