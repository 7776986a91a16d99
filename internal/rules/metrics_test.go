package rules

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var metricName = regexp.MustCompile(`\bholdfast_[a-z_]+`)

// Alerts, dashboards and pages name metrics that a controller has.
func TestMetricsExist(t *testing.T) {
	code, err := os.ReadFile("../../controller/metrics.go")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("../../deploy/*/*")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files in deploy: %v", err)
	}
	for _, file := range append(files, "../../docs/operating.md") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range metricName.FindAllString(string(text), -1) {
			if name == "holdfast_ryu" { // the Python package
				continue
			}
			if !strings.Contains(string(code), `"`+strings.TrimPrefix(name, "holdfast_")+`"`) {
				t.Errorf("%s: a controller has no metric %s", file, name)
			}
		}
	}
}
