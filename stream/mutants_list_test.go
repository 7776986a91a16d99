package stream

import (
	"testing"

	"github.com/holdfast-sdn/holdfast/lab/mutation"
)

// mutants are bugs that the simulator does not show, since none of its senders and receivers asks for that, or that end
// in a panic there. The tests of this package notice each. Others are in lab/sim.
var mutants = []mutation.Bug{
	{Name: "accept a gap", File: "stream/stream.go",
		Before: "	if first > next {\n", After: "	if first > next+1 {\n"},
	{Name: "accept the first of a run only", File: "stream/stream.go",
		Before: "		*w = Watermark(end - 1)\n", After: "		*w = Watermark(next)\n"},
	{Name: "go back to an earlier number", File: "stream/stream.go",
		Before: "end > next {", After: "end != next {"},
	{Name: "take an acknowledgement of what was never sent", File: "stream/outbox.go",
		Before: "	case n > o.last:\n", After: "	case n > o.last+1:\n"},
	{Name: "forget again what an old acknowledgement says", File: "stream/outbox.go",
		Before: "	case n <= o.acked:\n		return nil\n	}\n", After: "	}\n"},
	{Name: "take back too little", File: "stream/outbox.go",
		Before: "o.buf[:o.start(n+1)], n\n", After: "o.buf[:o.start(n+2)], n+1\n"},
	{Name: "take back the number and not the bytes", File: "stream/outbox.go",
		Before: "		o.buf, o.last = o.buf[:o.start(n+1)], n\n", After: "		o.last = n\n"},
	{Name: "take back what is acknowledged", File: "stream/outbox.go",
		Before: "	case n < o.acked:\n", After: "	case n+1 < o.acked:\n"},
	{Name: "number from 1 again after a restart", File: "stream/outbox.go",
		Before: "	o = OutboxAfter(acked)\n", After: "	o = OutboxAfter(0)\n"},
	{Name: "lose the oldest when the index grows", File: "stream/outbox.go",
		Before: "	for i := o.acked + 1; i <= o.last; i++ {\n		ends[",
		After:  "	for i := o.acked + 2; i <= o.last; i++ {\n		ends["},
	{Name: "room for one more", File: "stream/outbox.go",
		Before: "return o.Len() >= most.Items", After: "return o.Len() > most.Items"},
	{Name: "send more bytes than were asked for", File: "stream/outbox.go",
		Before: "uint64(max(1, n))", After: "uint64(n + 1)"},
	{Name: "send what is not to be sent yet", File: "stream/outbox.go",
		Before: "min(upTo, o.last)\n", After: "o.last\n"},
}

// Checks that each seeded bug still applies to the code. TestMutants, which builds and runs them, has a build tag.
func TestMutantsApply(t *testing.T) {
	mutation.TestApply(t, "..", mutants)
}
