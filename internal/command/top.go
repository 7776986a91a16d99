package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/holdfast-sdn/holdfast/controller/client"
	"github.com/holdfast-sdn/holdfast/controller/top"
)

// leastInterval bounds how often top asks: a controller asks all others each time.
const leastInterval = 100 * time.Millisecond

func topCommand() *cobra.Command {
	var file string
	var asJSON bool
	var every time.Duration
	var count int
	cmd := &cobra.Command{
		Use:   "top --config FILE",
		Short: "Watch a cluster: rates, what waits, and what changes",
		Long: `Show the controllers and the busiest switches of a cluster again and again, with what they do in a
second, and what has changed: who leads, who does not answer, and which switches have another master.
BEHIND is how many entries of the log a controller lacks that the leader has applied, and WAITING how
many commands a switch was sent and has not executed yet.

It ends with q. If the output is not a terminal, one table follows the other; with --json, one object a line.`,
		Example: `  holdfast top --config holdfast.yaml
  holdfast top --interval 5s
  holdfast top --json --count 10`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if every < leastInterval || count < 0 {
				return fmt.Errorf("--interval %v and --count %d: choose at least %v and 0", every, count, leastInterval)
			}
			o, err := newClient(file, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			defer o.Close()
			show, ctx, out := inText(cmd.OutOrStdout()), cmd.Context(), cmd.OutOrStdout()
			if asJSON {
				e := json.NewEncoder(out)
				show = func(f top.Frame) error { return e.Encode(f) }
			} else if screen, is := openScreen(os.Stdin, out); is {
				defer screen.close()
				show, ctx = screen.show, screen.quit(ctx)
			}
			return watch(ctx, o, every, count, show)
		},
	}
	cmd.Flags().StringVar(&file, "config", "holdfast.yaml", "the cluster file")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object for each interval")
	cmd.Flags().DurationVar(&every, "interval", time.Second, "time between two looks")
	cmd.Flags().IntVar(&count, "count", 0, "end after so many; 0: when it is interrupted")
	return cmd
}

// watch shows the cluster until ctx ends, or count times.
func watch(ctx context.Context, o *client.Client, every time.Duration, count int, show func(top.Frame) error) error {
	var h top.History
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for n := 1; ; n++ {
		s := o.Status(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err := show(h.Observe(time.Now(), s)); err != nil || n == count {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// inText shows frames one below the other.
func inText(out io.Writer) func(top.Frame) error {
	return func(f top.Frame) error {
		_, err := io.WriteString(out, strings.Join(f.Lines(0, 0), "\n")+"\n\n")
		return err
	}
}

// screen is a terminal whose keys come one by one, with a page of its own, which is left as it was.
type screen struct {
	in, out *os.File
	before  unix.Termios
	stop    context.CancelFunc
	ended   chan struct{} // quit reads no more
}

// openScreen takes the terminal, if both ends are one.
func openScreen(in *os.File, out io.Writer) (*screen, bool) {
	f, is := out.(*os.File)
	if !is {
		return nil, false
	}
	if _, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS); err != nil {
		return nil, false
	}
	was, err := unix.IoctlGetTermios(int(in.Fd()), unix.TCGETS)
	if err != nil {
		return nil, false
	}
	raw := *was
	raw.Lflag &^= unix.ICANON | unix.ECHO
	raw.Cc[unix.VMIN], raw.Cc[unix.VTIME] = 0, 1 // a read returns after 0.1 s at most
	if err := unix.IoctlSetTermios(int(in.Fd()), unix.TCSETS, &raw); err != nil {
		return nil, false
	}
	fmt.Fprint(f, "\x1b[?1049h\x1b[?25l")
	return &screen{in: in, out: f, before: *was, stop: func() {}}, true
}

// quit returns a context that ends with the key q. It reads keys until close.
func (s *screen) quit(ctx context.Context) context.Context {
	ctx, s.stop = context.WithCancel(ctx)
	s.ended = make(chan struct{})
	go func() {
		defer close(s.ended)
		defer s.stop()
		key := make([]byte, 1)
		for ctx.Err() == nil {
			n, err := s.in.Read(key)
			if n == 1 && (key[0] == 'q' || key[0] == 'Q') || err != nil && !errors.Is(err, io.EOF) {
				return
			}
		}
	}()
	return ctx
}

func (s *screen) show(f top.Frame) error {
	width, height := 80, 24
	if size, err := unix.IoctlGetWinsize(int(s.out.Fd()), unix.TIOCGWINSZ); err == nil && size.Col > 0 && size.Row > 1 {
		width, height = int(size.Col), int(size.Row)-1
	}
	var b strings.Builder
	b.WriteString("\x1b[H")
	for _, line := range f.Lines(width, height) {
		b.WriteString(line + "\x1b[K\r\n")
	}
	b.WriteString("\x1b[J\x1b[2mq ends\x1b[0m")
	_, err := io.WriteString(s.out, b.String())
	return err
}

func (s *screen) close() {
	s.stop()
	if s.ended != nil {
		<-s.ended
	}
	fmt.Fprint(s.out, "\x1b[?25h\x1b[?1049l")
	_ = unix.IoctlSetTermios(int(s.in.Fd()), unix.TCSETS, &s.before) // as it was found
}
