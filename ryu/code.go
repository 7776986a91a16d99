package ryu

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/holdfast-sdn/holdfast/python"
)

// Unpack writes the Python package to the user's cache, unless it is there already, or else to a temporary folder. It
// returns the folder for PYTHONPATH, and a function that removes it if it is temporary.
func Unpack() (folder string, remove func(), err error) { return unpack(false) }

// unpack is Unpack for this user or, to a temporary folder, for others, who cannot read this user's cache.
func unpack(others bool) (folder string, remove func(), err error) {
	if !others {
		cache, err := os.UserCacheDir()
		if err == nil {
			folder, err = codeFolder(cache)
		}
		if err == nil {
			err = writeCode(folder)
		}
		if err == nil {
			return folder, func() {}, nil
		}
	}
	folder, err = os.MkdirTemp("", "holdfast-python-")
	if err != nil {
		return "", nil, fmt.Errorf("ryu: no place for the host's code: %w", err)
	}
	remove = func() { _ = os.RemoveAll(folder) }
	if err := errors.Join(os.Chmod(folder, 0o755), writeCode(folder)); err != nil {
		remove()
		return "", nil, fmt.Errorf("ryu: write the host's code: %w", err)
	}
	return folder, remove, nil
}

// codeFolder returns the folder in the cache for this version of the code.
func codeFolder(cache string) (string, error) {
	hash := sha256.New()
	err := eachFile(func(name string, content []byte) error {
		_, err := fmt.Fprintf(hash, "%q %d\n%s", name, len(content), content)
		return err
	})
	return filepath.Join(cache, "holdfast", fmt.Sprintf("python-%x", hash.Sum(nil)[:8])), err
}

// writeCode writes the files of the package to folder. Several processes may do so at once. A cache that was cleaned or
// modified is repaired.
func writeCode(folder string) error {
	return eachFile(func(name string, content []byte) error {
		path := filepath.Join(folder, filepath.FromSlash(name))
		if there, err := os.ReadFile(path); err == nil && bytes.Equal(there, content) {
			return nil
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		return replace(path, content)
	})
}

// replace writes a file atomically.
func replace(path string, content []byte) error {
	file, err := os.CreateTemp(filepath.Dir(path), ".new-")
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	if err = errors.Join(err, file.Chmod(0o644), file.Close()); err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		_ = os.Remove(file.Name())
	}
	return err
}

func eachFile(do func(name string, content []byte) error) error {
	return fs.WalkDir(python.Code, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := python.Code.ReadFile(name)
		if err != nil {
			return err
		}
		return do(name, content)
	})
}
