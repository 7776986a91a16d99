package controller

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/holdfast-sdn/holdfast/ryu/replay"
	"github.com/holdfast-sdn/holdfast/ryu/wire"
)

// Bounds of the configuration files of replayed applications.
const (
	maxFileBytes = 1 << 20     // of all of them: one entry of the log has them
	filesAgain   = time.Second // between attempts
	// maxFilesTries is how often a controller offers the files after Reload, until it leads. A leader that dies between
	// two controllers' Reload is so followed by one that has the new files.
	maxFilesTries = 60
)

// filer has the configuration files of replayed applications logged, in one goroutine. Requests that come while it
// works on another are served together afterwards, so there are never more than two of a kind.
type filer struct {
	paths  []string
	offer  func(body []byte) error // returns when the files are logged, or why they are not
	log    *slog.Logger
	pause  time.Duration
	first  chan struct{} // capacity 1: the files of a generation are wanted
	reload chan struct{} // capacity 1: an operator wants the files read again
	ended  <-chan struct{}
}

func newFiler(paths []string, offer func([]byte) error, log *slog.Logger, ended <-chan struct{}) *filer {
	return &filer{paths: paths, offer: offer, log: log, pause: filesAgain, first: make(chan struct{}, 1),
		reload: make(chan struct{}, 1), ended: ended}
}

// Reload reads the configuration files of the replayed applications of this machine again and logs them, so that the
// applications of all controllers get them at the same input and are asked to reload. It returns at once. Only the
// leader logs files. Another controller offers its own for a minute, in case it becomes the leader. Several calls in a
// row have the effect of the last one.
func (c *Controller) Reload() {
	if f := c.hosting().files; f != nil {
		want(f.reload)
	}
}

// Files implements replay.Runner.
func (h *hosts) Files() {
	if f := h.g.files; f != nil {
		want(f.first)
	}
}

// want requests what is not requested yet.
func want(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// run serves requests until the group ends.
func (f *filer) run() {
	for {
		select {
		case <-f.reload:
			f.serve(false)
		case <-f.first:
			f.serve(true)
		case <-f.ended:
			return
		}
	}
}

// serve has the files logged: as the first of a generation, or because an operator asks for it.
func (f *filer) serve(first bool) {
	set, err := readFiles(f.paths) // once: what an operator writes later is not meant yet
	if err != nil {
		f.log.Error("the configuration files of applications are not read again, and what was read before stays",
			"err", err)
		return
	}
	set.First = first
	body := set.Append(nil)
	for range maxFilesTries {
		switch err := f.offer(body); {
		case err == nil:
			if !first {
				f.log.Info("configuration files logged: the applications of all controllers read them again")
			}
			return
		case errors.Is(err, replay.ErrRefused), errors.Is(err, replay.ErrLeftOut):
			f.log.Error("the applications do not get the configuration files", "err", err)
			return
		case errors.Is(err, errClosing), first && errors.Is(err, replay.ErrNotLeading):
			return // the next leader logs its own
		}
		select {
		case <-time.After(f.pause):
		case <-f.reload: // the minute begins again, with what the files have now
			want(f.reload)
			return
		case <-f.ended:
			return
		}
	}
	f.log.Info("configuration files not logged: another controller leads, which reads its own when it gets SIGHUP")
}

// offerFiles returns when the files are logged, or why they are not. Files that may have been logged are offered again:
// twice the same is as good as once.
func (g *group) offerFiles(body []byte) error {
	done := make(chan error, 1)
	select {
	case g.heard <- func() { g.core.Hosting().Files(body, func(err error) { done <- err }) }:
	case <-g.ended:
		return errClosing
	}
	select {
	case err := <-done:
		return err
	case <-g.ended:
		return errClosing
	}
}

func readFiles(paths []string) (set wire.FileSet, err error) {
	size := 0
	for _, path := range paths {
		content, err := os.ReadFile(path)
		missing := errors.Is(err, os.ErrNotExist)
		if err != nil && !missing {
			return set, fmt.Errorf("%w: let the user that runs Holdfast read it", err)
		}
		if size += len(content); size > maxFileBytes {
			return set, fmt.Errorf("%s: the files have more than %d bytes: list only those that applications are "+
				"configured by", path, maxFileBytes)
		}
		set.Files = append(set.Files, wire.File{Path: path, Missing: missing, Content: content})
	}
	return set, nil
}
