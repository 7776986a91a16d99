// Package command is the holdfast command line. A file has a subcommand: its flags, and what it prints. What it does
// stands in the packages. Package holdfast makes programs of it.
package command

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/internal/sink"
)

// Main runs the command line of this process, with applications beside those that come with Holdfast, and ends the
// process.
func Main(own ...func() *app.App) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	code := exitUsage
	if err := include(own); err != nil {
		fmt.Fprintf(stderr(), "holdfast: %v\n", err)
	} else {
		code = execute(ctx, Root(), os.Args[1:], stderr())
	}
	if s, is := stderr().(*sink.Sink); is {
		_ = s.Close(time.Second) // nobody is left to whom its error could be told
	}
	os.Exit(code)
}

// maxUnread bounds what is kept of a log that nobody reads, in bytes.
const maxUnread = 1 << 20

// stderr is standard error. If that is no regular file, nobody may read it: then writing to it never waits.
var stderr = sync.OnceValue(func() io.Writer {
	if sink.Blocks(os.Stderr) {
		return sink.New(os.Stderr, maxUnread)
	}
	return os.Stderr
})
