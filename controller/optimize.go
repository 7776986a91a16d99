package controller

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-sdn/holdfast/controller/optimizer"
)

// OptimizerConfig says how a cluster finds better groups for its actors.
type OptimizerConfig struct {
	Window time.Duration // between two looks at what the actors exchange
	optimizer.Config
}

// Placement is what the optimizer of a cluster has seen and decided since the present leader of the system group leads.
type Placement struct {
	By        string  `json:"by"`        // that leader
	Optimizes bool    `json:"optimizes"` // false: it is switched off, and the rest is empty
	WindowS   float64 `json:"window_s"`
	Threshold float64 `json:"threshold_per_s"`
	Windows   int     `json:"windows"`
	CooldownS float64 `json:"cooldown_s"`
	Load      float64 `json:"load_per_s"`

	Looked     int                  `json:"looked"`                // at so many windows
	Tried      int                  `json:"tried"`                 // so many moves
	Failed     int                  `json:"failed"`                // of them
	Asked      []Asked              `json:"controllers,omitempty"` // in the last window
	Local      float64              `json:"local_per_s"`           // messages within groups, in the last window
	Crossing   float64              `json:"crossing_per_s"`        // messages between groups
	Moved      []PlacementMove      `json:"moves"`                 // the last ones, the newest first
	Candidates []optimizer.Decision `json:"candidates"`            // of the last window, which did not move
}

// PlacementMove is an actor that the optimizer has moved.
type PlacementMove struct {
	Time time.Time `json:"time"`
	optimizer.Decision
	Error string `json:"error,omitempty"` // why it has not arrived in time
}

// keptMoves and keptCandidates bound what is kept of the decisions.
const (
	keptMoves      = 256
	keptCandidates = 256
)

// optimizing is the work of the optimizer at the leader of the system group.
type optimizing struct {
	mu        sync.Mutex // guards placement
	placement Placement
}

// optimize moves actors while this controller leads the system group, until ctx ends.
func (c *Controller) optimize(ctx context.Context) {
	cfg := c.cfg.Optimizer
	q := newInquiry(c)
	defer q.http.CloseIdleConnections()
	ticker := time.NewTicker(cfg.Window)
	defer ticker.Stop()
	var o *optimizer.Optimizer // nil if this controller did not lead when it last looked
	var seen Rates
	began := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if !c.system().node.Status().Leading {
			o = nil
			continue
		}
		if o == nil {
			o, seen = optimizer.New(cfg.Config), Rates{}
			c.optimizing.begin(c.cfg.Name, *cfg)
		}
		list, err := q.tallies(ctx)
		if err != nil {
			continue // the controller is stopping
		}
		var groups []GroupTally
		for _, g := range countedGroups(list) {
			groups = append(groups, g.GroupTally)
		}
		w := seen.Next(time.Since(began), groups, func(a *ActorTally) bool { return c.stays(a) != "" })
		c.follow(ctx, w, list, o.Decide(w.Window))
	}
}

// follow does what the optimizer has decided, and waits for the actors that move.
func (c *Controller) follow(ctx context.Context, w Window, asks []answered[Tally], decisions []optimizer.Decision) {
	var moves []PlacementMove
	var others []optimizer.Decision
	for _, d := range decisions {
		if d.Verdict == optimizer.Moves {
			moves = append(moves, PlacementMove{Time: time.Now(), Decision: d})
		} else {
			others = append(others, d)
		}
	}
	var moving sync.WaitGroup
	for i := range moves {
		m := &moves[i]
		a := w.Who[m.Actor]
		c.log.Info("the optimizer moves an actor", "actor", m.Actor, "from", m.From, "to", m.To, "saves_per_s",
			m.Saves, "of_per_s", m.Exchanged)
		moving.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, changeTimeout)
			defer cancel()
			_, err := c.Move(ctx, Move{App: a.App, Key: a.Key, Group: m.To, yields: true})
			if err != nil && ctx.Err() != context.Canceled {
				c.log.Warn("an actor that the optimizer moves has not arrived", "actor", m.Actor, "to", m.To, "err",
					err)
				m.Error = err.Error()
			}
		})
	}
	moving.Wait()
	c.optimizing.add(w, asked(asks), moves, others)
}

func (o *optimizing) begin(by string, cfg OptimizerConfig) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.placement = Placement{By: by, Optimizes: true, WindowS: cfg.Window.Seconds(), Threshold: cfg.Threshold,
		Windows: cfg.Windows, CooldownS: cfg.Cooldown.Seconds(), Load: cfg.Load}
}

func (o *optimizing) add(w Window, asks []Asked, moves []PlacementMove, others []optimizer.Decision) {
	o.mu.Lock()
	defer o.mu.Unlock()
	p := &o.placement
	p.Looked++
	p.Tried += len(moves)
	for i := range moves {
		if moves[i].Error != "" {
			p.Failed++
		}
	}
	p.Asked, p.Local, p.Crossing = asks, w.Local, w.Crossing
	p.Moved = append(moves, p.Moved...) // a new slice, since a reader may have the old one
	p.Moved = slices.Clip(p.Moved[:min(len(p.Moved), keptMoves)])
	p.Candidates = others[:min(len(others), keptCandidates)]
}

func (o *optimizing) get() Placement {
	o.mu.Lock()
	defer o.mu.Unlock()
	p := o.placement
	if p.Moved == nil {
		p.Moved = []PlacementMove{}
	}
	if p.Candidates == nil {
		p.Candidates = []optimizer.Decision{}
	}
	return p
}

var errPinned = errors.New("the actor has been pinned")
