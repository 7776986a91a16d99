package ryu

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

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
	removeLeft(filepath.Join(os.TempDir(), temporary+"*"))
	hidden, err := os.MkdirTemp("", "."+temporary) // nobody takes it for one that was left before it is locked
	if err != nil {
		return "", nil, fmt.Errorf("ryu: no place for the host's code: %w", err)
	}
	used, err := lock(filepath.Join(hidden, lockFile), os.O_CREATE)
	folder = filepath.Join(filepath.Dir(hidden), filepath.Base(hidden)[1:])
	if err = errors.Join(err, os.Rename(hidden, folder)); err != nil {
		folder = hidden
	}
	remove = func() {
		_ = os.RemoveAll(folder)
		used.Close()
	}
	if err := errors.Join(err, os.Chmod(folder, 0o755), writeCode(folder)); err != nil {
		remove()
		return "", nil, fmt.Errorf("ryu: write the host's code: %w", err)
	}
	return folder, remove, nil
}

const (
	temporary = "holdfast-python-" // begins the names of temporary folders
	lockFile  = ".lock"            // in them, locked by the process that uses the folder
)

// removeLeft removes temporary folders of processes that were killed.
func removeLeft(pattern string) {
	folders, _ := filepath.Glob(pattern) // the pattern is valid
	for _, folder := range folders {
		if used, err := lock(filepath.Join(folder, lockFile), 0); err == nil {
			_ = os.RemoveAll(folder)
			used.Close()
		}
	}
}

// lock opens a file of this user and locks it, until it is closed or the process ends. The error is EWOULDBLOCK if
// another process has locked it.
func lock(path string, flags int) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_NONBLOCK|flags, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && info.Sys().(*syscall.Stat_t).Uid != uint32(os.Geteuid()) {
		err = os.ErrPermission // somebody else has put it there
	}
	if err == nil {
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
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
