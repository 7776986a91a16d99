// Command holdfast is the whole of Holdfast in one binary: a controller, the agent beside a switch, a
// software switch, and the tools to look at them. A file holds a subcommand; what it
// does stands in the packages.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	os.Exit(execute(ctx, rootCommand(), os.Args[1:], os.Stderr))
}
