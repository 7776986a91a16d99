package ryu

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
)

// output is what a process prints. Its end is kept, and each line is logged. Its methods may be called from any
// goroutine.
type output struct {
	logger *slog.Logger

	mu    sync.Mutex
	kept  []byte // at least the last outputBytes
	total int    // bytes written in all
	line  []byte // the incomplete last line
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.total += len(b)
	o.kept = append(o.kept, b...)
	if len(o.kept) > 2*outputBytes {
		o.kept = append(o.kept[:0], o.kept[len(o.kept)-outputBytes:]...)
	}
	for rest := b; len(rest) > 0; {
		part := rest[:min(len(rest), lineBytes-len(o.line))]
		end := bytes.IndexByte(part, '\n')
		if end >= 0 {
			part = part[:end+1]
		}
		o.line, rest = append(o.line, part...), rest[len(part):]
		if end >= 0 || len(o.line) == lineBytes {
			line := strings.TrimRight(string(o.line), "\r\n")
			if warning, ours := strings.CutPrefix(line, "holdfast_ryu warns: "); ours {
				o.logger.Warn("ryu: " + warning)
			} else {
				o.logger.Debug("ryu: printed", "line", line)
			}
			o.line = o.line[:0]
		}
	}
	return len(b), nil
}

// size returns how many bytes were written.
func (o *output) size() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.total
}

// since returns what was written after the first so many bytes, as far as it is kept.
func (o *output) since(size int) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := min(o.total-size, len(o.kept), outputBytes)
	return strings.TrimSpace(string(o.kept[len(o.kept)-n:]))
}
