package ledger

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

func seedEntries(t testing.TB) [][]byte {
	a := &script{name: "a", do: everything}
	c, err := New([]Application{a, &script{name: "b", do: func(*Tx, *Input) error { return errors.New("no") }}},
		Limits{QueueCommands: 10})
	if err != nil {
		t.Fatal(err)
	}
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	must(c.Lead(1, 1000))
	must(c.Event(1, 1, 1, switchUp()))
	must(c.Event(2, 1, 1, switchUp()))
	for seq := uint64(2); seq < 6; seq++ {
		must(c.Event(1, 1, seq, packetIn("x")))
	}
	c.Unreachable(2)
	c.Reachable(2, 1)
	c.Request("a", []byte("a request"))
	must(c.Call(Call{Actor: Actor{App: "a"}, Name: "route", Message: []byte("a call")}))
	first, _ := c.Cut()
	must(c.Commit(first))
	c.Releases()
	must(c.Done(1, 1, 2))
	c.Tick(2000)
	second, _ := c.Cut()
	must(c.Commit(second))
	snap, err := c.Snapshot()
	must(err)
	return [][]byte{first, second, snap}
}

// skippedEntry contains events of which only the number is logged.
func skippedEntry(t testing.TB) []byte {
	c, err := New([]Application{levelled("a", Unordered)}, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Lead(1, 1000); err != nil {
		t.Fatal(err)
	}
	for seq, msg := range [][]byte{switchUp(), packetIn("x"), packetIn("y")} {
		if err := c.Event(1, 1, uint64(seq+1), msg); err != nil {
			t.Fatal(err)
		}
	}
	entry, _ := c.Cut()
	return entry
}

// seenEntry contains events that are logged by digest, and commands. The second of each is delta-encoded.
func seenEntry(t testing.TB) []byte {
	app := &sender{commands: []sentTo{{1, newMessage(of13.TypeFlowMod, 0, "a body")}}}
	c, err := New([]Application{app}, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(c.Lead(1, 1000), c.EventByDigest(1, 1, 1, switchUp()),
		c.EventByDigest(1, 1, 2, packetIn("x")), c.EventByDigest(1, 1, 3, packetIn("y"))); err != nil {
		t.Fatal(err)
	}
	entry, _ := c.Cut()
	return entry
}

// FuzzEntry decodes arbitrary bytes as an entry and as a snapshot: the result is an error, never a panic. A state
// that was restored is equal after another snapshot and restore.
func FuzzEntry(f *testing.F) {
	for _, entry := range seedEntries(f) {
		f.Add(entry)
	}
	f.Add(skippedEntry(f))
	f.Add(seenEntry(f))
	f.Fuzz(func(t *testing.T, data []byte) {
		_, walkErr := Walk(data, func(*Record) error { return nil })
		c, err := New(nil, Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Restore(data); err != nil {
			return
		}
		if walkErr != nil {
			t.Errorf("restored what cannot be read: %v", walkErr)
		}
		first, err := c.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Restore(first); err != nil {
			t.Fatal(err)
		}
		if second, _ := c.Snapshot(); !bytes.Equal(first, second) {
			t.Errorf("restored twice:\n %s\n %s", dump(first), dump(second))
		}
		_ = c.Commit(data)
		if err := c.Lead(1, 0); err == nil {
			for _, s := range c.Switches() {
				c.Resume(s.Switch)
			}
		}
	})
}

func TestEntryErrors(t *testing.T) {
	entry := seedEntries(t)[0]
	header := headerLen(entry)
	read := func(data []byte) error {
		_, err := Walk(data, func(*Record) error { return nil })
		return err
	}
	for n := range entry {
		if err := read(entry[:n]); err == nil && n < header {
			t.Errorf("%d bytes are an entry", n)
		}
	}
	other := bytes.Clone(entry)
	other[0] = entryVersion + 1
	for name, tc := range map[string]struct {
		data []byte
		want string
	}{
		"version": {other, "entry of format 7, this release reads format 6: written by another release: run " +
			"releases that share a log format"},
		"operation": {append(bytes.Clone(entry[:header]), 99), "operation 99 at byte"},
		"empty":     {nil, "entry header: ends within a field"},
		"table":     {append(bytes.Clone(entry[:header]), byte(OpPut), 3), "table number 3 of 0"},
	} {
		if err := read(tc.data); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	c := mustNew(t, Limits{})
	if err := c.Restore(other); !errors.Is(err, errVersion) || !strings.Contains(err.Error(), "restore snapshot") {
		t.Errorf("restore: %v", err)
	}
}

// The commands of a switch in a snapshot must be complete messages, because the code that sends or searches them
// relies on that.
func TestSnapshotOfCommandsThatAreNone(t *testing.T) {
	msg := newMessage(of13.TypeFlowMod, 1, "body")
	for name, tc := range map[string]struct {
		command []byte
		bad     bool
	}{
		"a message":           {msg, false},
		"nothing":             {nil, true},
		"less than a header":  {msg[:5], true},
		"a part of a message": {msg[:len(msg)-1], true},
		"more than a message": {append(bytes.Clone(msg), 0), true},
		"a header alone":      {msg[:8], true},
	} {
		s := newState()
		sw := s.sw(1)
		sw.begin(1, switchUp())
		sw.queue.Push(msg)
		sw.queue.Push(tc.command)
		err := mustNew(t, Limits{}).Restore(s.snapshot(Header{}))
		if tc.bad != (err != nil) || tc.bad && !strings.Contains(err.Error(), "command 2 of") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A ledger without the replayed application refuses logs and snapshots of ledgers that have it, because it cannot
// represent its state.
func TestWithoutTheReplayedApplication(t *testing.T) {
	header := Header{Term: 1, Batch: 1, Time: 1}.append(nil)
	for name, op := range map[string]Op{"transaction": OpTransaction, "record": OpRecord} {
		err := mustNew(t, Limits{}).Commit(append(bytes.Clone(header), byte(op), 1, 'x'))
		if !errors.Is(err, errNotReplayed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := mustNew(t, Limits{}).Restore(append(header, byte(OpPart), 1, 'x')); !errors.Is(err, errNotReplayed) {
		t.Errorf("part: %v", err)
	}
}

// An entry that does not fit the state of the replica is an error.
func TestDivergence(t *testing.T) {
	entries := seedEntries(t)
	c := mustNew(t, Limits{})
	if err := c.Commit(entries[0]); err != nil {
		t.Fatal(err)
	}
	if err := c.Commit(entries[0]); err == nil || !strings.Contains(err.Error(), "diverged") {
		t.Errorf("the same entry again: %v", err)
	}
	header := entries[0][:headerLen(entries[0])]
	command := appendBytes(append(bytes.Clone(header), byte(OpCommand), 0, 0, 0, 0, 0, 0, 0, 7, 1), []byte("short"))
	if err := c.Commit(command); err == nil || !strings.Contains(err.Error(), "not one message") {
		t.Errorf("a command that is no message: %v", err)
	}
	command[len(header)+9] = 5
	if err := c.Commit(command); err == nil || !strings.Contains(err.Error(), "diverged") {
		t.Errorf("a command out of turn: %v", err)
	}
	done := append(bytes.Clone(header), byte(OpDone), 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 99)
	if err := c.Commit(done); err == nil || !strings.Contains(err.Error(), "diverged") {
		t.Errorf("commands are complete that nobody sent: %v", err)
	}
	for what, counts := range map[string][2]byte{"events skipped twice": {2, 0},
		"more asynchronous ones than events": {7, 3}} {
		skipped := append(bytes.Clone(header), byte(OpSkipped), 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1)
		if err := c.Commit(append(skipped, counts[:]...)); err == nil || !strings.Contains(err.Error(), "diverged") {
			t.Errorf("%s: %v", what, err)
		}
	}
	for what, at := range map[string][2]byte{"a digest of the event before": {1, 5}, "of one too far": {1, 7},
		"of another epoch": {2, 1}} {
		seen := append(bytes.Clone(header), byte(OpSeen), 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, at[0], at[1],
			of13.TypePacketIn)
		if err := c.Commit(append(seen, "8 bytes."...)); err == nil || !strings.Contains(err.Error(), "diverged") {
			t.Errorf("%s: %v", what, err)
		}
	}
}
