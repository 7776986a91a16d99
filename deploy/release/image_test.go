package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// entries reads a tar archive.
func entries(t *testing.T, from io.Reader) map[string]imageFile {
	t.Helper()
	files := map[string]imageFile{}
	for r := tar.NewReader(from); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if dir, _ := filepath.Split(strings.TrimSuffix(h.Name, "/")); dir != "" {
			if _, is := files[dir]; !is {
				t.Errorf("%s is before its folder", h.Name)
			}
		}
		if !h.ModTime.Equal(date) || h.Uid != h.Gid || h.Uname != "" {
			t.Errorf("%s has %+v", h.Name, h)
		}
		files[h.Name] = imageFile{h.Name, h.Mode, h.Uid, data}
	}
}

// blob returns what a descriptor names, decoded if it is JSON, after its digest and size were checked.
func blob(t *testing.T, archive map[string]imageFile, d descriptor, to any) []byte {
	t.Helper()
	data := archive["blobs/"+strings.Replace(d.Digest, ":", "/", 1)].data
	if digest(data) != d.Digest || len(data) != d.Size {
		t.Fatalf("%s has %d bytes and digest %s, want %+v", d.Type, len(data), digest(data), d)
	}
	if to != nil {
		if err := json.Unmarshal(data, to); err != nil {
			t.Fatal(err)
		}
	}
	return data
}

// The image can be read back: each digest is right, the layer has the files, and it runs as an ordinary user. Written
// again, it is the same.
func TestImage(t *testing.T) {
	dir, files := t.TempDir(), imageFiles([]byte("binary"), []byte("{}"), []byte("license"))
	var texts [2][]byte
	for i := range texts {
		name := filepath.Join(dir, fmt.Sprint(i))
		if err := writeImage(name, files, "v1.2.3", date); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		texts[i] = text
	}
	if !bytes.Equal(texts[0], texts[1]) {
		t.Error("the same image has other bytes when it is written again")
	}
	archive := entries(t, bytes.NewReader(texts[0]))
	var of index
	if err := json.Unmarshal(archive["index.json"].data, &of); err != nil || len(of.Manifests) != 1 {
		t.Fatalf("%+v, %v", of, err)
	}
	var parts manifest
	blob(t, archive, of.Manifests[0], &parts)
	var config imageConfig
	blob(t, archive, parts.Config, &config)
	if c := config.Config; c.User != "65532:65532" || !slices.Equal(c.Entrypoint, []string{"/usr/bin/holdfast"}) {
		t.Errorf("%+v", c)
	}
	z, err := gzip.NewReader(bytes.NewReader(blob(t, archive, parts.Layers[0], nil)))
	if err != nil {
		t.Fatal(err)
	}
	layer, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	if got := digest(layer); len(config.RootFS.Diffs) != 1 || config.RootFS.Diffs[0] != got {
		t.Errorf("the layer has digest %s, want %v", got, config.RootFS.Diffs)
	}
	got := entries(t, bytes.NewReader(layer))
	for _, f := range files {
		if g := got[f.name]; g.mode != f.mode || g.owner != f.owner || string(g.data) != string(f.data) {
			t.Errorf("%s is %+v", f.name, g)
		}
	}
	if len(got) != len(files) {
		t.Errorf("the layer has %v", slices.Sorted(maps.Keys(got)))
	}
}

// The Containerfile runs the binary as the image of a release does.
func TestContainerfile(t *testing.T) {
	text, err := os.ReadFile("../container/Containerfile")
	if err != nil {
		t.Fatal(err)
	}
	c := containerConfig("v1")
	list := func(words []string) string { return `["` + strings.Join(words, `", "`) + `"]` }
	want := []string{"USER " + c.User, "ENV " + c.Env[0], "ENTRYPOINT " + list(c.Entrypoint), "CMD " + list(c.Cmd)}
	for volume := range c.Volumes {
		want = append(want, "VOLUME "+volume)
	}
	for port := range c.ExposedPorts {
		want = append(want, " "+strings.TrimSuffix(port, "/tcp"))
	}
	for _, name := range []string{"etc/passwd", "etc/group"} {
		for _, f := range imageFiles(nil, nil, nil) {
			if f.name == name {
				want = append(want, "echo "+strings.TrimSpace(string(f.data))+" >/root/image/"+name)
			}
		}
	}
	for _, line := range want {
		if !strings.Contains(string(text), line) {
			t.Errorf("there is no %q", line)
		}
	}
}
