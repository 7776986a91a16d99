// Command site makes the documentation site: a folder of HTML pages from the Markdown of this repository, and reference
// pages from its code. The pages need no server, and ask for nothing from elsewhere.
//
// It is no general generator: which pages there are, and in which order, is in menu.go.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	out := flag.String("out", "build/site", "the folder of the site, which is replaced")
	flag.Parse()
	if err := run(".", *out); err != nil {
		fmt.Fprintf(os.Stderr, "site: %v\n", err)
		os.Exit(1)
	}
}

// marker is a file of each site. A folder without it is not replaced: it is not ours.
const marker = "search-index.js"

// run makes the site of the repository at root.
func run(root, out string) error {
	files, err := build(root)
	if err != nil {
		return err
	}
	old, err := os.ReadDir(out)
	if _, missing := os.Stat(filepath.Join(out, marker)); err == nil && len(old) > 0 && missing != nil {
		return fmt.Errorf("%s has files that are not those of a site: remove it, or name another folder", out)
	}
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	for name, text := range files {
		path := filepath.Join(out, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, text, 0o644); err != nil {
			return err
		}
	}
	fmt.Printf("%d pages: open %s\n", len(files), filepath.Join(out, "index.html"))
	return nil
}
