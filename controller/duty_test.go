package controller

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/consensus"
	"github.com/holdfast-sdn/holdfast/internal/await"
)

// A duty runs while its controller leads, at most one at a time, and at no other time.
func TestDuty(t *testing.T) {
	began, ended := make(chan context.Context), make(chan struct{})
	c := &Controller{leads: make(chan bool, 1), tended: make(chan struct{})}
	c.cfg.Duty = &Duty{Run: func(ctx context.Context, _ *Controller) {
		began <- ctx
		<-ctx.Done()
		ended <- struct{}{}
	}}
	go c.tend()
	c.tellDuty(false)
	c.tellDuty(true)
	first := <-began
	c.tellDuty(true) // in a later term
	c.tellDuty(true)
	if first.Err() != nil {
		t.Error("it is ended while its controller leads")
	}
	c.tellDuty(false)
	<-first.Done()
	c.tellDuty(true)
	select {
	case <-began:
		t.Fatal("it runs twice")
	case <-ended:
	}
	second := <-began
	go func() { <-ended }()
	c.endDuty()
	if second.Err() == nil {
		t.Error("it has not ended")
	}
}

// The leader reports. The others answer who leads.
func TestDutyReport(t *testing.T) {
	duty := &Duty{Run: func(ctx context.Context, _ *Controller) { <-ctx.Done() },
		Report: func() any {
			return struct {
				FloorMs float64 `json:"floor_ms"`
			}{7}
		}}
	s := newTestCluster(t, 0, hubs)
	await.Until(s.t, "the leader to report, and the others to say who it is", func() bool {
		id, st := s.leader()
		right := 0
		for i, c := range s.controllers {
			with := &Controller{cfg: c.cfg, log: c.log}
			with.groups.add(c.system())
			with.cfg.Duty = duty
			r, err := newAPI(with).ListLinks(t.Context(), nil)
			if i == id && err == nil && r.FloorMs == 7 || i != id && leaderIn(err) == st.Name {
				right++
			}
		}
		return right == len(s.controllers)
	})
}

// The only controller of a cluster runs its duty until it is closed.
func TestDutyOfController(t *testing.T) {
	s := &testCluster{t: t}
	began, ended := make(chan struct{}), make(chan struct{})
	c, err := Start(Config{
		Name: "c1", Names: map[uint64]string{1: "c1"}, Logger: quiet,
		OpenFlow: s.listen("127.0.0.1:0"), SwitchTimeout: time.Second,
		Consensus: consensus.HostConfig{ID: 1, Dir: t.TempDir(),
			Heartbeat: 20 * time.Millisecond, Election: 200 * time.Millisecond, Logger: quiet},
		Groups: []GroupConfig{{Consensus: consensus.GroupConfig{Members: map[uint64]string{1: "c1"}},
			Applications: hubs()}},
		Duty: &Duty{Run: func(ctx context.Context, c *Controller) {
			if _, err := c.Status(ctx); err != nil {
				t.Error(err)
			}
			close(began)
			<-ctx.Done()
			close(ended)
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	<-began
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	select {
	case <-ended:
	default:
		t.Error("it outlives its controller")
	}
}
