package disk

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCheckBoot(t *testing.T) {
	const here, before = "this-boot", "another-boot"
	for _, c := range []struct {
		name    string
		mark    string // in the directory before the test; "" for none
		fsync   bool
		refused bool
		marked  bool // whether it is there after the test
	}{
		{"synced, as before", "", true, false, false},
		{"first without fsync", "", false, false, true},
		{"without fsync, same boot", here, false, false, true},
		{"without fsync, the machine restarted", before, false, true, true},
		{"to fsync in the same boot", here, true, false, false},
		{"to fsync, the machine restarted", before, true, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			mark := filepath.Join(dir, unsyncedFile)
			if c.mark != "" {
				if err := os.WriteFile(mark, []byte(c.mark+"\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			err := checkBoot(dir, c.fsync, here)
			if (err != nil) != c.refused {
				t.Fatalf("refused: %v; want %v", err, c.refused)
			}
			if err != nil && !strings.Contains(err.Error(), "remove this folder") {
				t.Errorf("the error has no remedy: %v", err)
			}
			if _, err := os.Stat(mark); (err == nil) != c.marked {
				t.Errorf("marked: %v; want %v", err == nil, c.marked)
			}
		})
	}
}
