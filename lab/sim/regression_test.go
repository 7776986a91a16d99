package sim

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// Each file is a scenario that failed once: docs/bugs-found.md describes the bug, unless it is a seeded one.
func TestRegressions(t *testing.T) {
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		t.Run(filepath.Base(name), func(t *testing.T) {
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			var sc Scenario
			if err := json.Unmarshal(b, &sc); err != nil {
				t.Fatal(err)
			}
			if err := sc.Validate(); err != nil {
				t.Fatal(err)
			}
			if r := Run(sc); r.Violation != nil {
				t.Errorf("%s%v", sc, r.Violation)
			}
		})
	}
}
