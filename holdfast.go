// Package holdfast makes a program of applications of your own: with Main it is the whole holdfast command, whose
// subcommands, such as serve and demo, know them by their names.
//
//	func main() { holdfast.Main(balancer.New) }
//
// Applications import package app, and their tests package app/apptest and package holdfasttest. `holdfast new` writes
// a module to begin with.
package holdfast

import (
	"context"
	_ "embed"
	"fmt"
	"log/slog"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/internal/command"
)

// Main is the command holdfast, in a program that has these applications beside those that come with Holdfast. Each
// function makes an application afresh, with the same name and handlers in each call. It ends the process: with code 2
// if two applications have the same name.
func Main(apps ...func() *app.App) {
	command.Main(apps...)
}

// Controller is one controller of a cluster, for a program that has a command line of its own.
type Controller struct {
	File   string       // the cluster file, which all controllers of the cluster share
	Name   string       // of this controller in that file
	Join   bool         // its folder is empty, and it waits to be added by `holdfast member`
	Logger *slog.Logger // slog.Default if nil
	Apps   []func() *app.App
}

// Run runs the controller until ctx ends, with the applications that the cluster file names: those of Apps, and those
// that come with Holdfast. It returns nil if ctx has ended, and an error if the file is wrong or the controller cannot
// go on. A process can run one controller, once. `holdfast init` has to have made its folder.
func (c Controller) Run(ctx context.Context) error {
	err := command.Serve(ctx, command.Service{File: c.File, Name: c.Name, Join: c.Join, Logger: c.Logger, Own: c.Apps})
	if err != nil {
		return fmt.Errorf("controller %s: %w", c.Name, err)
	}
	return nil
}
