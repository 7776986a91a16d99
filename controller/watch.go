package controller

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-sdn/holdfast/api"
	"github.com/holdfast-sdn/holdfast/controller/feed"
)

// Times and bounds of watches.
const (
	sampleEvery   = 200 * time.Millisecond // the state is looked at, while somebody watches
	sampleAtLeast = 50 * time.Millisecond  // from one look to the next, when something has happened
	sampleShare   = 20                     // a look takes at most that part of the time, if that is a short one
	restLongest   = time.Second            // between looks: one takes long if a controller does not answer
	countersEvery = 2 * time.Second        // counters alone are told
	sampleTimeout = 500 * time.Millisecond // for the answers of the other controllers
	lingering     = 5 * time.Second        // the state is looked at after the last watch has ended
	maxWatchers   = 4096                   // at a time; further ones are refused
	aliveEvery    = 10 * time.Second       // a watcher without news is told that the controller runs
	watchPatience = 10 * time.Second       // to send a message; then the watcher is cut off
	wakeEvery     = time.Millisecond       // watchers are woken, while there is news for some
	wakeAtATime   = 4                      // so a thousand get a message within a quarter of a second
	wakeCalmly    = 1500                   // of so many watchers one is woken at a time, if there are only counters
	largeMessage  = 64 << 10               // bytes
	watchLarge    = 64 << 20               // bytes of large messages that are sent at a time
)

// newFeedID returns an id that no other feed has.
func newFeedID() string { return rand.Text()[:12] }

// controllerKey is the key of the http.ResponseController in the context of a stream.
type controllerKey struct{}

// endless lets a stream take as long as it wants to be answered. The request itself has the time that others have.
func (a *apiServer) endless(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := http.NewResponseController(w)
		_ = c.SetWriteDeadline(time.Time{}) // the server can
		ctx := context.WithValue(r.Context(), controllerKey{}, c)
		if r.ProtoMajor > 1 {
			ctx = context.WithValue(ctx, gatheringKey{}, nil)
		}
		h.ServeHTTP(w, r.WithContext(ctx))
	})
}

// watch serves a watch, until that fails.
func (a *apiServer) watch(ctx context.Context, q *connect.Request[api.WatchRequest],
	to *connect.ServerStream[api.Encoded]) error {
	defer a.watchers.Add(-1)
	if a.watchers.Add(1) > maxWatchers {
		return connect.NewError(connect.CodeResourceExhausted, fmt.Errorf("this controller has %d watches, the most "+
			"that are possible: ask another one", maxWatchers))
	}
	at, err := a.feed.Cursor(q.Msg.Kinds, q.Msg.Feed, q.Msg.Revision)
	if err != nil {
		return connect.NewError(connect.CodeInvalidArgument, err)
	}
	select {
	case a.awaited <- struct{}{}:
	default:
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(a.c.ending, cancel)()
	deadline, _ := ctx.Value(controllerKey{}).(*http.ResponseController)
	_ = deadline.SetReadDeadline(time.Time{}) // the server can
	for {
		m, err := at.Next(ctx, aliveEvery)
		if err != nil && a.c.ending.Err() != nil {
			err = errClosing
		}
		if err != nil {
			return problem(err)
		}
		if err := a.send(ctx, deadline, to, m); err != nil {
			return err
		}
		_ = deadline.SetWriteDeadline(time.Time{}) // of HTTP/2, one ends a stream that is idle, too
	}
}

// send sends one message. Each that is large is copied, so that many clients that do not read would need much memory:
// if they take watchLarge, the others wait meanwhile. A larger message counts as that.
func (a *apiServer) send(ctx context.Context, deadline *http.ResponseController, to *connect.ServerStream[api.Encoded],
	m *api.Encoded) error {
	of := ctx.Value(unreadKey{}).(*unreadAnswer) // unread.until has put it there
	if size := m.SizeIn(of.json); size > largeMessage {
		n := min(int64(size), watchLarge)
		if err := a.large.Acquire(ctx, n); err != nil {
			return problem(err)
		}
		defer a.large.Release(n)
	}
	_ = deadline.SetWriteDeadline(time.Now().Add(watchPatience)) // the server can
	conn, _ := ctx.Value(gatheringKey{}).(*gathering)            // nil if there is none
	return conn.together(func() error { return to.Send(m) })
}

// sample feeds the watchers, until ctx ends.
func (a *apiServer) sample(ctx context.Context) {
	s := sampler{a: a, after: map[string]uint64{}}
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.awaited:
		}
		for watched := time.Now(); time.Since(watched) < lingering; {
			began := time.Now()
			s.look(ctx)
			if a.watchers.Load() > 0 {
				watched = time.Now()
			}
			rest := max(sampleAtLeast, min(sampleShare*time.Since(began), restLongest))
			if !pause(ctx, rest, nil) || !pause(ctx, sampleEvery-rest, a.c.journal.stirred) {
				return
			}
		}
		a.feed.Rest()
		s.rest()
	}
}

// wake wakes the watchers for which there is news, a few at a time, until ctx ends. What a message costs for each
// watcher is spread over the time so, and the loops of the groups get a processor in between.
func (a *apiServer) wake(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.feed.News():
		}
		for a.feed.Wake(wakeAtATime, 1+int(a.watchers.Load())/wakeCalmly) {
			if !pause(ctx, wakeEvery, nil) {
				return
			}
		}
	}
}

// pause waits, until something happens at the latest, and reports whether ctx has not ended.
func pause(ctx context.Context, d time.Duration, happens <-chan struct{}) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-happens:
	case <-timer.C:
	}
	return true
}

// sampler looks at the cluster again and again.
type sampler struct {
	a        *apiServer
	counters time.Time         // when counters were told
	after    map[string]uint64 // the last event of each controller
	rested   map[string]bool   // controllers whose events were not looked at since a rest
	revision uint64            // of the topology
	network  []feed.Item       // of that revision
}

// rest says that the next look may come late: controllers do not keep events forever.
func (s *sampler) rest() {
	s.rested = map[string]bool{}
	for name := range s.after {
		s.rested[name] = true
	}
}

// look tells what there is now. If this controller is stopping, it does nothing.
func (s *sampler) look(ctx context.Context) {
	asking, cancel := context.WithTimeout(ctx, sampleTimeout)
	defer cancel()
	all, err := s.a.inquiry.cluster(asking)
	if err != nil {
		return
	}
	events := s.events(asking, all)
	now := time.Now()
	due := now.Sub(s.counters) >= countersEvery
	if due {
		s.counters = now
	}
	s.a.feed.Set(append(clusterItems(&all), s.topology(ctx)...), due, events)
}

// events returns what has happened at the controllers since the last look, as far as they keep it.
func (s *sampler) events(ctx context.Context, all ClusterStatus) (list []*api.Event) {
	var mu sync.Mutex // guards list, after and rested
	var asked sync.WaitGroup
	add := func(of Answer, events []*api.Event) {
		mu.Lock()
		defer mu.Unlock()
		list = s.add(list, of, events)
	}
	before := maps.Clone(s.after)
	for _, of := range all.Controllers {
		after := before[of.Name]
		if of.Status != nil && of.Status.LastEvent < after {
			after = 0 // it was started with a clock that is behind
		}
		switch {
		case of.Status == nil || of.Status.LastEvent == after:
			continue
		case of.Name == all.By:
			add(of, s.a.c.journal.after(after))
			continue
		}
		asked.Go(func() {
			r, err := s.a.inquiry.client(Peer{Name: of.Name, API: of.API}).ListEvents(ctx,
				&api.ListEventsRequest{After: after})
			if err != nil {
				return // they are asked for again
			}
			add(of, r.Events)
		})
	}
	asked.Wait()
	slices.SortStableFunc(list, func(a, b *api.Event) int { return a.Time.AsTime().Compare(b.Time.AsTime()) })
	return list
}

// add adds the events of a controller. Their numbers count up, so after a rest they tell whether some are kept no more.
func (s *sampler) add(list []*api.Event, of Answer, events []*api.Event) []*api.Event {
	n := len(events)
	if n == 0 {
		return list
	}
	last := events[n-1].Number
	if s.rested[of.Name] && last-s.after[of.Name] != uint64(n) {
		s.a.feed.Missed()
	}
	delete(s.rested, of.Name)
	s.after[of.Name] = last
	return append(list, events...)
}

// clusterItems are what watchers are told of the cluster.
func clusterItems(all *ClusterStatus) (items []feed.Item) {
	for i := range all.Controllers {
		c := &all.Controllers[i]
		items = append(items, feed.Item{Kind: api.Kind_KIND_CONTROLLER, Key: c.Name, State: steady(c),
			Counters: fingerprint(c), Change: func() *api.Change {
				return &api.Change{What: &api.Change_Controller{Controller: mirrored[api.Answer](c)}}
			}})
	}
	for i := range all.Groups {
		g := &all.Groups[i]
		state := *g
		state.LastIndex, state.Applied, state.Backlog, state.Switches = 0, 0, nil, 0
		items = append(items, feed.Item{Kind: api.Kind_KIND_GROUP, Key: strconv.FormatUint(g.Group, 10),
			State: fingerprint(state), Counters: fingerprint(g), Change: func() *api.Change {
				return &api.Change{What: &api.Change_Group{Group: mirrored[api.GroupView](g)}}
			}})
	}
	for i := range all.Switches {
		sw := &all.Switches[i]
		state := *sw
		state.EventsLogged, state.CommandsSent, state.CommandsDone = 0, 0, 0
		state.TotalEvents, state.TotalCommands = 0, 0
		items = append(items, feed.Item{Kind: api.Kind_KIND_SWITCH, Key: sw.Switch, State: state, Counters: *sw,
			Change: func() *api.Change {
				return &api.Change{What: &api.Change_Switch{Switch: mirrored[api.SwitchInView](sw)}}
			}})
	}
	for i := range all.Suspended {
		a := &all.Suspended[i]
		state := *a
		state.Failed = 0
		items = append(items, feed.Item{Kind: api.Kind_KIND_SUSPENDED, Key: a.Actor, State: state, Counters: *a,
			Change: func() *api.Change {
				return &api.Change{What: &api.Change_Suspended{Suspended: mirrored[api.SuspendedStatus](a)}}
			}})
	}
	return items
}

// steady is what a controller says of itself, without what always changes.
func steady(a *Answer) any {
	if a.Status == nil {
		return a.Error
	}
	s := *a.Status
	s.LastIndex, s.CommitIndex, s.Applied, s.Snapshot, s.Counters = 0, 0, 0, 0, Counters{}
	s.Groups, s.Members, s.Election, s.Replayed = nil, nil, ElectionStatus{}, nil
	return fingerprint(s)
}

// fingerprint is a value that is equal if what v says is.
func fingerprint(v any) any {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// topology returns what watchers are told of the network, as this controller knows it.
func (s *sampler) topology(ctx context.Context) []feed.Item {
	n := s.a.c.cfg.Network
	if n == nil {
		return nil
	}
	revision, err := s.a.c.Revision(ctx, n.Application)
	if err != nil || revision == s.revision && s.network != nil {
		return s.network
	}
	t, err := s.a.c.topology(ctx)
	if err != nil {
		return s.network
	}
	s.revision, s.network = revision, networkItems(t)
	return s.network
}

func networkItems(t *api.Topology) (items []feed.Item) {
	add := func(kind api.Kind, key string, m proto.Message, change *api.Change) {
		b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
		if err != nil {
			return // it has text that is none
		}
		items = append(items, feed.Item{Kind: kind, Key: key, State: string(b), Change: func() *api.Change {
			return change
		}})
	}
	for _, sw := range t.Switches {
		add(api.Kind_KIND_PORTS, sw.Switch, sw, &api.Change{What: &api.Change_Ports{Ports: sw}})
	}
	for _, l := range t.Links {
		add(api.Kind_KIND_LINK, fmt.Sprintf("%s:%d->%s:%d", l.From.Switch, l.From.Port, l.To.Switch, l.To.Port), l,
			&api.Change{What: &api.Change_Link{Link: l}})
	}
	for _, h := range t.Hosts {
		add(api.Kind_KIND_HOST, h.Mac, h, &api.Change{What: &api.Change_Host{Host: h}})
	}
	return items
}
