package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// What is generated is that of the files of the interface.
func TestGenerated(t *testing.T) {
	files, err := generated(t.Context(), "..")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		if got, err := os.ReadFile(filepath.Join("..", name)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what its files say: run go generate ./api (%v)", name, err)
		}
	}
}
