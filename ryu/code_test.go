package ryu

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-sdn/holdfast/python"
	"github.com/holdfast-sdn/holdfast/ryu/wire"
)

// complete reports which files of the package a folder lacks, and which others it has.
func complete(t *testing.T, folder string) {
	t.Helper()
	err := filepath.WalkDir("../python/holdfast_ryu", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".py" {
			return err
		}
		name := strings.TrimPrefix(filepath.ToSlash(path), "../python/")
		want, err := python.Code.ReadFile(name)
		if err != nil {
			t.Errorf("%s is not embedded: name its folder in python/embed.go", name)
			return nil
		}
		got, err := os.ReadFile(filepath.Join(folder, name))
		if err == nil && !bytes.Equal(got, want) {
			t.Errorf("%s is another file", filepath.Join(folder, name))
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestUnpack(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if _, _, err := unpack(false); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	folder, _, err := unpack(false)
	if err != nil {
		t.Fatal(err)
	}
	if filepath.Dir(folder) != filepath.Join(cache, "holdfast") ||
		!strings.HasPrefix(filepath.Base(folder), "python-") {
		t.Errorf("unpacked to %s", folder)
	}
	complete(t, folder)
	if left, _ := filepath.Glob(filepath.Join(folder, "*", ".new-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}

	// Files were deleted, and others were added.
	if err := os.RemoveAll(filepath.Join(folder, "holdfast_ryu", "fast")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "holdfast_ryu", "wire.py"), []byte("print('look')"),
		0o600); err != nil {
		t.Fatal(err)
	}
	if again, _, err := unpack(false); err != nil || again != folder {
		t.Errorf("again: %s, %v", again, err)
	}
	complete(t, folder)
}

// Without a cache, the code is in a folder that is removed when the host ends.
func TestNoCache(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	open(t, file)
	t.Setenv("XDG_CACHE_HOME", file)
	t.Setenv("TMPDIR", t.TempDir())
	b := stub(t, Config{}, ready(1), "SPEAK; "+stay)
	await(b, "READY", b.ready)
	folders, _ := filepath.Glob(filepath.Join(os.TempDir(), "holdfast-python-*"))
	if len(folders) != 1 {
		t.Fatalf("temporary folders: %v", folders)
	}
	complete(t, folders[0])
	b.host.Stop()
	if folders, _ = filepath.Glob(filepath.Join(os.TempDir(), "holdfast-python-*")); len(folders) > 0 {
		t.Errorf("left behind: %v", folders)
	}

	t.Setenv("TMPDIR", filepath.Join(file, "none"))
	if _, err := Start(Config{Applications: []string{"any"}}, wire.Hello{}, b); err == nil ||
		!strings.Contains(err.Error(), "no place for the host's code") {
		t.Errorf("no place at all: %v", err)
	}
}

// A temporary folder that a killed process has left is removed by the next one, and none that is in use.
func TestLeftFoldersAreRemoved(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	left := filepath.Join(os.TempDir(), temporary+"left")
	if err := os.Mkdir(left, 0o755); err != nil {
		t.Fatal(err)
	}
	open(t, filepath.Join(left, lockFile))
	first, remove, err := unpack(true)
	if err != nil {
		t.Fatal(err)
	}
	second, removeSecond, err := unpack(true)
	if err != nil {
		t.Fatal(err)
	}
	folders, _ := filepath.Glob(filepath.Join(os.TempDir(), temporary+"*"))
	if want := []string{first, second}; len(folders) != 2 || !slices.Contains(want, folders[0]) ||
		!slices.Contains(want, folders[1]) {
		t.Errorf("there are %v, and %v are in use", folders, want)
	}
	remove()
	removeSecond()
	if folders, _ = filepath.Glob(filepath.Join(os.TempDir(), temporary+"*")); len(folders) > 0 {
		t.Errorf("left behind: %v", folders)
	}
}
