package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"
)

// imageUser is the user and the group of a container. Its number is that of other images without a distribution, and
// no user of a machine has it.
const imageUser = 65532

// imageFile is a file of the image, or a folder if its name ends with a slash.
type imageFile struct {
	name  string
	mode  int64
	owner int
	data  []byte
}

// imageFiles are what a container sees: the binary without a shell or a library, and the names of its user.
func imageFiles(binary, bom, license []byte) []imageFile {
	const user = "holdfast:x:%[1]d:%[1]d:Holdfast:/var/lib/holdfast:/sbin/nologin\n"
	return []imageFile{
		{name: "etc/", mode: 0o755},
		{name: "etc/group", mode: 0o644, data: fmt.Appendf(nil, "holdfast:x:%d:\n", imageUser)},
		{name: "etc/holdfast/", mode: 0o755},
		{name: "etc/passwd", mode: 0o644, data: fmt.Appendf(nil, user, imageUser)},
		{name: "tmp/", mode: 0o1777},
		{name: "usr/", mode: 0o755},
		{name: "usr/bin/", mode: 0o755},
		{name: "usr/bin/holdfast", mode: 0o755, data: binary},
		{name: "usr/share/", mode: 0o755},
		{name: "usr/share/doc/", mode: 0o755},
		{name: "usr/share/doc/holdfast/", mode: 0o755},
		{name: "usr/share/doc/holdfast/bom.cdx.json", mode: 0o644, data: bom},
		{name: "usr/share/doc/holdfast/copyright", mode: 0o644, data: license},
		{name: "var/", mode: 0o755},
		{name: "var/lib/", mode: 0o755},
		{name: "var/lib/holdfast/", mode: 0o750, owner: imageUser},
	}
}

// writeTar writes files in the given order.
func writeTar(to io.Writer, files []imageFile, date time.Time) error {
	w := tar.NewWriter(to)
	for _, f := range files {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: f.mode, Uid: f.owner, Gid: f.owner,
			Size: int64(len(f.data)), ModTime: date, Format: tar.FormatPAX}
		if strings.HasSuffix(f.name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		if _, err := w.Write(f.data); err != nil {
			return err
		}
	}
	return w.Close()
}

// Media types of the OCI image format: https://specs.opencontainers.org/image-spec
const (
	typeIndex    = "application/vnd.oci.image.index.v1+json"
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

// descriptor names a blob of an image.
type descriptor struct {
	Type        string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// manifest names the parts of an image, and index the images of an archive.
type (
	manifest struct {
		Schema int          `json:"schemaVersion"`
		Type   string       `json:"mediaType"`
		Config descriptor   `json:"config"`
		Layers []descriptor `json:"layers"`
	}
	index struct {
		Schema    int          `json:"schemaVersion"`
		Type      string       `json:"mediaType"`
		Manifests []descriptor `json:"manifests"`
	}
)

// imageConfig says how a container is run.
type imageConfig struct {
	Created      time.Time    `json:"created"`
	Architecture string       `json:"architecture"`
	OS           string       `json:"os"`
	Config       runConfig    `json:"config"`
	RootFS       rootFS       `json:"rootfs"`
	History      []historyOne `json:"history"`
}

type runConfig struct {
	User         string              `json:"User"`
	ExposedPorts map[string]struct{} `json:"ExposedPorts"`
	Env          []string            `json:"Env"`
	Entrypoint   []string            `json:"Entrypoint"`
	Cmd          []string            `json:"Cmd"`
	Volumes      map[string]struct{} `json:"Volumes"`
	Labels       map[string]string   `json:"Labels"`
}

type rootFS struct {
	Type  string   `json:"type"`
	Diffs []string `json:"diff_ids"`
}

type historyOne struct {
	Created time.Time `json:"created"`
	By      string    `json:"created_by"`
}

// writeImage writes a container image, as an archive in the OCI layout. Its only layer has the files.
func writeImage(to string, files []imageFile, version string, date time.Time) error {
	archive := []imageFile{{name: "oci-layout", mode: 0o644, data: []byte(`{"imageLayoutVersion":"1.0.0"}`)},
		{name: "blobs/", mode: 0o755}, {name: "blobs/sha256/", mode: 0o755}}
	add := func(kind string, data []byte) descriptor {
		sum := digest(data)
		name := "blobs/" + strings.Replace(sum, ":", "/", 1)
		archive = append(archive, imageFile{name: name, mode: 0o644, data: data})
		return descriptor{Type: kind, Digest: sum, Size: len(data)}
	}
	var layer, compressed bytes.Buffer
	if err := writeTar(&layer, files, date); err != nil {
		return err
	}
	z := gzip.NewWriter(&compressed)
	if _, err := z.Write(layer.Bytes()); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	config, err := json.Marshal(imageConfig{Created: date, Architecture: runtime.GOARCH, OS: "linux",
		Config: containerConfig(version), RootFS: rootFS{"layers", []string{digest(layer.Bytes())}},
		History: []historyOne{{date, "deploy/release of Holdfast " + version}}})
	if err != nil {
		return err
	}
	parts, err := json.Marshal(manifest{Schema: 2, Type: typeManifest, Config: add(typeConfig, config),
		Layers: []descriptor{add(typeLayer, compressed.Bytes())}})
	if err != nil {
		return err
	}
	image := add(typeManifest, parts)
	tag := strings.ReplaceAll(version, "+", "-") // a tag has no plus
	image.Annotations = map[string]string{"org.opencontainers.image.ref.name": tag,
		"io.containerd.image.name": "localhost/holdfast:" + tag} // docker load and ctr call it so
	list, err := json.Marshal(index{2, typeIndex, []descriptor{image}})
	if err != nil {
		return err
	}
	var out bytes.Buffer
	archive = append(archive, imageFile{name: "index.json", mode: 0o644, data: list})
	if err := writeTar(&out, archive, date); err != nil {
		return err
	}
	return os.WriteFile(to, out.Bytes(), 0o644)
}

// containerConfig is the same as in deploy/container/Containerfile.
func containerConfig(version string) runConfig {
	return runConfig{
		User:         fmt.Sprintf("%[1]d:%[1]d", imageUser),
		ExposedPorts: map[string]struct{}{"6653/tcp": {}, "7001/tcp": {}, "8653/tcp": {}},
		Env:          []string{"PATH=/usr/bin"},
		Entrypoint:   []string{"/usr/bin/holdfast"},
		Cmd:          []string{"--help"},
		Volumes:      map[string]struct{}{"/var/lib/holdfast": {}},
		Labels: map[string]string{"org.opencontainers.image.title": "holdfast",
			"org.opencontainers.image.version": version, "org.opencontainers.image.licenses": "Apache-2.0",
			"org.opencontainers.image.source": "https://github.com/holdfast-sdn/holdfast"},
	}
}

func digest(data []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(data)) }
