// Command holdfast is the whole of Holdfast in one binary: a controller, the agent beside a switch, a
// software switch, and the tools to look at them. A file holds a subcommand; what it
// does stands in the packages.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/sink"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	code := execute(ctx, rootCommand(), os.Args[1:], stderr())
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
