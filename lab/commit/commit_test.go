package commit

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// TestMain runs a member in place of the tests if it is told to.
func TestMain(m *testing.M) {
	if len(os.Args) != 3 || os.Args[1] != "member" {
		goleak.VerifyTestMain(m)
		return
	}
	var cfg Config
	err := json.Unmarshal([]byte(os.Args[2]), &cfg)
	ctx, cancel := context.WithCancel(context.Background())
	go func() { // ends with the input
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	if err = errors.Join(err, Run(ctx, cfg, os.Stdout)); err != nil {
		panic(err)
	}
}

func TestMeasure(t *testing.T) {
	for _, members := range []int{1, 3} {
		r, err := Measure(t.Context(), Group{Command: []string{os.Args[0], "member"}, Members: members,
			Duration: 50 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		if r.Commits == 0 || r.P50 <= 0 || r.P99 < r.P50 {
			t.Errorf("%d members: %+v", members, r)
		}
	}
}

// TestMemberFails wants the reason for which a member ended, and not to wait for its result.
func TestMemberFails(t *testing.T) {
	_, err := Measure(t.Context(), Group{Command: []string{os.Args[0], "-no-such-flag"}, Members: 1})
	if err == nil || !errors.Is(err, io.EOF) {
		t.Errorf("error %v", err)
	}
}
