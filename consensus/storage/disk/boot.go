package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// A log that is written without fsync survives the process, but a restart of the machine may remove its end without a
// trace. A member that continued with it would have forgotten votes and entries that others rely on. So such a
// directory holds the boot id of the machine, and a log of another boot is refused.
const unsyncedFile = "unsynced"

// bootID is what Linux calls this boot of the machine.
func bootID() (string, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("read the boot id of the machine: %w", err)
	}
	return strings.TrimSpace(string(id)), nil
}

// checkBoot refuses a log that may have lost its end, and marks the directory for the current durability.
func checkBoot(dir string, fsync bool, boot string) error {
	mark := filepath.Join(dir, unsyncedFile)
	old, err := os.ReadFile(mark)
	switch {
	case errors.Is(err, fs.ErrNotExist) && fsync:
		return nil
	case err == nil && strings.TrimSpace(string(old)) != boot:
		return fmt.Errorf("the log in %s was kept with durability memory and the machine has restarted since, so "+
			"its end may be missing: "+
			"if a majority of the other members kept theirs, remove this folder and let the member join under a "+
			"new id; if none did, remove all of them and start afresh", dir)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("read how the log was kept: %w", err)
	case err == nil && !fsync:
		return nil
	case !fsync:
		if err := writeWhole(mark, true, []byte(boot+"\n")); err != nil { // before anything is saved that is not synced
			return fmt.Errorf("mark the log as not synced: %w", err)
		}
		return nil
	}
	d, err := os.Open(dir) // from memory to disk: sync what exists first
	if err != nil {
		return err
	}
	defer d.Close()
	if err := unix.Syncfs(int(d.Fd())); err != nil {
		return fmt.Errorf("sync %s: %w", dir, err)
	}
	return os.Remove(mark)
}
