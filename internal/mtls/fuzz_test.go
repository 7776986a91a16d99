package mtls

import (
	"os"
	"path/filepath"
	"testing"
)

// FuzzDenied reads any file of certificates that are denied: it is a list, or the error names the file.
func FuzzDenied(f *testing.F) {
	f.Add([]byte("4F0C5E # s1\n\n00:a1\n"))
	f.Add([]byte("-1"))
	f.Fuzz(func(t *testing.T, text []byte) {
		file := filepath.Join(t.TempDir(), "deny")
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		list, err := readDenied(file)
		for entry := range list {
			if err != nil || entry == "" || len(entry) > fingerprintLen {
				t.Errorf("%q is denied, %v", entry, err)
			}
		}
	})
}
