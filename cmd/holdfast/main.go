// Command holdfast is the whole of Holdfast in one binary: a controller, the agent beside a switch, a software switch,
// and the tools to look at them. The subcommands are in internal/command. A program of your own has them, too, if it
// calls holdfast.Main.
package main

import "github.com/holdfast-sdn/holdfast"

func main() { holdfast.Main() }
