package ryu

import (
	"errors"
	"fmt"
	"io"

	"github.com/holdfast-sdn/holdfast/ryu/wire"
)

// errGone is returned when the host has closed its socket.
var errGone = errors.New("ryu: the host is gone")

// fatalError is a fatal error that the host itself reported.
type fatalError string

func (e fatalError) Error() string { return string(e) }

func readFrame(r io.Reader) (wire.FrameType, []byte, error) {
	var header [wire.HeaderLen]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return 0, nil, fmt.Errorf("%w: %w", errGone, err)
	}
	t, size, err := wire.ParseHeader(header)
	if err != nil {
		return 0, nil, err
	}
	body := make([]byte, size) // not reused, because the results alias it and belong to the handler
	if _, err := io.ReadFull(r, body); err != nil {
		return 0, nil, fmt.Errorf("%w: %w", errGone, err)
	}
	return t, body, nil
}

// frame handles a frame from the host. An error ends the host.
func (h *Host) frame(t wire.FrameType, body []byte) error {
	switch t {
	case wire.TypeReady:
		ready, err := wire.ParseReady(body)
		if err != nil {
			return err
		}
		return h.deliver(h.acceptReady, func() { h.handler.Ready(h, ready) })
	case wire.TypeResults:
		results, err := wire.ParseResults(body)
		if err != nil {
			return err
		}
		return h.deliver(func() error { return h.acceptResults(results) }, func() { h.handler.Results(h, results) })
	case wire.TypeCheckpointed:
		c, err := wire.ParseCheckpointed(body)
		if err != nil {
			return err
		}
		return h.deliver(func() error { return h.acceptCheckpointed(c.Number) },
			func() { h.handler.Checkpointed(h, c.Number, c.State, c.Reason) })
	case wire.TypeStirred:
		return h.deliver(func() error { return h.acceptStirred(len(body)) }, func() { h.handler.Stirred(h) })
	case wire.TypeFatal:
		text, err := wire.ParseFatal(body)
		if err != nil {
			return err
		}
		return fatalError(text)
	}
	return fmt.Errorf("ryu: a %v frame from a host", t)
}

// deliver calls the handler with a valid frame, unless the end of the host is decided.
func (h *Host) deliver(accept func() error, tell func()) error {
	h.mu.Lock()
	if h.end != nil {
		h.mu.Unlock()
		return nil
	}
	err := accept()
	h.busy, h.idle, h.suspect = err == nil, 0, false
	h.mu.Unlock()
	if err != nil {
		return err
	}
	tell()
	h.mu.Lock()
	h.busy = false
	h.mu.Unlock()
	return nil
}

func (h *Host) acceptReady() error {
	if h.ready {
		return fmt.Errorf("ryu: a second %v frame", wire.TypeReady)
	}
	h.ready = true
	return nil
}

func (h *Host) acceptResults(results []wire.Result) error {
	if !h.ready || len(h.pending) == 0 || h.pending[0] < len(results) { // less is a checkpoint, too
		return fmt.Errorf("ryu: %d results from %d on, which nothing asked for now", len(results),
			results[0].Number)
	}
	for i := range results {
		if results[i].Number != h.got+1 {
			return fmt.Errorf("ryu: result %d after %d", results[i].Number, h.got)
		}
		h.got++
	}
	h.pending[0] -= len(results)
	if h.pending[0] == 0 {
		h.answered()
	}
	return nil
}

func (h *Host) acceptStirred(size int) error {
	if !h.ready || size > 0 {
		return fmt.Errorf("ryu: a %v frame with %d bytes, or before %v", wire.TypeStirred, size, wire.TypeReady)
	}
	return nil
}

func (h *Host) acceptCheckpointed(number uint64) error {
	if !h.ready || len(h.pending) == 0 || h.pending[0] != checkpoint {
		return fmt.Errorf("ryu: a %v frame, which nothing asked for now", wire.TypeCheckpointed)
	}
	if number != h.got {
		return fmt.Errorf("ryu: a checkpoint after input %d, where the last result was %d", number, h.got)
	}
	h.answered()
	return nil
}

// answered removes the first pending frame; there are few.
func (h *Host) answered() { h.pending = append(h.pending[:0], h.pending[1:]...) }
