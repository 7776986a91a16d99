package controller

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/consensus"
)

// A list without elements is [] in JSON, and not null.
func TestStatusWithoutSwitches(t *testing.T) {
	c, err := NewCore(CoreConfig{Logger: quiet}, newStand(t, CoreConfig{}))
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(c.Status())
	if err != nil || !strings.Contains(string(b), `"apps":[]`) || !strings.Contains(string(b), `"switches":[]`) {
		t.Fatalf("%s, %v", b, err)
	}
}

// The status names a reason only where the election timeout is longer than configured.
func TestElectionStatus(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		timeout consensus.ElectionTimeout
		want    ElectionStatus
	}{
		{consensus.ElectionTimeout{Configured: 50 * ms, Present: 50 * ms}, ElectionStatus{50, 50, 100, ""}},
		{consensus.ElectionTimeout{Configured: 50 * ms, Present: 240 * ms, Late: consensus.LateLeader,
			Waited: 120 * ms},
			ElectionStatus{50, 240, 480, "the leader was silent for 120 ms"}},
		{consensus.ElectionTimeout{Configured: 50 * ms, Present: 240 * ms, Late: consensus.LateSelf, Waited: 120 * ms},
			ElectionStatus{50, 240, 480, "this controller got no processor time for 120 ms"}},
		{consensus.ElectionTimeout{Configured: 50 * ms, Present: 240 * ms, Late: consensus.LateCrowd,
			Waited: 120 * ms}, ElectionStatus{50, 240, 480,
			"its processors are crowded, which may delay others by 120 ms"}},
	} {
		if got := electionStatus(c.timeout); got != c.want {
			t.Errorf("%+v: %+v", c.timeout, got)
		}
	}
}
