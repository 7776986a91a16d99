package e2e

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-sdn/holdfast/controller/audit"
	"github.com/holdfast-sdn/holdfast/lab/oracle"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
)

// epoch is one epoch of a switch in the controllers' log.
type epoch struct {
	number uint64
	events []string // texts
	issued []string // digests of commands
	conn   int      // index of the connection of its events; -1 while none is known
}

// said is a packet-in, identified by digest.
type said struct {
	conn, n int
	text    string
}

// verify compares what the switches sent and executed with the log, in every epoch.
func (c *chaos) verify() {
	records, err := oracle.Read(c.AuditFiles()) // an error if controllers disagree
	c.check(err)
	var sent, processed, executed, issued, epochs int
	all := c.epochs(records)
	for _, sw := range c.switches {
		list := all[sw.id]
		for i := range sw.conns {
			c.verifyConn(sw, i, list)
			sent += len(sw.conns[i].sent)
			executed += len(sw.conns[i].executed)
		}
		for _, e := range list {
			processed += len(e.events)
			issued += len(e.issued)
			epochs++
		}
	}
	c.verifyCounts(records)
	c.verifyProcesses()
	c.t.Logf("%d events sent, %d processed; %d commands issued, %d executed; %d epochs; largest controller %d MiB",
		sent, processed, issued, executed, epochs, c.peak>>10)
}

// epochs splits the log. Commands have no epoch there: they belong to the one that is open.
func (c *chaos) epochs(records []audit.Record) map[openflow.DatapathID][]*epoch {
	all := map[openflow.DatapathID][]*epoch{}
	known := c.known()
	for _, r := range records {
		list := all[r.Switch]
		switch {
		case r.Kind == audit.Failure:
			c.t.Errorf("an application failed: %+v", r)
		case r.Type == experimenter.TypeSwitchUp.String():
			if n := len(list); n > 0 && list[n-1].number >= r.Epoch {
				c.t.Errorf("switch %s: epoch %d after %d", r.Switch, r.Epoch, list[n-1].number)
			}
			all[r.Switch] = append(list, &epoch{number: r.Epoch, conn: -1})
		case r.Type == experimenter.TypeSwitchDown.String():
		case len(list) == 0:
			c.t.Fatalf("index %d: switch %s has a record before its first epoch: %+v", r.Index, r.Switch, r)
		case r.Kind == audit.Command:
			e := list[len(list)-1]
			e.issued = append(e.issued, r.Digest)
		default:
			e := list[len(list)-1]
			s, ok := known[r.Switch][r.Digest]
			if !ok || r.Epoch != e.number || e.conn >= 0 && e.conn != s.conn || s.n != len(e.events) {
				c.t.Errorf("index %d: switch %s: epoch %d has packet-in %q (%v) of connection %d as event %d, the "+
					"epoch is of connection %d", r.Index, r.Switch, r.Epoch, s.text, ok, s.conn, len(e.events), e.conn)
				continue
			}
			e.conn = s.conn
			e.events = append(e.events, s.text)
		}
	}
	return all
}

// known returns the packet-ins of all switches, by digest.
func (c *chaos) known() map[openflow.DatapathID]map[string]said {
	all := map[openflow.DatapathID]map[string]said{}
	for _, sw := range c.switches {
		all[sw.id] = map[string]said{}
		for i, conn := range sw.conns {
			for n, text := range conn.sent {
				all[sw.id][audit.Digest(packetIn(1, text).Append(nil, 0))] = said{i, n, text}
			}
		}
	}
	return all
}

// verifyConn finds the epoch of a connection. The events of the epoch are a prefix of what was sent, and what was
// executed is a prefix of its commands. Nothing may be missing, except for what an agent had when it was killed, what
// was in transit when the connection broke, and commands that were open when the epoch ended.
func (c *chaos) verifyConn(sw *chaosSwitch, i int, list []*epoch) {
	conn, last := sw.conns[i], i == len(sw.conns)-1
	complain := func(format string, args ...any) {
		c.t.Errorf("switch %s, connection %d of %d (%s to %s): %s", sw.id, i+1, len(sw.conns),
			conn.begun.Format(time.StampMilli),
			conn.ended.Format(time.StampMilli), fmt.Sprintf(format, args...))
	}
	agentDied := false
	for _, at := range c.agentKills[c.Agents()[max(0, int(sw.id)-2)]] {
		agentDied = agentDied || at.After(conn.begun)
	}
	if last && !conn.ended.IsZero() || !last && !conn.ours && !agentDied {
		complain("the agent ended it")
	}
	var e *epoch
	for _, x := range list {
		if x.conn == i || x.conn < 0 && len(conn.executed) > 0 && len(x.issued) > 0 && x.issued[0] == conn.executed[0] {
			e = x
		}
	}
	if last && len(conn.sent) == 0 {
		e = list[len(list)-1]
	}
	if e == nil {
		if len(conn.executed) > 0 || len(conn.sent) > 0 && !agentDied && !conn.abrupt {
			complain("%d events, %d commands executed, and no epoch in the log", len(conn.sent), len(conn.executed))
		}
		return
	}
	if len(e.events) < len(conn.sent) && !agentDied && !conn.abrupt {
		complain("%d events lost of %d", len(conn.sent)-len(e.events), len(conn.sent))
	}
	n := min(len(conn.executed), len(e.issued))
	if len(conn.executed) > n {
		complain("%d commands executed, %d were issued", len(conn.executed), n)
	}
	if !slices.Equal(conn.executed[:n], e.issued[:n]) {
		at := 0
		for conn.executed[at] == e.issued[at] {
			at++
		}
		complain("command %d of %d is not the one that was issued", at+1, n)
	}
	if last && n < len(e.issued) {
		complain("%d commands lost of %d", len(e.issued)-n, len(e.issued))
	}
}

// verifyCounts checks, by the packets that it sent, that the application counted every event once, whichever controller
// led.
func (c *chaos) verifyCounts(records []audit.Record) {
	count, answer := uint64(0), ""
	known := c.known()
	for _, r := range records {
		switch {
		case r.Kind == audit.Event && r.Type == "PACKET_IN":
			count++
			answer = counterAnswer(packetIn(1, known[r.Switch][r.Digest].text).Data, count)
		case r.Kind == audit.Command && r.Type == "PACKET_OUT" && r.Digest != answer:
			c.t.Fatalf("index %d: the answer to event %d is another one: %+v", r.Index, count, r)
		}
	}
}

// verifyProcesses looks for log lines and sizes that controllers and agents should never have.
func (c *chaos) verifyProcesses() {
	files := []string{}
	for _, n := range c.Controllers() {
		files = append(files, n.LogFile())
		c.noError(n.Kill())
		c.weigh(n)
	}
	for _, a := range c.Agents() {
		files = append(files, a.LogFile())
	}
	for _, f := range files {
		for _, sign := range []string{"diverged", "panic", "DATA RACE", "fatal error", "level=ERROR", "Error: "} {
			for _, line := range lines(c.t, f, sign) {
				c.t.Errorf("%s: %s", f, line)
			}
		}
	}
	limit := int64(512 << 10)
	if len(race) > 0 {
		limit *= 5 // the detector's own
	}
	if c.peak > limit {
		c.t.Errorf("a controller had %d MiB in memory", c.peak>>10)
	}
}
