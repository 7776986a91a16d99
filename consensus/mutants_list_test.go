package consensus

import (
	"testing"

	"github.com/holdfast-sdn/holdfast/lab/mutation"
)

// mutants are bugs of elections in which no safety is lost, because the simulator does not count the changes of the
// leader, and bugs of several groups in one process, which no simulator runs. Others are in lab/sim and lab/shells.
var mutants = []mutation.Bug{
	{Name: "the timeout never falls again", File: "consensus/lateness.go",
		Before: "	l.longest /= 2\n", After: ""},
	{Name: "the timeout falls at once", File: "consensus/lateness.go",
		Before: "	l.longest /= 2\n", After: "	l.longest = 0\n"},
	{Name: "the silence of a leader that died raises the timeout", File: "consensus/lateness.go",
		Before: "			c.before, c.now = c.now, contact{",
		After:  "			waited = c.now.ticks\n			c.before, c.now = c.now, contact{"},
	{Name: "a failure that ended counts as lateness", File: "consensus/lateness.go",
		Before: " || ticks > l.most {", After: " {"},
	{Name: "a leader that was deposed and lives teaches nothing", File: "consensus/lateness.go",
		Before: "waited, c.before = c.before.ticks, contact{}", After: "c.before = contact{}"},
	{Name: "lateness delays the election after a death", File: "consensus/election.go",
		Before: "	if !e.hinted {\n", After: "	{\n"},
	{Name: "blame the leader for missed ticks", File: "consensus/election.go",
		Before: "	e.elapsed++\n", After: "	e.elapsed += 1 + missed\n"},
	{Name: "missed ticks never count as silence", File: "consensus/election.go",
		Before: "		e.owed = missed\n", After: ""},
	{Name: "own lateness does not count", File: "consensus/election.go",
		Before: "	e.late.waited(missed+1, LateSelf)\n", After: ""},
	{Name: "late answers teach a leader nothing", File: "consensus/answers.go",
		Before: "	if age < a.age {\n", After: "	if false {\n"},
	{Name: "a leader without a majority stays", File: "consensus/answers.go",
		Before: "	case c.answers.age >= 2*timeout:\n", After: "	case false:\n"},
	{Name: "a transfer that fails is not ended", File: "consensus/answers.go",
		Before: "	case c.Transferring() && c.clock-c.transferAt >= uint64(min(timeout, " +
			"mostTransfer*c.election.base)):\n", After: "	case false:\n"},
	{Name: "all groups of a dead controller go to the same one", File: "consensus/election.go",
		Before: "	return (before + all - int(c.group%uint64(all))) % all\n", After: "	return before\n"},
	{Name: "a member whose owner hangs leads again", File: "consensus/election.go",
		Before: "return e.drained || e.hangs }", After: "return e.drained }"},
	{Name: "an owner that has nothing to do hangs", File: "consensus/stall.go",
		Before: "	if silent >= s.patience/2 && !s.asked {", After: "	if false {"},
	{Name: "the owner of a leader may hang", File: "consensus/stall.go",
		Before: "	if silent < s.patience ||", After: "	if true ||"},
	{Name: "a leader that is given up goes on leading", File: "consensus/rewind.go",
		Before: "	if err := c.resign(); err != nil {\n", After: "	if err := error(nil); err != nil {\n"},
	{Name: "another owner does not get what the first has not taken", File: "consensus/rewind.go",
		Before: "i > c.given ||", After: "i > c.raft.BasicStatus().Applied ||"},
	{Name: "a hint is taken for a replica", File: "consensus/election.go",
		Before: "s.Lead != raft.None && wire.ControllerOf(s.Lead) == controller:", After: "s.Lead == controller:"},
	{Name: "a message for an earlier replica is taken", File: "consensus/host.go",
		Before: "	case n == nil || n.cfg.ID != m.Raft.GetTo():\n", After: "	case n == nil:\n"},
	{Name: "an inbox without a bound", File: "consensus/inbox.go",
		Before: "	if b.bytes > maxQueuedBytes {\n", After: "	if false {\n"},
	{Name: "a fault of the log stops one group", File: "consensus/host.go",
		Before: "		n.inbox.stop(err)\n", After: "		n.inbox.stop(err)\n		break\n"},
	{Name: "the end of a group ends the connections of all", File: "consensus/host.go",
		Before: "	h.connect(n.cfg.Group, nil)\n", After: "	h.transport.SetPeers(nil)\n"},
	{Name: "who has a later replica is told to be removed", File: "consensus/host.go",
		Before: "left[wire.ControllerOf(id)]; !ok {", After: "left[id]; !ok {"},
	{Name: "a message is sent to another group", File: "consensus/wire/wire.go",
		Before: "binary.AppendUvarint(binary.AppendUvarint(dst, m.Group), m.Stored)",
		After:  "binary.AppendUvarint(binary.AppendUvarint(dst, m.Group/2), m.Stored)"},
	{Name: "any term is taken", File: "consensus/election.go",
		Before: "most := maxTerm(c.term); r.GetTerm() > most {", After: "most := maxTerm(c.term); false {"},
	{Name: "a leader vouches for what it has not stored", File: "consensus/vouch.go",
		Before: "	stored := c.log.last() //", After: "	stored := c.last //"},
	{Name: "a follower commits what a leader before has appended", File: "consensus/vouch.go",
		Before: "err != nil || term != c.vouch.term {\n", After: "err != nil || term == 0 {\n"},
	{Name: "two of five are a quorum", File: "consensus/vouch.go",
		Before: "n > len(voters)/2", After: "n > 1"},
	{Name: "while the members change, a quorum of one half is enough", File: "consensus/vouch.go",
		Before: " && majority(m.conf().VotersOutgoing, of, id)", After: ""},
	{Name: "a quorum as of the last look", File: "consensus/vouch.go",
		Before: "m.pairs.conf != m.conf() || ", After: ""},
	{Name: "who could commit early waits for a tick", File: "consensus/vouch.go",
		Before: "|| !c.vouch.whole\n", After: "|| false\n"},
	{Name: "a follower commits early what nobody asked for", File: "consensus/vouch.go",
		Before: "		if c.vouch.until[wire.ControllerOf(m.Raft.GetTo())] >= entries[0].GetIndex() {\n", After: "		{\n"},
	{Name: "report what was saved of all groups to each", File: "consensus/saver.go",
		Before: "		f.inbox.saved(f.count)\n", After: "		f.inbox.saved(len(w.batches))\n"},
	{Name: "report what was saved of a group to another", File: "consensus/saver.go",
		Before: "		f.inbox.saved(f.count)\n", After: "		w.from[0].inbox.saved(f.count)\n"},
	{Name: "save at once what has to wait for earlier batches", File: "consensus/node.go",
		Before: " || n.unsaved > 0", After: ""},
	{Name: "save at once after an error", File: "consensus/saver.go",
		Before: "	if s.broken || begin", After: "	if begin"},
	{Name: "wait for a slow disk again and again", File: "consensus/saver.go",
		Before: "		s.slow = end.Add(slowRest * end.Sub(begin))\n", After: ""},
	{Name: "save one group at a time", File: "consensus/saver.go",
		Before: "		s.mu.Unlock()\n		if closed {\n",
		After: "		if n := len(work.from); n > 1 {\n			first := work.from[0].count\n" +
			"			s.queue = saves{work.batches[first:], work.from[1:]}\n" +
			"			work = saves{work.batches[:first:first], work.from[:1:1]}\n			s.signal()\n		}\n" +
			"		s.mu.Unlock()\n		if closed {\n"},
}

// Each seeded bug can still be put into the code; TestMutants, which builds and runs them, has a build tag.
func TestMutantsApply(t *testing.T) {
	mutation.TestApply(t, "..", mutants)
}
