// Command cellgen writes the map functions of an application's handlers. It is for go generate:
//
//	//go:generate go run github.com/holdfast-sdn/holdfast/app/cellgen
//
// For each handler that is given to app.Handle and its like as
//
//	app.Handle(a, x.collectCells, x.collect)
//
// it writes the function collectCells into PACKAGE_cells.go: with the cells that collect uses, if their keys depend on
// the message only. Otherwise it takes the whole table, and says so, with the line and the reason. It follows calls
// within the package. It does not read other packages, and knows no more of a table than its name: app.Handle refuses
// the whole of a table that is divided.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if err := run("."); err != nil {
		fmt.Fprintln(os.Stderr, "cellgen:", err)
		os.Exit(1)
	}
}

// run writes the map functions of the package in a folder.
func run(dir string) error {
	p, err := load(dir)
	if err != nil {
		return err
	}
	code, notes, err := p.generate()
	if err != nil {
		return err
	}
	for _, n := range notes {
		fmt.Fprintln(os.Stderr, n)
	}
	return os.WriteFile(filepath.Join(dir, p.output()), code, 0o644) // a source file, as others
}
