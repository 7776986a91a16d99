package controller

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/lab/load"
	"github.com/holdfast-sdn/holdfast/openflow"
)

// logBuffer is the text of a log.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *logBuffer) lines(containing string) (list []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for line := range strings.Lines(b.buf.String()) {
		if strings.Contains(line, containing) {
			list = append(list, line)
		}
	}
	return list
}

// With fewer replicas than controllers, an agent finds the controllers of its switches' groups by itself. A switch
// without an agent is disconnected elsewhere, and the log says where it is served.
func TestFewReplicas(t *testing.T) {
	log := new(logBuffer)
	s := startTestCluster(&testCluster{t: t, apps: hubs, several: true, replicas: 1,
		logger: slog.New(slog.NewTextHandler(log, nil))})
	const switches = 6
	r := s.run(switches, 300*time.Millisecond)
	if r.Unanswered != 0 {
		t.Errorf("%d packet-ins are not answered", r.Unanswered)
	}
	served := map[string]uint64{}
	for id, c := range s.controllers {
		if got := c.homesHere(); !slices.Equal(got, []uint64{id}) {
			t.Errorf("controller %d has replicas of groups %v", id, got)
		}
		for g := uint64(1); g <= 3; g++ {
			if got := c.membersOf(g); !slices.Equal(got, []uint64{g}) {
				t.Errorf("controller %d: group %d is at %v", id, g, got)
			}
		}
		if got := c.membersOf(4); got != nil {
			t.Errorf("controller %d: a group that there is not is at %v", id, got)
		}
		st, err := c.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, sw := range st.Switches {
			if sw.Group != id || served[sw.Switch] != 0 {
				t.Errorf("switch %s of group %d at controller %d, and at %d", sw.Switch, sw.Group, id,
					served[sw.Switch])
			}
			served[sw.Switch] = id
		}
	}
	if len(served) != switches {
		t.Errorf("switches are served at %v", served)
	}
	// Switch 1 comes without its agent, to a controller that has no replica of its group.
	home := served[openflow.DatapathID(1).String()]
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for range 3 {
		_, _ = load.Run(ctx, load.Config{Switches: 1, Window: 1, MACsPerSwitch: 1, Duration: 100 * time.Millisecond,
			Drain: time.Millisecond, Dial: load.At(s.addrs[home%3+1])}) // it is disconnected
	}
	await.Until(t, "a line of the log", func() bool { return len(log.lines("switch disconnected")) > 0 })
	want := fmt.Sprintf("belongs to group %d, of which this controller has no replica: set %s as its controllers",
		home, s.addrs[home])
	if lines := log.lines("switch disconnected"); len(lines) != 1 || !strings.Contains(lines[0], want) {
		t.Errorf("the log says %q, want %q", lines, want)
	}
}
