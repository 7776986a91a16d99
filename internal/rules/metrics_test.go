package rules

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var metricName = regexp.MustCompile(`\bholdfast_[a-z_]+`)

// Alerts, dashboards and pages name metrics that there are.
func TestMetricsExist(t *testing.T) {
	var code []byte
	for _, of := range []string{"controller", "agent", "bfd/sentry"} {
		b, err := os.ReadFile("../../" + of + "/metrics.go")
		if err != nil {
			t.Fatal(err)
		}
		code = append(code, b...)
	}
	files, err := filepath.Glob("../../deploy/*/*")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files in deploy: %v", err)
	}
	pages, err := filepath.Glob("../../docs/operating/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("no pages in docs/operating: %v", err)
	}
	for _, file := range append(files, pages...) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range metricName.FindAllString(string(text), -1) {
			if name == "holdfast_ryu" { // the Python package
				continue
			}
			if !strings.Contains(string(code), `"`+strings.TrimPrefix(name, "holdfast_")+`"`) {
				t.Errorf("%s: there is no metric %s", file, name)
			}
		}
	}
}
