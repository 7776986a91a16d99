// Package oracle decides whether anything was lost, repeated or reordered. It collects what switches sent and executed,
// as seen by a witness beside them, and compares that by content with the audit files of the controllers. It is
// independent of how the controllers work, and takes no part in the protocol.
package oracle

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/holdfast-sdn/holdfast/controller/audit"
	"github.com/holdfast-sdn/holdfast/internal/handshake"
	"github.com/holdfast-sdn/holdfast/internal/message"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// Tally collects what switches sent and executed, and compares it with the audit files of the controllers. It is for
// switches with an agent, which has their only connection; Stock is for the others. Safe for concurrent use.
type Tally struct {
	mu         sync.Mutex // guards the following fields
	sent       map[content]sending
	executed   map[openflow.DatapathID][]string // digests in order
	bestEffort int                              // commands

	noErrors bool // ERRORs of switches do not count
}

type content struct {
	sw     openflow.DatapathID
	digest string
}

// sending is how often an event was sent, and its type.
type sending struct {
	n     int
	event uint8
}

// NewTally returns an empty tally.
func NewTally() *Tally {
	return &Tally{sent: map[content]sending{}, executed: map[openflow.DatapathID][]string{}}
}

// FromSwitch records a message that a switch sent, if it is an event.
func (t *Tally) FromSwitch(sw openflow.DatapathID, msg []byte) {
	switch msg[1] {
	case openflow.TypeHello, openflow.TypeEchoRequest, openflow.TypeEchoReply:
		return
	}
	if openflow.XID(msg) >= handshake.OwnXID {
		return
	}
	k := content{sw, audit.Digest(msg)}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sent[k] = sending{t.sent[k].n + 1, msg[1]}
}

// sentAtLeast records that a switch sent an event at least n times.
func (t *Tally) sentAtLeast(k content, s sending) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.n > t.sent[k].n {
		t.sent[k] = s
	}
}

// ToSwitch records a message that a switch received, if it is a command. One without a sequence is counted only: no log
// has it.
func (t *Tally) ToSwitch(sw openflow.DatapathID, msg []byte) {
	switch {
	case !isCommand(msg):
	case message.BestEffort(openflow.XID(msg)):
		t.mu.Lock()
		defer t.mu.Unlock()
		t.bestEffort++
	default:
		t.toldTo(sw, audit.Digest(msg))
	}
}

// BestEffort returns how many commands without a sequence the switches have received.
func (t *Tally) BestEffort() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.bestEffort
}

func isCommand(msg []byte) bool {
	switch msg[1] {
	case openflow.TypeHello, openflow.TypeEchoRequest, openflow.TypeEchoReply, of13.TypeFeaturesRequest:
		return false
	}
	return openflow.XID(msg) < handshake.OwnXID
}

func (t *Tally) toldTo(sw openflow.DatapathID, digest string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.executed[sw] = append(t.executed[sw], digest)
}

// notTold removes the last record of a command to a switch.
func (t *Tally) notTold(sw openflow.DatapathID, digest string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := t.executed[sw]
	for i := len(list) - 1; i >= 0; i-- {
		if list[i] == digest {
			t.executed[sw] = append(list[:i], list[i+1:]...)
			return
		}
	}
}

// Counts returns how many events the switches have sent so far, and how many commands they have received.
func (t *Tally) Counts() (sent, executed int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, v := range t.sent {
		sent += v.n
	}
	for _, list := range t.executed {
		executed += len(list)
	}
	return sent, executed
}

// Executed returns the digests of the commands that a switch received, in order.
func (t *Tally) Executed(sw openflow.DatapathID) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.executed[sw])
}

// Result is the result of a comparison. Lost and repeated messages are counted one by one, by content.
type Result struct {
	EventsSent        int `json:"events_sent"`
	EventsProcessed   int `json:"events_processed"`
	EventsLost        int `json:"events_lost"`
	EventsRepeated    int `json:"events_repeated"`
	CommandsIssued    int `json:"commands_issued"`
	CommandsExecuted  int `json:"commands_executed"`
	CommandsLost      int `json:"commands_lost"`
	CommandsRepeated  int `json:"commands_repeated"`
	CommandsReordered int `json:"commands_reordered"` // executed at another place than issued
	Failures          int `json:"application_failures"`
	// Epochs is how many began, over all switches. CommandsVoid were open when the epoch of their switch ended. They
	// are discarded then, and do not count as lost.
	Epochs       int `json:"epochs"`
	CommandsVoid int `json:"commands_void"`
}

// Exact reports whether everything happened once and in order.
func (r Result) Exact() bool {
	return r.EventsLost == 0 && r.EventsRepeated == 0 && r.CommandsLost == 0 && r.CommandsRepeated == 0 &&
		r.CommandsReordered == 0
}

// Compare compares with what Read returns, whose order it may change.
func (t *Tally) Compare(records []audit.Record) Result {
	orderSwitches(records)
	t.mu.Lock()
	defer t.mu.Unlock()
	var r Result
	processed := t.processed(records)
	ended := map[openflow.DatapathID][][]string{} // commands issued in each epoch but the last
	issued := map[openflow.DatapathID][]string{}  // in the last
	for _, rec := range records {
		switch {
		case rec.Stream != "" || rec.Actor != "": // CheckStreams
		case rec.Kind == audit.Failure:
			r.Failures++
		case rec.Kind == audit.Command:
			issued[rec.Switch] = append(issued[rec.Switch], rec.Digest)
			r.CommandsIssued++
		case rec.Type == experimenter.TypeSwitchUp.String():
			r.Epochs++
			ended[rec.Switch] = append(ended[rec.Switch], issued[rec.Switch])
			issued[rec.Switch] = nil
		}
	}
	for _, n := range processed {
		r.EventsProcessed += n
	}
	sent := map[content]int{}
	for k, v := range t.sent {
		sent[k] = v.n
		r.EventsSent += v.n
	}
	r.EventsLost, r.EventsRepeated = difference(sent, processed)
	for sw, list := range issued {
		list, void := valid(ended[sw], list, t.executed[sw])
		r.CommandsVoid += void
		lost, repeated := difference(count(list), count(t.executed[sw]))
		r.CommandsLost += lost
		r.CommandsRepeated += repeated
		for i, d := range t.executed[sw] {
			if i < len(list) && list[i] != d && lost == 0 && repeated == 0 {
				r.CommandsReordered++
			}
		}
	}
	for sw, list := range t.executed {
		r.CommandsExecuted += len(list)
		if _, known := issued[sw]; !known {
			r.CommandsRepeated += len(list) // nobody issued them
		}
	}
	return r
}

// isEvent says whether a record is of an event that a switch has sent.
func (t *Tally) isEvent(r audit.Record) bool {
	switch {
	case r.Kind != audit.Event, r.Stream != "", r.Actor != "":
		return false
	case t.noErrors && r.Type == of13.TypeName(openflow.TypeError): // Holdfast's, not the switch's
		return false
	}
	return !slices.Contains([]string{experimenter.TypeSwitchUp.String(), experimenter.TypeSwitchDown.String(),
		experimenter.TypeSyncMarker.String()}, r.Type)
}

// processed counts the events that the log has.
func (t *Tally) processed(records []audit.Record) map[content]int {
	n := map[content]int{}
	for _, r := range records {
		if t.isEvent(r) {
			n[content{r.Switch, r.Digest}]++
		}
	}
	return n
}

// Explain lists, for a result that is not exact, what the audit files have and what each switch executed: one line for
// each record but those of sync markers, in log order, one for each event that was lost or repeated, and one for each
// command, in order.
func (t *Tally) Explain(files []string) (string, error) {
	records, err := Read(files)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, r := range records {
		if r.Stream != "" {
			fmt.Fprintf(&b, "log of group %d, %d.%d: stream %s: %s %d %s\n", r.Group, r.Index, r.Position, r.Stream,
				r.Kind, r.Seq, r.Digest)
		} else if r.Type != experimenter.TypeSyncMarker.String() {
			fmt.Fprintf(&b, "log %d.%d: switch %s: %s %s %s epoch %d seq %d\n", r.Index, r.Position, r.Switch, r.Kind,
				r.Type, r.Digest, r.Epoch, r.Seq)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	processed := t.processed(records)
	for k, v := range t.sent {
		if n := processed[k]; n != v.n {
			fmt.Fprintf(&b, "switch %s: sent %s %s %d times, and the log has it %d times\n", k.sw,
				of13.TypeName(v.event), k.digest, v.n, n)
		}
	}
	for _, sw := range slices.Sorted(maps.Keys(t.executed)) {
		for i, digest := range t.executed[sw] {
			fmt.Fprintf(&b, "switch %s: executed %d: %s\n", sw, i+1, digest)
		}
	}
	return b.String(), nil
}

// valid returns the commands that are to be executed: the first ones of each epoch that has ended, and all of the last.
// void is how many of ended are left out. What the switch executed decides how many were before the end of an epoch.
// The last command of one epoch may equal the first of the next, so all possibilities are followed; if none fits, each
// epoch has as many as it can.
func valid(ended [][]string, last, executed []string) (list []string, void int) {
	ends := map[int]bool{0: true} // how many may have been executed up to here
	most := 0
	for _, epoch := range ended {
		list = append(list, epoch...)
		next := map[int]bool{}
		for end := range ends {
			for n := range common(epoch, executed[end:]) + 1 {
				next[end+n] = true
			}
		}
		ends, most = next, most+common(epoch, executed[most:])
	}
	if before := len(executed) - len(last); ends[before] && slices.Equal(executed[before:], last) {
		most = before
	}
	return append(slices.Clone(executed[:most]), last...), len(list) - most
}

// common returns the length of the longest common beginning.
func common(a, b []string) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

func count(list []string) map[string]int {
	m := map[string]int{}
	for _, d := range list {
		m[d]++
	}
	return m
}

// difference counts what is missing in got and what is in excess.
func difference[K comparable](want, got map[K]int) (missing, surplus int) {
	for k, n := range want {
		missing += max(0, n-got[k])
	}
	for k, n := range got {
		surplus += max(0, n-want[k])
	}
	return missing, surplus
}

// Read returns the records of the audit files of a cluster in log order, each once; together they must cover its log. A
// controller that was killed leaves a file whose last line may be cut off, which is skipped, and one that was restarted
// or got a snapshot leaves gaps or repeats.
func Read(files []string) ([]audit.Record, error) {
	type place struct {
		group, index uint64
		position     int
	}
	seen := map[place]audit.Record{}
	for _, name := range files {
		if err := readFile(name, func(r audit.Record) error {
			p := place{r.Group, r.Index, r.Position}
			if old, ok := seen[p]; ok && old != r {
				return fmt.Errorf("controllers disagree on index %d, position %d: %+v and %+v", r.Index, r.Position,
					old, r)
			}
			seen[p] = r
			return nil
		}); err != nil {
			return nil, fmt.Errorf("audit file %s: %w", name, err)
		}
	}
	list := make([]audit.Record, 0, len(seen))
	for _, r := range seen {
		list = append(list, r)
	}
	slices.SortFunc(list, func(a, b audit.Record) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Index, b.Index), cmp.Compare(a.Position, b.Position))
	})
	return list, nil
}

func readFile(name string, f func(audit.Record) error) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	in := bufio.NewReader(file)
	for n := 1; ; n++ {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil // a line without its end was cut off
		}
		if err != nil {
			return err
		}
		var r audit.Record
		if err := json.Unmarshal(line, &r); err != nil {
			// A restarted controller appends behind the line that its end cut off.
			i := bytes.LastIndex(line, []byte(`{"`)) // a quotation mark in a string is escaped
			if i <= 0 || json.Unmarshal(line[i:], &r) != nil {
				return fmt.Errorf("line %d: %w", n, err)
			}
		}
		if err := f(r); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
}
