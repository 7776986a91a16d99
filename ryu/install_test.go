package ryu

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Only the applications are unpacked, and nothing outside of the folder.
func TestUnpackApps(t *testing.T) {
	var b bytes.Buffer
	zip := gzip.NewWriter(&b)
	files := tar.NewWriter(zip)
	for _, name := range []string{"ryu-4.34/setup.py", "ryu-4.34/ryu/app/a.py", "ryu-4.34/ryu/app/gui/b.html",
		"ryu-4.34/ryu/lib/hub.py", "ryu-4.34/ryu/app/../../../c.py"} {
		if err := files.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Size: 1, Mode: 0o644}); err != nil {
			t.Fatal(err)
		}
		_, _ = files.Write([]byte("x"))
	}
	files.Close()
	zip.Close()
	folder := t.TempDir()
	if err := unpackApps(&b, folder); err != nil {
		t.Fatal(err)
	}
	var got []string
	_ = fs.WalkDir(os.DirFS(folder), ".", func(path string, d fs.DirEntry, _ error) error {
		if !d.IsDir() {
			got = append(got, path)
		}
		return nil
	})
	if want := []string{"ryu/app/a.py", "ryu/app/gui/b.html"}; !slices.Equal(got, want) {
		t.Errorf("unpacked %q, want %q", got, want)
	}
	if err := unpackApps(strings.NewReader("no archive"), folder); err == nil {
		t.Error("garbage is unpacked")
	}
}

func TestInstallWithoutPython(t *testing.T) {
	err := Install(t.Context(), "/nowhere/python", filepath.Join(t.TempDir(), "venv"), nil, &bytes.Buffer{})
	if err == nil || !strings.Contains(err.Error(), "there is no /nowhere/python: install Python 3.10 or later") {
		t.Errorf("%v", err)
	}
}
