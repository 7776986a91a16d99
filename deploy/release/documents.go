package main

import (
	"compress/gzip"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/holdfast-sdn/holdfast/internal/command"
)

// writeDocuments writes what is made of the commands: a compressed manual page for each of them into the folder man,
// and the completions of three shells into completions.
func writeDocuments(to string, date time.Time) error {
	man, completions := filepath.Join(to, "man"), filepath.Join(to, "completions")
	for _, dir := range []string{man, completions} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
	}
	root := command.Root()
	root.InitDefaultCompletionCmd()
	root.DisableAutoGenTag = true
	header := &doc.GenManHeader{Section: "1", Date: &date, Source: "Holdfast", Manual: "Holdfast"}
	if err := doc.GenManTree(root, header, man); err != nil {
		return err
	}
	if err := compress(man); err != nil {
		return err
	}
	return complete(root, completions)
}

// compress replaces the files of a folder, as Debian wants manual pages.
func compress(dir string) error {
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, f := range files {
		name := filepath.Join(dir, f.Name())
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if err := writeCompressed(name+".gz", text); err != nil {
			return err
		}
		if err := os.Remove(name); err != nil {
			return err
		}
	}
	return nil
}

func writeCompressed(name string, text []byte) error {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	defer file.Close() // a second time is harmless
	z, err := gzip.NewWriterLevel(file, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := z.Write(text); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	return file.Close()
}

func complete(root *cobra.Command, dir string) error {
	if err := root.GenBashCompletionFileV2(filepath.Join(dir, "holdfast"), true); err != nil {
		return err
	}
	if err := root.GenZshCompletionFile(filepath.Join(dir, "_holdfast")); err != nil {
		return err
	}
	return root.GenFishCompletionFile(filepath.Join(dir, "holdfast.fish"), true)
}
