package command

import (
	"path/filepath"
	"strings"
	"testing"
)

// Tokens are added to the file that the cluster file names, listed without their secrets, and removed.
func TestToken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens")
	cluster := writeCluster(t, clusterText+"tokens: "+file+"\n")
	run := func(want int, args ...string) (out, errs string) {
		t.Helper()
		code, out, errs := invoke(t.Context(), append([]string{"token"}, append(args, "--config", cluster)...)...)
		if code != want {
			t.Errorf("%v: exit code %d, printed %q, stderr %q", args, code, out, errs)
		}
		return out, errs
	}
	if _, errs := run(exitFailed, "list"); !strings.Contains(errs, "`holdfast token add` makes the file") {
		t.Errorf("without a file: %q", errs)
	}
	secret, _ := run(exitOK, "add", "operator", "alice")
	run(exitOK, "add", "viewer", "grafana")
	if _, errs := run(exitFailed, "add", "controller", "c1"); !strings.Contains(errs, "all others need certificates") {
		t.Errorf("a token of a controller: %q", errs)
	}
	if out, _ := run(exitOK, "list"); out != "NAME     ROLE\nalice    operator\ngrafana  viewer\n" ||
		!strings.HasPrefix(secret, "holdfast-") {
		t.Errorf("the token %q is listed as %q", secret, out)
	}
	run(exitOK, "remove", "alice")
	if out, _ := run(exitOK, "list"); strings.Contains(out, "alice") {
		t.Errorf("after it is removed: %q", out)
	}
	cluster = writeCluster(t, clusterText)
	if _, errs := run(exitFailed, "list"); !strings.Contains(errs, "the cluster file names no file of tokens") {
		t.Errorf("without a line in the cluster file: %q", errs)
	}
}
