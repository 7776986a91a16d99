// Package durable makes the names of files outlast a crash of the machine. Who writes their contents syncs those.
package durable

import (
	"errors"
	"os"
)

// Names returns when the files of a folder that are new, or have another name, or are removed, are so on the disk.
func Names(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
