package ryu

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const (
	// needed is what a host imports; python/pyproject.toml says the same.
	needed = "os-ken>=3.1,<5 greenlet>=3 Routes WebOb tinyrpc"
	// tested are the versions that this release was tested with. Packages that name others get those.
	tested = "os-ken==4.2.2 greenlet==3.5.6 Routes==2.5.1 WebOb==1.8.11 tinyrpc==1.1.7"
	// release is that of Ryu whose applications are installed.
	release = "4.34"
	// setuptools is the newest that the sources of Ryu can be asked for their metadata with.
	setuptools = "setuptools==67.8.0"
	// maxAppBytes bounds a file of Ryu's applications. The largest has 60 KiB.
	maxAppBytes = 1 << 20
)

// Install makes a Python environment in dir for hosts: os-ken and what else a host imports, the applications of Ryu as
// ryu.app, and further packages as pip names them, for example faucet==1.10.12. It asks pip, so it needs a package
// index. Python is the one to make it with; out gets what pip prints. An environment that is there gets what it lacks.
// The error is one line with the remedy.
func Install(ctx context.Context, python, dir string, packages []string, out io.Writer) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("ryu: %s: %w", dir, err)
	}
	run := func(env []string, name string, args ...string) error {
		cmd := exec.CommandContext(ctx, name, args...)
		cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), env...), out, out
		err := cmd.Run()
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
			return startError(Config{Python: name}, err)
		}
		return err
	}
	if err := run(nil, python, "-m", "venv", dir); err != nil {
		return fmt.Errorf("ryu: make an environment in %s: %w: what %s prints says why; on Debian install python3-venv",
			dir, err, python)
	}
	inside := filepath.Join(dir, "bin", "python")
	pip := []string{"-m", "pip", "install", "--quiet", "--disable-pip-version-check"}
	wanted := tested
	if len(packages) > 0 { // they may need other versions
		wanted = needed
	}
	if err := run(nil, inside, append(append(pip, strings.Fields(wanted)...), packages...)...); err != nil {
		return fmt.Errorf("ryu: install %s: %w: what pip prints says why", strings.Join(packages, ", "), err)
	}
	return installRyu(run, inside, dir)
}

// installRyu unpacks the applications of Ryu from its sources: the package cannot be built with today's setuptools.
func installRyu(run func(env []string, name string, args ...string) error, python, dir string) error {
	temporary, err := os.MkdirTemp("", "holdfast-ryu-")
	if err != nil {
		return fmt.Errorf("ryu: %w", err)
	}
	defer os.RemoveAll(temporary)
	constraint := filepath.Join(temporary, "constraints.txt")
	if err := os.WriteFile(constraint, []byte(setuptools+"\n"), 0o600); err != nil {
		return fmt.Errorf("ryu: %w", err)
	}
	err = run([]string{"PIP_CONSTRAINT=" + constraint}, python, "-m", "pip", "download", "--quiet",
		"--disable-pip-version-check", "--no-deps", "--no-binary", "ryu", "--dest", temporary, "ryu=="+release)
	if err != nil {
		return fmt.Errorf("ryu: download Ryu %s: %w: what pip prints says why", release, err)
	}
	sites, err := filepath.Glob(filepath.Join(dir, "lib", "python3*", "site-packages"))
	if err != nil || len(sites) != 1 {
		return fmt.Errorf("ryu: %s has %d folders lib/python3*/site-packages: install into an empty folder", dir,
			len(sites))
	}
	archive, err := os.Open(filepath.Join(temporary, "ryu-"+release+".tar.gz"))
	if err != nil {
		return fmt.Errorf("ryu: %w", err)
	}
	defer archive.Close()
	if err := unpackApps(archive, sites[0]); err != nil {
		return fmt.Errorf("ryu: unpack Ryu %s: %w", release, err)
	}
	return nil
}

// unpackApps writes the files below ryu/app of the sources of Ryu to a folder.
func unpackApps(archive io.Reader, folder string) error {
	zip, err := gzip.NewReader(archive)
	if err != nil {
		return err
	}
	files := tar.NewReader(zip)
	for {
		head, err := files.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		_, name, _ := strings.Cut(head.Name, "/") // without the folder of the release
		if head.Typeflag != tar.TypeReg || !strings.HasPrefix(name, "ryu/app/") || !filepath.IsLocal(name) {
			continue
		}
		content, err := io.ReadAll(io.LimitReader(files, maxAppBytes))
		if err != nil {
			return err
		}
		path := filepath.Join(folder, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return err
		}
	}
}
