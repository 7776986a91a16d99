// Command hello is the whole of Holdfast with an application of its own: `hello help` lists what it can do.
package main

import "github.com/holdfast-sdn/holdfast"

func main() { holdfast.Main(New) }
