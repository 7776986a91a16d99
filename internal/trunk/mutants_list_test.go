package trunk

import (
	"testing"

	"github.com/holdfast-sdn/holdfast/lab/mutation"
)

// mutants are bugs by which a stream harms others, or loses what it has.
var mutants = []mutation.Bug{
	{Name: "send without credit", File: "internal/trunk/stream.go",
		Before: "	s.credit -= n\n", After: ""},
	{Name: "forget a stream that waits for credit", File: "internal/trunk/trunk.go",
		Before: "			if s.waiting {\n", After: "			if false {\n"},
	{Name: "end a stream before everything is sent", File: "internal/trunk/stream.go",
		Before: "	s.closing = true\n	s.wake()\n", After: "	s.closing, s.stopped = true, true\n	s.wake()\n"},
	{Name: "take a part of a message", File: "internal/trunk/trunk.go",
		Before: "			if n > t.left {\n", After: "			if false {\n"},
	{Name: "keep what nobody takes", File: "internal/trunk/trunk.go",
		Before: "s.unread > MaxUnread,", After: "false,"},
	{Name: "write behind a part of a message", File: "internal/trunk/writer.go",
		Before: "			t.rest = t.buf[t.direct.WriteDirect(t.buf):]\n",
		After:  "			t.direct.WriteDirect(t.buf)\n"},
}

func TestMutantsApply(t *testing.T) { mutation.TestApply(t, "../..", mutants) }
