package sim

import (
	"testing"

	"github.com/holdfast-sdn/holdfast/lab/mutation"
)

// mutant is a bug that could be made: a piece of the code that ships, and its replacement. See docs/decisions/0011.
// Two kinds are not listed: bugs that a second mechanism makes harmless, such as a session that does not wait for
// the answer to its claim, which only costs a connection; and bugs that need too many seeds. For example, the model
// finds a marker that is read before the role (docs/counterexamples/stock-read-before-role.md).
type mutant struct {
	name, file    string
	before, after string
}

var mutants = []mutant{
	{"release before commit", "ledger/commit.go",
		"	c.inflight = append(c.inflight, *b)\n", "	c.inflight = append(c.inflight, *b)\n	c.committed = " +
			"append(c.committed, b.touched...)\n"},
	{"acknowledge events that are executed and not committed", "ledger/batch.go",
		"Acked: sw.master.committed.seq, First: 1}", "Acked: uint64(sw.events), First: 1}"},
	{"forget what is not complete at failover", "ledger/core.go",
		"		sw.lead()\n", "		_ = sw.queue.Ack(sw.queue.Last())\n		sw.lead()\n"},
	{"forget at followers what is complete", "ledger/apply.go",
		"if sw := s.sw(r.Switch); sw.epoch == r.Epoch {\n			if err := sw.queue.Ack(r.Seq)",
		"if sw := s.sw(r.Switch); sw.epoch == 0 {\n			if err := sw.queue.Ack(r.Seq)"},
	{"leave the watermark of events out of snapshots", "ledger/state.go",
		"binary.AppendUvarint(dst, uint64(v.events)), flags)", "binary.AppendUvarint(dst, 0), flags)"},
	{"take a switch for a leader that was deposed", "agent/peer.go",
		"claims && c.claimed && experimenter.Later(c.generation, req.GenerationID)\n",
		"claims && c.claimed && req.GenerationID == 0\n"},
	{"take the log of a leader that was deposed for lost", "agent/peer.go",
		"	if stale || foreign && (c.master", "	if foreign {\n		return ErrLostLog\n	}\n	if stale " +
			"|| foreign && " +
			"(c.master"},
	{"claim without what is logged", "southbound/agent.go",
		"	if r.Epoch > 0 {\n		g.acknowledge(", "	if r.Epoch == 0 {\n		g.acknowledge("},
	{"take commands of who is not master", "agent/peer.go",
		"	return p != c.master || generation != c.generation\n", "	return false\n"},
	{"complete before the switch has acknowledged", "agent/filter.go",
		"	f.out = handshake.Bare(f.out, f.version, request, f.xid)\n",
		"	f.done = uint64(f.passed)\n	f.out = handshake.Bare(f.out, f.version, request, f.xid)\n"},
	{"acknowledge entries that are not durable", "consensus/core_ready.go",
		"	c.appends = append(c.appends, s)\n", "	for _, m := range s.answers {\n		if m.GetTo() != c.id " +
			"{\n			c.acks = append(c.acks, m)\n		}\n	}\n	c.appends = append(c.appends, s)\n"},
	{"do not save terms and votes", "consensus/core_ready.go",
		"	if m.Term != nil {\n", "	if m.Term != nil && len(m.GetEntries()) > 0 {\n"},
	{"do not save votes", "consensus/core_ready.go",
		"Vote: m.Vote, Commit: m.Commit}", "Vote: nil, Commit: m.Commit}"},
	{"reuse a sequence", "ledger/apply.go",
		"	sw.queue.Push(msg)\n", "	if n := sw.queue.Push(msg); n%64 == 0 && sw.queue.Len() == 1 {\n" +
			"		sw.queue = stream.OutboxAfter(n - 2)\n		sw.queue.Push(msg)\n	}\n"},
	{"skip the oldest of what is held for the next master", "agent/peer.go",
		"		p.sent = 0 // so", "		p.sent = c.events.Acked() + 1 // so"},
	{"drop what is held for the next master", "agent/peer.go",
		"		p.sent = 0 // so", "		p.sent = c.events.Last() // so"},
	{"pass commands in another order", "agent/filter.go",
		"{ f.out = append(f.out, msg...) }", "{ f.out = append(append([]byte(nil), msg...), f.out...) }"},
	{"pass commands twice", "agent/peer.go",
		"		c.count.Duplicates++\n", "		c.count.Duplicates++\n		c.commands.pass(msg)\n"},
	{"lead before all that is committed is applied", "consensus/core_ready.go",
		"	if c.term != c.role.Term || lead != c.role.Leader {\n",
		"	if c.state == raft.StateLeader && !c.role.Leading {\n		c.setRole(Role{Term: c.term, Leader: " +
			"c.id, Leading: true})\n	} else if c.state != raft.StateLeader && (c.term != c.role.Term || lead != " +
			"c.role.Leader) {\n"},
	{"keep what was executed and not committed when deposed", "ledger/core.go",
		"	for i := len(c.inflight) - 1; i >= 0; i-- {\n", "	for i := len(c.inflight) - 1; i > 0; i-- {\n"},
	{"undo the oldest first", "ledger/undo.go",
		"	for i := len(list) - 1; i >= 0; i-- {\n		u := &list[i]\n",
		"	for i := range list {\n		u := &list[i]\n"},
	{"lose the timers at failover", "ledger/core.go",
		"		c.schedule(t.due, name)\n	}\n	c.begin()\n", "		_, _ = t, name\n	}\n	c.begin()\n"},
	{"leave the commands out of snapshots", "ledger/state.go",
		"	dst = v.queue.AppendTo(appendBytes(dst, v.hello))\n",
		"	v.queue = stream.OutboxAfter(v.queue.Last())\n	dst = v.queue.AppendTo(appendBytes(dst, v.hello))\n"},
	{"begin an epoch by the clock alone", "agent/core.go",
		"	epoch = max(now, c.Epoch()+1, c.floor+1)\n", "	epoch = max(now, c.Epoch()+1)\n"},
	{"refuse a switch for an epoch that the session has not heard of", "controller/takeover.go",
		"	s.Acknowledge(r.Epoch, r.Acked)\n	switch {\n	case r.Closed:\n",
		"	s.Acknowledge(r.Epoch, r.Acked)\n	switch {\n	case s.State().Epoch < " +
			"r.Epoch:\n		s.Refuse(4, r.Epoch) // for a stale epoch\n	case r.Closed:\n"},
	{"lose what has no room in the event buffer", "agent/session.go",
		"	return batch[n:], err\n", "	return batch[len(batch):], err\n"},
	{"forget events that are sent", "agent/peer.go",
		"		p.sent = first + uint64(count) - 1\n",
		"		p.sent = first + uint64(count) - 1\n		_ = c.events.Ack(p.sent)\n"},
	{"leave out at failover what is not complete", "controller/takeover.go",
		"	case r.Count > 0:\n		c.sendCommands(s, r)\n", ""},
	{"encode a snapshot of what changes meanwhile", "ledger/snapshot.go",
		"frozen[name] = t.cells.Clone()\n", "frozen[name] = t.cells\n"},

	// Replicas that differ.
	{"do not notice that a replica differs", "controller/compare.go",
		"			now.err = &divergedError{now.index, mine, names, sum}\n", ""},
	{"compare without what applications have", "ledger/snapshot.go", "digest += sum", "digest += 0 * sum"},
	{"name nobody who differs", "controller/compare.go",
		"			if sum != mine && !slices", "			if sum != mine && len(by) == 0 && !slices"},
	{"take a snapshot before the comparison", "controller/snapshot.go",
		"	if i.marked == 0 {\n", "	if i.marked >= 0 {\n"},

	// Leaders without a majority.
	{"acknowledge in a minority", "controller/minority.go",
		"			c.minority.events++\n", "			c.minority.events++\n			session.Acknowledge(e.epoch, e.seq)\n"},
	{"keep what handlers write in a minority", "ledger/degraded.go",
		"c.state.revert(c.batch.undo)", "c.state.revert(nil)"},
	{"pass commands without a number of who is not master", "agent/peer.go",
		"	case c.fenced(p, b.Generation):\n", "	case c.fenced(p, b.Generation) && !b.bestEffort:\n"},

	// Events that are logged by digest.
	{"take an event for the next of another switch", "ledger/delta.go",
		"	ok := x.seen == e && e.seq > 0\n", "	ok := x.seen.seq == e.seq && e.seq > 0\n"},
	{"log by its digest what standbys look for", "controller/switches.go",
		"	if peer == southbound.Agent {", "	if peer != southbound.Legacy {"},
	{"log by its digest what hosts execute", "ledger/seen.go",
		"	return c.replaying() || c.partly(msg)\n", "	return c.partly(msg)\n"},

	// Streams: bugs that do harm without another bug. Package stream has more.
	{"forget an event or command more than is acknowledged", "stream/outbox.go",
		"	o.head, o.acked = o.start(n+1), n\n",
		"	n = min(n+1, o.last)\n	o.head, o.acked = o.start(n+1), n\n"},
	{"leave one out after a reconnect", "stream/outbox.go",
		"	after, upTo = max(after, o.acked), min(upTo, o.last)\n",
		"	after, upTo = max(after, o.acked+min(1, o.acked)), min(upTo, o.last)\n"},
	{"execute duplicates", "stream/stream.go", "	return count, nil\n", "	return 0, nil\n"},
	{"move the items and not where they are", "stream/outbox.go", "	o.base += uint64(o.head)\n", ""},

	// Replayed applications.
	{"log results again that are on their way", "ryu/replay/core.go",
		"		next := c.replayed.Hosting().Results + 1\n", "		next := c.replayed.Committed().Result + 1\n"},
	{"forget at takeover what the host has done", "ryu/replay/core.go",
		"	c.leading, c.filed = true, 0\n", "	c.leading, c.filed, c.held, c.holding = true, 0, nil, 0\n"},
	{"send a switch what an earlier incarnation was to do", "ryu/replay/transactions.go",
		"sw != nil && number < sw.born {", "sw != nil && number < 0 {"},

	// Switches without an agent.
	{"do not believe the marker", "southbound/bundles.go",
		"			b.sender.start(m, current, r.Done)\n",
		"			b.sender.start(marker{m.epoch, 0}, current, r.Done)\n"},
	{"take what is below the marker for answered", "southbound/bundles.go",
		"			b.sender.start(m, current, r.Done)\n", "			b.sender.start(m, current, m.seq)\n"},
	{"set the marker outside of the bundle", "southbound/bundle_sender.go",
		"	b.add(s, b.behind(s).mod(b.table).Append(nil, 0), s.marker)\n",
		"	b.put(b.behind(s).mod(b.table), s.marker)\n"},
	{"claim without what is held", "southbound/bundles.go",
		"			b.held.restart(r.Events, nil)\n",
		"			b.held.clear()\n			b.held.restart(r.Events, nil)\n"},
	{"keep at standbys what is logged", "southbound/held.go",
		"	case h.Len() > 0 && fits(s, h.about()[0].sum):\n		h.pop(1)\n",
		"	case h.Len() > 0 && fits(s, h.about()[0].sum):\n"},
	{"send no sync markers", "southbound/bundles.go",
		"	if b.state != leading {\n		return nil\n	}\n	b.ticks++\n",
		"	if b.state != leading || now > 0 {\n		return nil\n	}\n	b.ticks++\n"},
	{"claim out of sync", "southbound/bundles.go",
		"m.seq <= r.Commands && b.held.inSync {", "m.seq <= r.Commands {"},
	{"replace the marker of an epoch before its end is logged", "southbound/bundles.go",
		"	case r.Live && r.Epoch > b.floor && b.state == claiming:\n", "	case b.state == ending:\n"},
	{"commit before the switch has taken all that is added", "southbound/bundle_sender.go",
		"	b.add(s, b.behind(s).mod(b.table).Append(nil, 0), s.marker)\n	b.barrier(s)\n",
		"	b.add(s, b.behind(s).mod(b.table).Append(nil, 0), s.marker)\n	b.barrier(s)\n	s.commit = " +
			"b.xid()\n	b.control(s, of13.BundleCommitRequest, s.commit)\n"},
	{"go on before a refusal is logged", "southbound/bundle_answers.go",
		"	b.step, b.hold, b.tries = nil, true, 0\n", "	b.step, b.tries = nil, 0\n	defer b.pump()\n"},
	{"be done with a request before its answer is told", "southbound/bundles_events.go",
		"	delivered := b.answer == 0 || b.answer <= b.told && !b.paused\n	return delivered && ", "	return "},
	{"do not ask again what is not answered", "southbound/bundle_sender.go",
		"b.box.Last()) && !repeatable(b.command(1)[1]); n++ {", "b.box.Last()); n++ {"},

	// Switches with neither agent nor bundles.
	{"send commands again in the next epoch", "southbound/legacy.go",
		"	if b.Epoch != l.epoch || !l.begun {\n", "	if !l.master {\n"},
	{"number an event as the one before it", "southbound/legacy.go",
		"	first := l.events + 1\n", "	first := max(2, l.events)\n"},

	// Switches that the leader reaches through a follower.
	{"acknowledge at a follower what the leader has executed", "controller/proxy/follower.go",
		"	case Executed:\n", "	case Executed:\n		p.session.Acknowledge(p.batch.Epoch, " +
			"p.batch.First+uint64(p.batch.Count)-1)\n"},
	{"acknowledge nothing at a follower", "controller/proxy/follower.go",
		"			p.session.Acknowledge(p.epoch, p.seq)\n", ""},
	{"keep a claim at a follower when the leader changes", "controller/proxy/follower.go",
		"	f.end(standby)\n", "	_ = standby\n"},
	{"acknowledge at a follower by number", "controller/proxy/follower.go",
		"!p.session.Logged(epoch, seq, msg) {", "!(p.session.Logged(epoch, seq, msg) || true) {"},
	{"claim on all paths in one generation", "controller/takeover.go", "		last.number++\n", ""},
	{"claim out of sync what a follower holds", "controller/holder.go",
		"	return !c.leader.Linked(", "	return false && !c.leader.Linked("},
	{"forget the session of a leader beside its proxy", "controller/takeover.go",
		"spare != nil && spare.attached == s", "spare != nil"},

	// Several groups, and streams between them.
	{"save the entries of all groups as those of one", "consensus/core_ready.go",
		"storage.Batch{Group: c.group, Entries: m.GetEntries()}", "storage.Batch{Entries: m.GetEntries()}"},
	{"assign a switch again", "controller/directory/directory.go",
		"		if _, known := tx.Get(tx.Table(table), cell, field); known {",
		"		if _, known := tx.Get(tx.Table(table), cell, field); known && len(r.Groups) == 0 {"},
	{"send items to another group before they are committed", "ledger/frame.go",
		"o.outbox.Run(s.sent, s.committed, frameBytes)", "o.outbox.Run(s.sent, o.outbox.Last(), frameBytes)"},
	{"acknowledge items of another group before they are committed", "ledger/frame.go",
		"appendLink(b, op, i.Link), i.receiving.committed)", "appendLink(b, op, i.Link), uint64(i.watermark))"},
	{"forget items that another group has not acknowledged", "ledger/frame.go",
		"		b.buf = binary.AppendUvarint(appendLink(b.buf, OpTaken, o.Link), o.sending.taken)\n",
		"		o.sending.taken = o.sending.sent\n		b.buf = binary.AppendUvarint(appendLink(b.buf, OpTaken, " +
			"o.Link), o.sending.taken)\n"},
	{"do not send again what another group may have lost", "ledger/frame.go",
		"	p.unsend(o)\n	p.readyIf(o)\n", "	p.readyIf(o)\n"},
	{"forget at takeover what another group has not acknowledged", "ledger/peer.go",
		"committed: o.outbox.Last(), sent: acked,", "committed: o.outbox.Last(), sent: o.outbox.Last(),"},
	{"execute items of another group twice", "ledger/crossing.go",
		"	if next := uint64(i.watermark) + 1; seq != next {",
		"	if next := uint64(i.watermark) + 1; seq > next {"},
	{"execute items of another group although some before them are missing", "ledger/crossing.go",
		"	if next := uint64(i.watermark) + 1; seq != next {",
		"	if next := uint64(i.watermark) + 1; seq < next {"},
	{"keep at the end of a leadership what was received and not committed", "ledger/undo.go",
		"			u.link.in.received = u.link.received\n", ""},
	{"keep at the end of a leadership what was sent and not committed", "ledger/undo.go",
		"			if err := u.link.out.takeBack(u.before); err != nil {\n				return err\n			}\n", ""},
	{"leave the watermark of an idle stream out of snapshots", "ledger/link.go",
		"		if i := l.in[k]; i.used() {", "		if i := l.in[k]; i.live {"},
	{"leave the items for other groups out of snapshots", "ledger/link.go",
		"	return o.outbox.AppendTo(binary", "	acked := stream.OutboxAfter(o.outbox.Last())\n	return " +
			"acked.AppendTo(binary"},
	{"leave who has asked out of snapshots", "ledger/state.go",
		"	dst = v.asks.append(dst)\n", "	dst = asks(nil).append(dst)\n"},
	{"drop what is for a switch that the directory does not know yet", "ledger/peer.go",
		"	if p := c.peerOf(a); p != nil {\n		return p\n",
		"	if p := c.peerOf(a); p != nil || a.Switch != 0 {\n		return p\n"},
	{"execute commands of another group for an epoch that has ended", "ledger/crossing.go",
		"!sw.live || it.epoch != 0 && it.epoch != sw.epoch ||\n", "!sw.live ||\n"},
	{"do not say that commands of another group are void", "ledger/crossing.go",
		"	c.push(c.outgoing(Link{k.To, k.From}), c.crossings.item, 0)\n",
		"	_ = c.outgoing(Link{k.To, k.From})\n"},
	{"pass an answer to another group in the next transaction", "ledger/crossing.go",
		"	if err := c.flush(); err != nil && !c.held {\n", "	if err := c.tooLarge(0); err != nil && !c.held {\n"},
	{"lose requests of other controllers", "controller/request.go",
		"	c.Ask(string(payload[:size]), bytes.Clone(payload[size:]))\n", "	_ = bytes.Clone(payload)\n"},

	// Moves of actors.
	{"depart before everything is copied", "ledger/depart.go",
		"		case d.copied() && c.outgoing(d.link(c)).sending.taken >= d.last && c.numbered(d.actor):\n",
		"		case d.begun:\n"},
	{"do not send what has changed since it was copied", "ledger/depart.go",
		"	for _, f := range slices.SortedFunc(maps.Keys(d.dirty), tableField.compare) {\n		w.field(f)\n",
		"	for _, f := range slices.SortedFunc(maps.Keys(d.dirty), tableField.compare) {\n		_ = f\n"},
	{"number the items of an idle stream from 1 again after a move", "ledger/depart.go",
		"		if k.From.mover() == a {\n			w.ops = ",
		"		if k.From.mover() == a && c.state.links.out[k].outbox.Len() > 0 {\n			w.ops = "},
	{"keep the cells of an actor that departs", "ledger/depart.go",
		"		c.drop(x)\n", "		_ = x\n"},
	{"keep the timers of an actor that departs", "ledger/depart.go",
		"		c.tx.CancelTimer(name.name)\n", ""},
	{"depart without a new version", "ledger/depart.go",
		"	next := Assignment{d.to, at.Version + 1}\n", "	next := Assignment{d.to, at.Version}\n"},
	{"leave behind what was copied when a move is called off", "ledger/move.go",
		"	c.push(c.outgoing(Link{theGroup(c.group), theGroup(to)}), (&piece{actor: a, first: true}).item(), 0)\n",
		""},
	{"take what arrives from two groups for one move", "ledger/piece.go",
		"	from, _ := k.From.group()\n", "	from, _ := k.To.group()\n"},
	{"leave what has arrived in part out of snapshots", "ledger/piece.go",
		"			b = appendBytes(b, ops)\n", "			b = appendBytes(b, ops[:0])\n"},
	{"take an older assignment", "controller/directory/directory.go",
		"old.Version >= r.Version {", "old.Version == r.Version {"},
	{"pass by what is on its way on a stream", "ledger/actor.go",
		"	return o == nil || o.outbox.Last() == o.sending.logged\n", "	return o == nil || o.outbox.Last() >= o.sending.logged\n"},
	{"do not go on with a move of the last leader", "ledger/depart.go",
		"		c.leave(a, c.state.moves.leaving[a])\n", "		_ = a\n"},
	{"leave out of snapshots who has moved", "ledger/piece.go",
		"	for _, a := range slices.SortedFunc(maps.Keys(m.at), Actor.Compare) {\n",
		"	for _, a := range slices.SortedFunc(maps.Keys(m.at), Actor.Compare)[:0] {\n"},

	{"move one cell of an actor that has many", "ledger/move.go", "(Key{}) && !spreads\n",
		"(Key{}) && (!spreads || true)\n"},

	// The store.
	{"execute a request again that was answered", "store/session.go", "	case answered:\n", "	case answered && false:\n"},
	{"execute a late copy of a request whose answer was acknowledged", "store/session.go",
		"	case r.Seq <= s.acked:\n", "	case r.Seq < s.acked:\n"},
	{"write a row whose version is not that of the condition", "store/namespace.go",
		"*c.Version != r.version {", "*c.Version > r.version {"},

	// Calls between actors.
	{"end a call that is answered again when it is late", "app/call.go", "	a.tx.ledger.CancelTimer(r.ID)\n", ""},

	// Calls of clients.
	{"answer calls that are executed and not committed", "ledger/commit.go",
		"	c.inflight = append(c.inflight, *b)\n", "	c.answers, b.answers = append(c.answers, b.answers...), nil\n" +
			"	c.inflight = append(c.inflight, *b)\n"},
	{"send a call again that may have been executed", "controller/call.go",
		"{ return o.kind == elsewhere }\n", "{ return o.kind == elsewhere || o.kind == lost }\n"},

	// Moves of switches.
	{"leave behind the commands of a switch that departs", "ledger/switch_move.go",
		"	queue := stream.OutboxAfter(max(sw.master.doneSeen, v.queue.Acked()))\n",
		"	queue := stream.OutboxAfter(v.queue.Last())\n"},
	{"leave out more commands of a switch that departs than are done", "ledger/switch_move.go",
		"OutboxAfter(max(sw.master.doneSeen, v.queue.Acked()))",
		"OutboxAfter(max(min(sw.master.released, v.queue.Acked()+1), v.queue.Acked()))"},
	{"claim in the same generation after a move", "controller/takeover.go",
		"	if at, known := c.ledger.Assignment(theSwitch(s.Switch())); known {\n		return at.Version\n",
		"	if at, known := c.ledger.Assignment(theSwitch(s.Switch())); known {\n		return min(at.Version, 1)\n"},
	{"take each session that comes with a switch for out of sync", "controller/reassign.go",
		"	if !c.ledger.Continues(s.Switch(), at.Version) {\n", "	if c.ledger.Arrived(s.Switch(), at.Version) {\n"},
	{"execute events of a switch that has departed", "ledger/event.go",
		"moved && own.Group != c.group {\n			return fmt.Errorf(\"switch", "moved && own.Group == 0 {\n			return fmt." +
			"Errorf(\"switch"},
	{"execute events of an epoch that is forgotten", "ledger/event.go",
		"		if epoch <= c.state.floor {\n", "		if epoch == 0 {\n"},
	{"forget a switch that is up", "ledger/forget.go",
		"	case sw.live && sw.reachable:\n", "	case sw.master.arriving:\n"},
	{"keep what applications have at a switch that is forgotten", "ledger/forget.go",
		"	c.dropAll(a, parts)\n", ""},
	{"claim a switch that was forgotten below an earlier claim", "controller/takeover.go",
		"		last.number = c.bygone\n", ""},
	{"do not tell an agent which epochs are forgotten", "controller/takeover.go",
		"			resume.Epoch = c.ledger.Floor() + 1\n", ""},
	{"keep the timers of an actor at a switch that departs", "ledger/move.go",
		"		if name.actor.mover() == a {\n			list", "		if name.actor == a {\n			list"},

	// The network suite.
	{"queue: put what is repeated", "apps/queue/queue.go",
		"	case number == c.Put && number > 0:\n		return c.Last, nil\n	case number != c.Put+1:",
		"	case number != c.Put+1 && number != c.Put:"},
	{"queue: take the next for a repeated request", "apps/queue/queue.go",
		"	case after+1 == c.Taken && c.Holds > 0:\n		return Taken{Message: c.Holds, Take: c.Taken}, nil\n",
		"	case after+1 == c.Taken && c.Holds > 0:\n		after++\n"},
	{"queue: keep the timer of what is acknowledged", "apps/queue/queue.go",
		"	q.leases.Delete(tx, name, message)\n	tx.CancelTimer(strconv.FormatUint(message, 10))\n	s.Leases--",
		"	q.leases.Delete(tx, name, message)\n	s.Leases--"},
	{"tenants: do not wait for the other switches", "apps/tenants/tenants.go",
		"		if m.Waits {\n			return nil\n		}\n		down", "		down"},
	{"tenants: leave what is not wanted any more", "apps/tenants/switch.go", "encoded(e)); stays {",
		"encoded(e)); stays || true {"},
	{"tenants: send to many on all links", "apps/tenants/plan.go", "			break\n", ""},
	{"path: let frames enter before the last switch has confirmed", "apps/path/change.go",
		"	if !v.laidAll(r) {\n", "	if v.laidAll(r); false {\n"},
	{"path: remove a path everywhere at once", "apps/path/change.go", "	o := first.op(leave, id, 0)\n",
		"	o := first.op(leave, id, 0)\n	defer v.erase(id, first)\n"},
	{"firewall: use a list that is not complete", "apps/firewall/firewall.go",
		"	for _, e := range entries {\n		e.TableID",
		"	selectTable(tx, m.Switch, spare(s.Table))\n	for _, e := range entries {\n		e.TableID"},
	{"firewall: install a list where the one in use is", "apps/firewall/firewall.go",
		"		e.TableID = spare(s.Table)\n", "		e.TableID = max(s.Table, first)\n"},
	{"router: forward by any prefix", "openflow/packet/route.go",
		"r.Prefix.Contains(to) && r.Prefix.Bits() > best {", "r.Prefix.Contains(to) && best < 0 {"},
	{"router: forward a block in which there is a longer prefix", "openflow/packet/route.go",
		"p.Bits() > best && p.Addr()", "p.Bits() > 128 && p.Addr()"},
	{"router: answer for each host of a subnet", "apps/router/router.go", "at == i && source == m.Asks {",
		"at == i && source.IsValid() {"},
	{"monitor: tell of what is above a threshold each time", "network/monitor/poll.go",
		"		c.monitor.raised.Put(c.tx, c.at, row, raised{k, s, value, c.tx.Now().UnixNano(), c.xid})\n", "		_ = row\n"},
	{"kandoo: let a flow enter before the last switch has confirmed", "apps/kandoo/kandoo.go",
		"len(e.Waits) == 0 {", "len(e.Waits) <= 1 {"},
	{"kandoo: compare the first reply to a leader with nothing", "apps/kandoo/detect.go",
		"r.last != nil && passed > 0 {", "passed > 0 {"},
}

// seeded returns the mutants as package mutation wants them.
func seeded() (list []mutation.Bug) {
	for _, m := range mutants {
		list = append(list, mutation.Bug{Name: m.name, File: m.file, Before: m.before, After: m.after})
	}
	return list
}

// Checks that each seeded bug still applies to the code that ships. TestMutants, which builds and runs them, has a
// build tag.
func TestMutantsApply(t *testing.T) { mutation.TestApply(t, "../..", seeded()) }
