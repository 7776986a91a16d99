package shells

import (
	"testing"

	"github.com/holdfast-sdn/holdfast/lab/mutation"
)

// mutants are bugs of the code around the cores, which lab/sim does not run.
var mutants = []mutation.Bug{
	{Name: "read on before the events are executed", File: "southbound/stream.go",
		Before: "s.served && !s.passing && !crowded", After: "s.served && !crowded"},
	{Name: "drop what has no room in the event buffer", File: "agent/device.go",
		Before: "\"controllers\", held.Controllers)\n		}\n		d.leave()\n",
		After:  "\"controllers\", held.Controllers)\n			return nil\n		}\n		d.leave()\n"},
	{Name: "take a batch again that had no room", File: "agent/device.go",
		Before: "			batch = rest\n", After: "			if len(rest) == 0 {\n				batch = " +
			"nil\n			}\n"},
	{Name: "do not take leave of a switch that is gone", File: "agent/session.go",
		Before: "	w.s.sw = nil\n	w.s.core.SwitchDown(reason)\n", After: "	w.s.core.SwitchDown(reason)\n"},
	{Name: "keep the connections that have ended", File: "agent/device.go",
		Before: "	defer o.conn.Close()\n", After: ""},
	{Name: "set the deadline of a silent peer once", File: "internal/ofconn/watch.go",
		Before: "if w.deadline.Sub(now) < w.silentAfter-w.silentAfter/8 {", After: "if w.deadline.IsZero() {"},
	{Name: "leave the goroutine of a handshake behind", File: "agent/agent.go",
		Before: "	defer func() { close(stop); <-ticks }()\n", After: ""},
	{Name: "wait for connections while their lock is held", File: "consensus/transport/transport.go",
		Before: "	t.mu.Unlock()\n	if t.cfg.Listener != nil {\n",
		After:  "	defer t.mu.Unlock()\n	if t.cfg.Listener != nil {\n"},
	{Name: "leave sessions open when the server ends", File: "southbound/server.go",
		Before: "	defer srv.closeAll()\n", After: ""},
	{Name: "acknowledge what is not saved yet", File: "consensus/saver.go",
		Before: "		if !s.use(work.batches) {\n			return\n		}\n",
		After: "		batches := append([]storage.Batch(nil), work.batches...)\n		work.tell()\n" +
			"		if !s.use(batches) {\n			return\n		}\n"},
	{Name: "keep an old session in the place of a new one", File: "southbound/server.go",
		Before: "	delete(srv.attached, id)\n", After: "	_ = id\n"},
}

// Checks that each seeded bug still applies to the code that ships. TestMutants, which builds and runs them, has a
// build tag.
func TestMutantsApply(t *testing.T) {
	mutation.TestApply(t, "../..", mutants)
}
