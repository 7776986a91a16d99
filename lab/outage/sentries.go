package outage

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/holdfast-sdn/holdfast/bfd/sentry"
	"github.com/holdfast-sdn/holdfast/internal/lifeline"
	"github.com/holdfast-sdn/holdfast/network/paths"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// sentries is a process that monitors all links of all switches: holdfast sentry.
type sentries struct {
	cmd   *exec.Cmd
	errs  bytes.Buffer  // to read after ended
	ended chan struct{} // also: nothing is read any more

	mu     sync.Mutex // guards the fields below
	states map[paths.End]sentry.State
	dead   map[paths.End][]time.Time // when each end reported its link as dead; at most maxDowns in all
	downs  int
	unread error // why no more is read
}

// startSentries starts the process. switches are by control socket.
func startSentries(cfg Config, switches map[string]openflow.DatapathID) (*sentries, error) {
	s := &sentries{ended: make(chan struct{}), states: map[paths.End]sentry.State{}, dead: map[paths.End][]time.Time{}}
	args := []string{
		"sentry", "--json", "--log-level=warn", "--interval-ms", strconv.Itoa(int(cfg.Interval / time.Millisecond)),
		"--multiplier", strconv.Itoa(cfg.Multiplier), "--realtime=" + strconv.FormatBool(cfg.Realtime),
	}
	for path := range switches {
		args = append(args, "--switch", path)
	}
	s.cmd = exec.Command(cfg.Sentry, args...)
	s.cmd.Stderr = &s.errs
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	reading := make(chan struct{})
	if err := lifeline.Start(s.cmd, func() { <-reading; _ = s.cmd.Wait(); close(s.ended) }); err != nil {
		return nil, fmt.Errorf("start sentries: %w", err)
	}
	go func() {
		defer close(reading)
		lines := json.NewDecoder(out)
		for {
			var e sentry.Event
			if err := lines.Decode(&e); err != nil {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.unread = err
				return
			}
			s.note(switches[e.Switch], e)
		}
	}()
	return s, nil
}

func (s *sentries) note(of openflow.DatapathID, e sentry.Event) {
	no, err := strconv.ParseUint(strings.TrimPrefix(e.Interface, "p"), 10, 16)
	if err != nil {
		return
	}
	end := paths.End{Switch: of, Port: of13.Port(no)}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.states[end] = e.State
	if e.State == sentry.Dead && s.downs < maxDowns {
		s.downs++
		s.dead[end] = append(s.dead[end], e.At)
	}
}

// alive says that both sentries of a link hear each other at this end. The error says that they have ended.
func (s *sentries) alive(e paths.End) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unread != nil {
		return false, fmt.Errorf("the sentries have ended, or say what is no event: %w", s.unread)
	}
	return s.states[e] == sentry.Alive, nil
}

// deaths returns when each end reported its link as dead.
func (s *sentries) deaths(e paths.End) []time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dead[e]
}

func (s *sentries) close() error {
	err := s.cmd.Process.Signal(syscall.SIGTERM)
	<-s.ended
	if s.cmd.ProcessState.Success() {
		return nil
	}
	return errors.Join(err, fmt.Errorf("sentries: %v: %s", s.cmd.ProcessState, strings.TrimSpace(s.errs.String())))
}
