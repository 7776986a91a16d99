package outage

import (
	"bytes"
	"fmt"
	"io"
	"os/exec"
	"strings"

	"github.com/holdfast-sdn/holdfast/internal/lifeline"
	"github.com/holdfast-sdn/holdfast/lab/netlab"
	"github.com/holdfast-sdn/holdfast/network/paths"
)

// breaker cuts and mends one link.
type breaker []*tool

// newBreaker makes the breaker of a link that leads from one switch to another. With carrier it takes down the port at
// the far end, as the paper does. Else it loses all that enters the link, at both ends as nearly at once as two
// processes can, while the ports stay up; first where the stream enters, so that an outage is rather too long than too
// short.
func newBreaker(from, to *netlab.Switch, l paths.Link, carrier bool) (breaker, error) {
	if carrier {
		set := "link set " + device(l.To.Port)
		t, err := newTool("ip", to.Namespace, set+" down", set+" up")
		if err != nil {
			return nil, err
		}
		return breaker{t}, nil
	}
	var b breaker
	for _, at := range []struct{ namespace, device string }{{from.Namespace, device(l.From.Port)},
		{to.Namespace, device(l.To.Port)}} {
		// The filter is a program of one instruction, "stolen": see netlab.Link.CutSilently.
		t, err := newTool("tc", at.namespace, "filter add dev "+at.device+` egress pref 1 bpf da bytecode "1,6 0 0 4,"`,
			"filter del dev "+at.device+" egress pref 1")
		if err == nil {
			b = append(b, t)
			err = t.order("qdisc add dev " + at.device + " clsact")
		}
		if err != nil {
			b.close()
			return nil, err
		}
	}
	return b, nil
}

func (b breaker) cut() error {
	for _, t := range b {
		if err := t.order(t.down); err != nil {
			return err
		}
	}
	return nil
}

func (b breaker) mend() error {
	for _, t := range b {
		if err := t.order(t.up); err != nil {
			return err
		}
	}
	return nil
}

func (b breaker) close() {
	for _, t := range b {
		t.close()
	}
}

// pids are those of the processes that cut.
func (b breaker) pids() (pids []int) {
	for _, t := range b {
		pids = append(pids, t.pid)
	}
	return pids
}

// tool is a process that does what is written to it, line by line: to start one for each cut would take longer than BFD
// to notice.
type tool struct {
	name     string
	pid      int
	in       io.WriteCloser
	errs     bytes.Buffer // to read after ended
	ended    chan struct{}
	down, up string
}

func newTool(name, namespace, down, up string) (*tool, error) {
	t := &tool{name: name, ended: make(chan struct{}), down: down, up: up}
	cmd := exec.Command(name, "-n", namespace, "-batch", "-")
	cmd.Stderr = &t.errs
	var err error
	if t.in, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := lifeline.Start(cmd, func() { _ = cmd.Wait(); close(t.ended) }); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	t.pid = cmd.Process.Pid
	return t, nil
}

func (t *tool) order(line string) error {
	if _, err := io.WriteString(t.in, line+"\n"); err != nil {
		<-t.ended // it reads no more
		return fmt.Errorf("%s %s: %w: %s", t.name, line, err, strings.TrimSpace(t.errs.String()))
	}
	return nil
}

func (t *tool) close() {
	t.in.Close()
	<-t.ended
}
