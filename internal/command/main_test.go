package command

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestMain refuses to run as holdfast. In these tests os.Executable is the test binary, so a command that starts
// controllers would start the tests again, and each of those again.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-") {
		fmt.Fprintf(os.Stderr, "the test binary was started as `holdfast %s`; build one, as lab/e2e does\n", os.Args[1])
		os.Exit(2)
	}
	os.Exit(m.Run())
}
