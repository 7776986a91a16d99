package controller

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/consensus"
	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/ryu"
	"github.com/holdfast-sdn/holdfast/ryu/replay"
	"github.com/holdfast-sdn/holdfast/ryu/wire"
	"github.com/holdfast-sdn/holdfast/southbound"
)

// hostCluster is a cluster of controllers that run testdata/counting.py.
type hostCluster struct {
	t           *testing.T
	controllers map[uint64]*Controller
	rest        map[uint64]string
}

func newHostCluster(t *testing.T, size uint64, hang time.Duration, files ...string) *hostCluster {
	python := os.Getenv("HOLDFAST_PYTHON")
	if python == "" || exec.Command(python, "-c", "import os_ken, routes, webob").Run() != nil {
		if os.Getenv("HOLDFAST_REQUIRE_ORACLES") == "1" {
			t.Fatal("HOLDFAST_PYTHON does not name a python that has os-ken")
		}
		t.Skip("HOLDFAST_PYTHON does not name a python that has os-ken")
	}
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	s := &hostCluster{t: t, controllers: map[uint64]*Controller{}, rest: map[uint64]string{}}
	members, listeners := map[uint64]string{}, map[uint64][3]net.Listener{}
	for id := uint64(1); id <= size; id++ {
		var l [3]net.Listener
		for i := range l {
			var err error
			if l[i], err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
				t.Fatal(err)
			}
		}
		listeners[id], members[id], s.rest[id] = l, l[0].Addr().String(), l[1].Addr().String()
	}
	dir := t.TempDir()
	for id, l := range listeners {
		c, err := Start(Config{
			Name: fmt.Sprintf("c%d", id),
			Consensus: consensus.HostConfig{ID: id, Listener: l[0],
				Dir:       filepath.Join(dir, fmt.Sprint(id)),
				Heartbeat: 50 * time.Millisecond, Election: 500 * time.Millisecond, Logger: quiet},
			Groups: []GroupConfig{{Consensus: consensus.GroupConfig{Members: members}, Identity: "counting",
				Host: &ryu.Config{Python: python, Applications: []string{"testdata/counting.py"}, Cluster: "cluster",
					LogLevel: 20, Logger: quiet, Hang: hang, Files: files}}},
			Southbound: southbound.Config{Logger: quiet},
			REST:       l[1], RESTPeers: s.rest, OpenFlow: l[2], Logger: quiet,
		})
		if err != nil {
			t.Fatal(err)
		}
		s.controllers[id] = c
	}
	t.Cleanup(func() {
		for id := range s.controllers {
			s.close(id)
		}
	})
	return s
}

func (s *hostCluster) close(id uint64) {
	s.t.Helper()
	if err := s.controllers[id].Close(); err != nil {
		s.t.Errorf("controller %d: %v", id, err)
	}
	delete(s.controllers, id)
}

// status waits until ok accepts the status of a controller.
func (s *hostCluster) status(id uint64, what string, ok func(Status) bool) {
	s.t.Helper()
	var last Status
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		var err error
		if last, err = s.controllers[id].Status(s.t.Context()); err != nil {
			s.t.Fatal(err)
		}
		if ok(last) {
			return
		}
	}
	s.t.Fatalf("waited too long for %s; status %s of controller %d: %+v", what, last.Role, id, last.Replayed)
}

func (s *hostCluster) running() {
	s.t.Helper()
	for id := range s.controllers {
		s.status(id, "its host", func(st Status) bool {
			return st.Replayed.State == "running" &&
				st.Replayed.Logged == st.Replayed.Inputs
		})
	}
}

func (s *hostCluster) leader() (leader uint64) {
	s.t.Helper()
	for end := time.Now().Add(time.Minute); leader == 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			s.t.Fatal("nobody leads")
		}
		for id, c := range s.controllers {
			if st, err := c.Status(s.t.Context()); err == nil && st.Role == "leader" {
				leader = id
			}
		}
	}
	return leader
}

// ask sends a request and returns the answer with its body, or the error. patience is the client's timeout.
func (s *hostCluster) ask(id uint64, patience time.Duration, method, path, body string,
	headers ...string) (*http.Response,
	string, error) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, "http://"+s.rest[id]+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, name := range headers {
		r.Header.Add(name, "1")
	}
	transport := &http.Transport{DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	answer, err := transport.RoundTrip(r)
	if err != nil {
		return nil, "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return answer, string(text), err
}

// want repeats a request until there is a leader with a host, and compares the body of the answer.
func (s *hostCluster) want(id uint64, method, path, body, want string) {
	s.t.Helper()
	answer, got, err := s.ask(id, time.Minute, method, path, body)
	if err != nil || answer.StatusCode != http.StatusOK || got != want {
		s.t.Fatalf("%s %s at controller %d: %v %q, %v; want %q", method, path, id, answer, got, err, want)
	}
}

// configured waits until the applications have a configuration file with that text.
func (s *hostCluster) configured(id uint64, text string) {
	s.t.Helper()
	await.Until(s.t, "the configuration "+text, func() bool {
		_, got, err := s.ask(id, time.Minute, "GET", "/configuration", "")
		return err == nil && got == text
	})
}

const soon = 500 * time.Millisecond

func TestReplayedApplications(t *testing.T) {
	s := newHostCluster(t, 1, time.Second)
	s.running()
	s.want(1, "PUT", "/count", "abc", "3")
	answer, _, err := s.ask(1, time.Minute, "GET", "/count?a=b;c", "", "X-End", "Te", forwarded)
	if err != nil {
		t.Fatal(err)
	}
	if saw := answer.Header.Get("X-Saw"); !strings.Contains(saw, "X-End") || strings.Contains(saw, "Te,") ||
		strings.Contains(saw, forwarded) {
		t.Errorf("the application saw %q", saw)
	}
	if answer.Header.Get("X-Hop") != "" || answer.ContentLength != 1 {
		t.Errorf("headers %v", answer.Header)
	}
	if answer, _, err := s.ask(1, time.Minute, "HEAD", "/none", ""); err != nil ||
		answer.StatusCode != http.StatusNotFound {
		t.Errorf("answer %v, %v", answer, err)
	}
	if answer, _, err := s.ask(1, time.Minute, "PUT", "/count", strings.Repeat("x", maxRequestBody+1)); err == nil &&
		answer.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("answer %v", answer)
	}

	// A request whose client has given up is forgotten.
	if _, _, err := s.ask(1, soon, "POST", "/wait", ""); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("answered: %v", err)
	}

	// These requests end the host process each time.
	for i, path := range []string{"/die", "/hang"} {
		_, _, _ = s.ask(1, soon, "POST", path, "")
		s.status(1, path, func(st Status) bool { return st.Replayed.Restarts >= 2*uint64(i+1) })
		s.running()
		s.want(1, "PUT", "/count", "x", fmt.Sprint(4+i))
	}
	s.status(1, "the same applications", func(st Status) bool {
		return st.Replayed.Generation == 1 &&
			st.Replayed.Diverged == 0
	})

	// The controller is closed while its host hangs and a client waits.
	answered := make(chan bool)
	go func() {
		answer, _, err := s.ask(1, time.Minute, "POST", "/hang", "")
		answered <- err == nil && answer.StatusCode != http.StatusServiceUnavailable
	}()
	s.status(1, "the request", func(st Status) bool { return st.Replayed.Inputs > st.Replayed.Logged })
	s.close(1)
	if <-answered {
		t.Error("a hanging application has answered")
	}
}

func TestReplayedApplicationsFailOver(t *testing.T) {
	file := filepath.Join(t.TempDir(), "configuration")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("first")
	t.Setenv("COUNTING_CONFIGURATION", file)
	s := newHostCluster(t, 3, time.Minute, file)
	s.running()
	leader := s.leader()
	for id := range uint64(3) {
		s.want(id+1, "PUT", "/count", "x", fmt.Sprint(id+1))
	}
	s.configured(leader, "first")
	write("second")
	s.want(leader, "GET", "/configuration", "", "first") // nobody was told to read it
	for _, c := range s.controllers {
		c.Reload()
	}
	s.configured(leader, "second")
	write("what a machine has on its disk does not count")
	s.close(leader)
	s.leader()
	s.running()
	for id := range s.controllers {
		s.want(id, "GET", "/count?x=y;z", "", "3")
		s.want(id, "GET", "/configuration", "", "second")
	}
	for id := range s.controllers {
		s.status(id, "as it was", func(st Status) bool {
			return st.Replayed.Restarts == 0 && st.Replayed.Diverged == 0 && st.Replayed.Generation == 1
		})
	}
}

// A host whose code cannot be read holds up nobody, and ends if it is not wanted when it has started.
func TestStartDoesNotWait(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	folder, _, err := ryu.Unpack()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(folder, "holdfast_ryu", "host.py")
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(file), syscall.Mkfifo(file, 0o600)); err != nil {
		t.Fatal(err)
	}
	stays := filepath.Join(t.TempDir(), "stays")
	if err := os.WriteFile(stays, []byte("#!/bin/sh\nexec sleep 1000\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	g := &group{heard: make(chan func()), done: make(chan struct{}), log: quiet}
	close(g.done) // nobody is told
	h := newHosts(g, ryu.Config{Python: stays, Applications: []string{"a.py"}, Cluster: "c", Logger: quiet})
	h.Start(1, replay.Beginning{})
	h.Execute(1, nil, 0)
	h.Checkpoint(1)
	pipe, err := os.OpenFile(file, os.O_WRONLY, 0) // waits until it is read
	if err != nil {
		t.Fatal(err)
	}
	l := h.lives[1]
	h.Stop(1)
	if _, err := pipe.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := pipe.Close(); err != nil {
		t.Fatal(err)
	}
	g.background.Wait() // for the end of the process
	input := wire.Input{Number: 1, Kind: wire.Timer}
	if err := l.host.Execute(input.Append(nil), 1); !errors.Is(err, ryu.ErrEnded) || len(h.lives) > 0 {
		t.Errorf("%v, %d lives are left", err, len(h.lives))
	}
}
