package command

import (
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// progress is one line that is written again and again, on a terminal only.
type progress struct {
	out io.Writer
	on  bool
}

func newProgress(out io.Writer) *progress {
	f, ok := out.(*os.File)
	if ok {
		_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
		ok = err == nil
	}
	return &progress{out, ok}
}

const progressWidth = 24

// show draws the line: done is the share from 0 to 1.
func (p *progress) show(done float64, what string) {
	if !p.on {
		return
	}
	n := int(done * progressWidth)
	fmt.Fprintf(p.out, "\r\x1b[K[%s%s] %s", strings.Repeat("#", n), strings.Repeat(".", progressWidth-n), what)
}

// callback is show, or nil if nothing is drawn.
func (p *progress) callback() func(done float64, what string) {
	if !p.on {
		return nil
	}
	return p.show
}

// clear removes the line, so that something else can be printed.
func (p *progress) clear() {
	if p.on {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
}
