package python

import (
	"os"
	"os/exec"
	"testing"
)

func TestPython(t *testing.T) {
	python := os.Getenv("HOLDFAST_PYTHON")
	if python == "" {
		absent(t, "HOLDFAST_PYTHON does not name a python that has os-ken and pytest")
	}
	if out, err := exec.Command(python, "-c", "import os_ken, greenlet, pytest").CombinedOutput(); err != nil {
		absent(t, "%s lacks what the tests need: %v\n%s", python, err, out)
	}
	cmd := exec.Command(python, "-m", "pytest")
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("pytest: %v\n%s", err, out)
	}
	t.Logf("%s", out)
}

// absent skips the test, or fails it where nothing may be missing.
func absent(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("HOLDFAST_REQUIRE_ORACLES") == "1" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}
