package bench

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/holdfast-sdn/holdfast/apps/kv"
	"github.com/holdfast-sdn/holdfast/lab/cluster"
	"github.com/holdfast-sdn/holdfast/lab/flock"
)

// Actors measures how fast new actors are made (Beehive, figure 5): an application sends a batch of messages, each for
// a key that nobody has, and the next batch once these actors have written their cells. On one group that is the
// handling of the messages. With a group for each controller, the directory also assigns the actors, and each gets its
// message on a stream of its own.
type Actors struct {
	Binary     string // the holdfast binary
	Batches    []int  // messages of a batch
	Actors     int    // made with each size of batches, or one batch if that has more
	Live       int    // if not 0, so many are made, and what they cost is measured instead
	Durability string
}

// maxCreated bounds the actors of one cluster, well below what the directory takes.
const maxCreated = 1 << 19

// Validate returns a *FieldError for a value that cannot be.
func (a Actors) Validate() error {
	if a.Live != 0 {
		return cmp.Or(inRange("live", a.Live, 1, maxCreated), isDurability(a.Durability))
	}
	if len(a.Batches) == 0 {
		return &FieldError{"batches", a.Batches, "at least one"}
	}
	for _, n := range a.Batches {
		if err := inRange("batches", n, 1, 8192); err != nil {
			return err
		}
	}
	return cmp.Or(inRange("actors", a.Actors, 1, maxCreated/max(1, len(a.Batches))), isDurability(a.Durability))
}

// Run runs the benchmark.
func (a Actors) Run(ctx context.Context, progress Progress) (Report, error) {
	if a.Live != 0 {
		return a.runLive(ctx, progress)
	}
	r := Report{Bench: "actors", Figures: map[string]float64{}, Setup: map[string]any{
		"controllers": "3 processes on loopback", "app": flock.Name, "actors": a.Actors, "durability": a.Durability,
		"batch": fmt.Sprintf("messages that are sent at once, by transactions of at most %d; the next batch begins "+
			"when "+
			"all actors of this one are made", flock.MaxActors),
		"one_group": "one group; no directory", "across": "a group for each controller; the directory assigns each " +
			"actor",
		"paper": "Beehive, figure 5: at the largest batch, 11 controllers, one machine each",
	}}
	for i, groups := range []string{"1", PerController} {
		name := map[string]string{"1": "one_group", PerController: "across"}[groups]
		p := func(done float64) { progress.show((float64(i)+done)/2, "groups: "+groups) }
		if err := a.measure(ctx, p, groups, name, &r); err != nil {
			return Report{}, err
		}
	}
	return r, nil
}

// measure adds the figures of one number of groups.
func (a Actors) measure(ctx context.Context, progress func(float64), groups, name string, r *Report) error {
	c, end, err := startCluster(ctx, cluster.Config{Binary: a.Binary, Apps: []string{kv.Name, flock.Name},
		Durability: a.Durability, Sections: "groups: " + groups + "\n"})
	if err != nil {
		return err
	}
	defer end()
	if err := c.WaitHome(ctx); err != nil {
		return err
	}
	m := maker{client: newWebClient(16), at: c.Controllers()[0]}
	defer m.client.close()
	if m.at, err = c.WaitLeader(ctx); err != nil {
		return err
	}
	if err := m.make(ctx, 64); err != nil { // warm-up
		return c.WithLogs(err)
	}
	largest := slices.Max(a.Batches)
	for i, batch := range a.Batches {
		progress(float64(i) / float64(len(a.Batches)))
		rounds := max(1, a.Actors/batch)
		began := time.Now()
		for range rounds {
			if err := m.make(ctx, batch); err != nil {
				return c.WithLogs(fmt.Errorf("batch of %d, groups: %s: %w", batch, groups, err))
			}
		}
		each := micros(time.Since(began)) / float64(rounds*batch)
		of := fmt.Sprintf("_b%d_%s", batch, name)
		r.Figures["us_per_actor"+of], r.Figures["actors_per_s"+of] = each, 1e6/each
		if batch == largest {
			r.Figures["paper_us_per_actor"+of] = 140
		}
	}
	return nil
}

// maker makes actors.
type maker struct {
	client *webClient
	at     *cluster.Controller
	made   int
}

// make makes so many, and returns when they exist.
func (m *maker) make(ctx context.Context, n int) error {
	err := together((n+flock.MaxActors-1)/flock.MaxActors, func(i int) error {
		first := m.made + i*flock.MaxActors
		count := min(flock.MaxActors, m.made+n-first)
		_, err := m.client.ask(ctx, m.at, "POST", fmt.Sprintf("/apps/%s/create/%d/%d", flock.Name, first+1, count), nil)
		return err
	})
	if err != nil {
		return err
	}
	m.made += n
	for end := time.Now().Add(time.Minute); ; {
		text, err := m.client.ask(ctx, m.at, "GET", "/apps/"+flock.Name+"/created", nil)
		if err != nil {
			return err
		}
		if made, err := strconv.Atoi(string(text)); err != nil || made == m.made {
			return err
		} else if time.Now().After(end) {
			return fmt.Errorf("%d actors were made a minute ago, and %d exist", m.made, made)
		}
		time.Sleep(200 * time.Microsecond)
	}
}
