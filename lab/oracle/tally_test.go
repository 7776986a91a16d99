package oracle

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-sdn/holdfast/controller/audit"
	"github.com/holdfast-sdn/holdfast/internal/handshake"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// echoer answers each packet-in with a packet-out of the same data.
type echoer struct{}

func (echoer) Name() string { return "echoer" }
func (echoer) Handle(tx *ledger.Tx, in *ledger.Input) error {
	if in.Kind != ledger.Message {
		return nil
	}
	var p of13.PacketIn
	if err := p.Decode(in.Message); err != nil {
		return err
	}
	tx.Send(in.Switch, &of13.PacketOut{BufferID: of13.NoBuffer, InPort: 1, Data: p.Data})
	return nil
}

func packetIn(data string) []byte {
	p := of13.PacketIn{BufferID: of13.NoBuffer, Match: of13.Match(nil).WithInPort(1), Data: []byte(data)}
	return p.Append(nil, 0)
}

func packetOut(data string, xid uint32) []byte {
	p := of13.PacketOut{BufferID: of13.NoBuffer, InPort: 1, Data: []byte(data)}
	return p.Append(nil, xid)
}

// log makes entries in which switch 1 comes up and sends packet-ins with these data.
func log(t *testing.T, data ...string) [][]byte {
	t.Helper()
	return epochs(t, data)
}

// twoEpochs is log with a switch that comes up again. Each letter is a packet-in.
func twoEpochs(t *testing.T, first, second string) [][]byte {
	t.Helper()
	return epochs(t, strings.Split(first, ""), strings.Split(second, ""))
}

func epochs(t *testing.T, epochs ...[]string) [][]byte {
	t.Helper()
	return logged(t, (*ledger.Core).Event, epochs...)
}

func logged(t *testing.T, event func(c *ledger.Core, id openflow.DatapathID, epoch, seq uint64, msg []byte) error,
	epochs ...[]string) [][]byte {
	t.Helper()
	core, err := ledger.New([]ledger.Application{echoer{}}, ledger.Limits{BatchInputs: 2})
	if err != nil {
		t.Fatal(err)
	}
	if err := core.Lead(1, 1); err != nil {
		t.Fatal(err)
	}
	features := of13.FeaturesReply{DatapathID: 1}
	var entries [][]byte
	for n, data := range epochs {
		events := [][]byte{experimenter.SwitchUp{Features: features.Append(nil, 0)}.Append(nil, of13.Version)}
		for _, d := range data {
			events = append(events, packetIn(d))
		}
		for i, e := range events {
			if err := event(core, 1, uint64(7+n), uint64(i+1), e); err != nil {
				t.Fatal(err)
			}
			if entry, ok := core.Cut(); ok {
				entries = append(entries, entry)
				if err := core.Commit(entry); err != nil {
					t.Fatal(err)
				}
				core.Releases()
			}
		}
	}
	return entries
}

func write(t *testing.T, entries [][]byte) string {
	t.Helper()
	return writeGroup(t, 0, entries)
}

func read(t *testing.T, paths ...string) []audit.Record {
	t.Helper()
	records, err := Read(paths)
	if err != nil {
		t.Fatal(err)
	}
	return records
}

func writeGroup(t *testing.T, group uint64, entries [][]byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "audit")
	f, err := audit.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range entries {
		if err := f.Append(group, uint64(i+1), e); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestCompare(t *testing.T) {
	const sw = openflow.DatapathID(1)
	path := write(t, log(t, "a", "b", "c"))
	for _, c := range []struct {
		name           string
		sent, executed string // a letter a message
		want           Result
	}{
		{"exact", "abc", "abc", Result{EventsSent: 3, CommandsExecuted: 3}},
		{"an event lost", "abcd", "abc", Result{EventsSent: 4, EventsLost: 1, CommandsExecuted: 3}},
		{"an event repeated", "ab", "abc", Result{EventsSent: 2, EventsRepeated: 1, CommandsExecuted: 3}},
		{"a command lost", "abc", "ac", Result{EventsSent: 3, CommandsExecuted: 2, CommandsLost: 1}},
		{"a command repeated", "abc", "abbc", Result{EventsSent: 3, CommandsExecuted: 4, CommandsRepeated: 1}},
		{"out of order", "abc", "acb", Result{EventsSent: 3, CommandsExecuted: 3, CommandsReordered: 2}},
		{"nobody's command", "abc", "abcx", Result{EventsSent: 3, CommandsExecuted: 4, CommandsRepeated: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			tally := NewTally()
			for _, d := range c.sent {
				tally.FromSwitch(sw, packetIn(string(d)))
			}
			for i, d := range c.executed {
				tally.ToSwitch(sw, packetOut(string(d), uint32(i)))
			}
			own := of13.BarrierRequest{} // the agent's barrier, and an echo, are not counted
			tally.ToSwitch(sw, own.Append(nil, handshake.OwnXID))
			echo := of13.EchoReply{}
			tally.FromSwitch(sw, echo.Append(nil, 1))
			c.want.EventsProcessed, c.want.CommandsIssued, c.want.Epochs = 3, 3, 1
			got := tally.Compare(read(t, path, path))
			if got != c.want {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
			if exact := c.name == "exact"; got.Exact() != exact {
				t.Errorf("Exact() is %v", got.Exact())
			}
		})
	}
}

// The first epoch ends before the answer to b is executed, so that answer is discarded. An answer that is missing
// in the second epoch is lost.
func TestCompareEpochs(t *testing.T) {
	for _, c := range []struct {
		name, executed string
		want           Result
	}{
		{"void", "acd", Result{CommandsExecuted: 3, CommandsVoid: 1}},
		{"nothing void", "abcd", Result{CommandsExecuted: 4}},
		{"void and lost", "ac", Result{CommandsExecuted: 2, CommandsVoid: 1, CommandsLost: 1}},
		{"lost before the last of an epoch", "bcd", Result{CommandsExecuted: 3, CommandsVoid: 2, CommandsRepeated: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			tally := NewTally()
			for _, d := range "abcd" {
				tally.FromSwitch(1, packetIn(string(d)))
			}
			for _, d := range c.executed {
				tally.ToSwitch(1, packetOut(string(d), 0))
			}
			c.want.EventsSent, c.want.EventsProcessed, c.want.CommandsIssued, c.want.Epochs = 4, 4, 4, 2
			if got := tally.Compare(read(t, write(t, twoEpochs(t, "ab", "cd")))); got != c.want {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
		})
	}
}

// A command at the end of an epoch may equal the first one of the next: what follows decides which of them is void.
func TestVoidCommandsThatRepeat(t *testing.T) {
	split := func(s string) []string { return strings.Split(s, "") }
	for _, c := range []struct {
		ended, last, executed string
		void                  int
	}{
		{"uau", "ub", "uaub", 1},
		{"uau", "ub", "uauub", 0},
		{"u u", "u", "u", 2},
		{"u u", "u", "uu", 1},
		{"uau ub", "uc", "uauc", 3},
		{"uau ub", "uc", "uaubuc", 1},
	} {
		var ended [][]string
		for e := range strings.FieldsSeq(c.ended) {
			ended = append(ended, split(e))
		}
		list, void := valid(ended, split(c.last), split(c.executed))
		if void != c.void || !slices.Equal(list, split(c.executed)) {
			t.Errorf("%+v: %d void, and %v is to be executed", c, void, list)
		}
	}
}

// The audit record of an event does not depend on whether the log has the message or only its digest.
func TestDigestsInTheLog(t *testing.T) {
	data := []string{"a", "b", "a"}
	whole := logged(t, (*ledger.Core).Event, data)
	brief := logged(t, (*ledger.Core).EventByDigest, data)
	want, err := Read([]string{write(t, whole)})
	if err != nil {
		t.Fatal(err)
	}
	got, err := Read([]string{write(t, brief)})
	if err != nil || !slices.Equal(got, want) {
		t.Fatalf("%v\nthe log with digests has %+v\nthe log with messages has %+v", err, got, want)
	}
	digest := audit.Digest(packetIn("a"))
	if n := len(slices.DeleteFunc(got, func(r audit.Record) bool {
		return r.Digest != digest ||
			r.Type != "PACKET_IN"
	})); n != 2 {
		t.Errorf("%d records have the digest of a message that was sent twice", n)
	}
	if a, b := len(slices.Concat(whole...)), len(slices.Concat(brief...)); b >= a {
		t.Errorf("%d bytes of log with digests, %d with messages", b, a)
	}
}

// A killed controller leaves half a line, and appends to it after its restart.
func TestReadAfterCrash(t *testing.T) {
	for group := range uint64(2) {
		t.Run(fmt.Sprint("group ", group), func(t *testing.T) {
			readAfterCrash(t, writeGroup(t, group, log(t, "a", "b")))
		})
	}
}

func readAfterCrash(t *testing.T, path string) {
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	records, err := Read([]string{path})
	if err != nil || len(records) == 0 {
		t.Fatalf("%d records, %v", len(records), err)
	}
	half := string(whole[:len(whole)-30])
	if err := os.WriteFile(path, []byte(half), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := Read([]string{path}); err != nil || len(got) != len(records)-1 {
		t.Fatalf("cut off: %d records of %d, %v", len(got), len(records), err)
	}
	if err := os.WriteFile(path, append([]byte(half), whole...), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := Read([]string{path}); err != nil || len(got) != len(records) {
		t.Fatalf("appended: %d records of %d, %v", len(got), len(records), err)
	}
}

func TestReadDisagreement(t *testing.T) {
	_, err := Read([]string{write(t, log(t, "a")), write(t, log(t, "b"))})
	if err == nil || !strings.Contains(err.Error(), "disagree") {
		t.Errorf("error %v", err)
	}
}
