package browser

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"go.uber.org/goleak"

	"github.com/holdfast-sdn/holdfast/api"
	"github.com/holdfast-sdn/holdfast/controller/dashboard"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pictures is a folder for pictures of all views, to look at; see CONTRIBUTING.md.
var pictures = os.Getenv("HOLDFAST_PICTURES")

// network is a cluster as the API shows it, with a fat tree of k ports: 5k²/4 switches.
type network struct {
	api.UnimplementedClusterHandler
	k int
}

func (n network) Watch(ctx context.Context, _ *api.WatchRequest, to *connect.ServerStream[api.WatchResponse]) error {
	if err := to.Send(&api.WatchResponse{Feed: "f", Revision: 1, Snapshot: true, Changes: n.changes()}); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

func (n network) changes() (list []*api.Change) {
	now := time.Now()
	for i := range 3 {
		name, role := fmt.Sprintf("c%d", i+1), "follower"
		if i == 0 {
			role = "leader"
		}
		list = append(list, &api.Change{What: &api.Change_Controller{Controller: &api.Answer{Name: name,
			Api: fmt.Sprintf("10.0.0.%d:8653", i+1), Status: &api.ControllerStatus{Name: name, Role: role,
				Apps: []string{"topology", "recovery", "suite"}}}}},
			&api.Change{What: &api.Change_Group{Group: &api.GroupView{Group: uint32(i), Leader: name, Home: name,
				Replicas: []string{"c1", "c2", "c3"}, Term: uint64(3 + i), LastIndex: 48211, Switches: int32(n.k)}}},
			&api.Change{What: &api.Change_Event{Event: &api.Event{Controller: name, Number: uint64(i + 1),
				Kind: api.EventKind_EVENT_KIND_LEADER, Group: uint32(i), Text: "leads the group",
				Time: timestamppb.New(now.Add(time.Duration(-200+60*i) * time.Second)),
				Failover: &api.Failover{From: "c3", Term: 2, LeaderlessMs: 12.5 * float64(i*i*9), Switches: 40,
					Commands: 7}}}})
	}
	list = append(list, &api.Change{What: &api.Change_Event{Event: &api.Event{Controller: "c2", Number: 9, App: "suite",
		Kind: api.EventKind_EVENT_KIND_FAILED, Time: timestamppb.New(now), Text: "suite failed on a packet",
		Input: "packet-in of switch 2a, port 3", Traceback: "Traceback (most recent call last):\n  KeyError: 42"}}})
	half := n.k / 2
	core := func(i int) int { return n.k*n.k + i + 1 }
	add := func(id, port, to, back int) {
		a, b := &api.End{Switch: fmt.Sprintf("%x", id), Port: uint32(port)}, &api.End{Switch: fmt.Sprintf("%x", to),
			Port: uint32(back)}
		for _, l := range []*api.Link{{From: a, To: b}, {From: b, To: a}} {
			l.Up, l.Bidirectional, l.Since = id != 1 || port != 1, true, timestamppb.New(now)
			list = append(list, &api.Change{What: &api.Change_Link{Link: l}})
		}
	}
	for i := range n.k*n.k + half*half {
		s := &api.SwitchInView{Switch: fmt.Sprintf("%x", i+1), Group: uint32(i / n.k % 3), State: "up", Role: "master",
			Mode: "agent", Version: "1.3", Guarantee: "exactly-once", TotalEvents: uint64(1000 + i), Standbys: 2,
			Master: fmt.Sprintf("c%d", i/n.k%3+1), CommandsIssued: 9, CommandsDone: uint64(9 - i%3)}
		if i == 7 {
			s.State, s.Master, s.Guarantee, s.Role = "unreachable", "", "", "none"
		}
		list = append(list, &api.Change{What: &api.Change_Switch{Switch: s}})
	}
	for pod := range n.k {
		for edge := range half {
			for up := range half {
				add(pod*n.k+edge+1, up+1, pod*n.k+half+up+1, edge+1)
				add(pod*n.k+half+edge+1, half+up+1, core(edge*half+up), pod+1)
			}
		}
	}
	return list
}

func (n network) ListActors(context.Context, *emptypb.Empty) (*api.Actors, error) {
	return &api.Actors{By: "c1", Actors: []*api.ActorView{{Actor: "suite/hosts/7", App: "suite", Group: 1, Leader: "c2",
		Inputs: 4711, Outputs: 815, BusyMs: 93.5, Bytes: 2048, Stays: "pinned"}}}, nil
}

func (n network) GetMatrix(context.Context, *emptypb.Empty) (*api.Matrix, error) {
	return &api.Matrix{Cells: []*api.MatrixCell{{From: "c1", To: "c1", Messages: 9000}, {From: "c1", To: "c2",
		Messages: 120}, {From: "c2", To: "c3", Messages: 7}, {From: "c3", To: "c3", Messages: 4000}}}, nil
}

func (n network) ListLinks(context.Context, *emptypb.Empty) (*api.LinkReport, error) {
	rtt := 0.31
	return &api.LinkReport{Bfd: true, Links: []*api.WatchedLink{{Up: true, IntervalMs: 3, RttMs: &rtt, Ends: []*api.WatchedEnd{
		{Switch: "1", Port: 1, BfdState: "up"}, {Switch: "13", Port: 1, BfdState: "down", Flaps: 2,
			Why: "the switch has no BFD"}}}}}, nil
}

// open serves a network, for those with the token unless it is "", and opens its page.
func open(t *testing.T, k int, scheme, token string) *Page {
	t.Helper()
	chromium := Find()
	if chromium == "" {
		t.Skip("there is no Chromium: apt-get install chromium")
	}
	mux := http.NewServeMux()
	mux.Handle(dashboard.Path, dashboard.Handler())
	path, cluster := api.NewClusterHandler(network{k: k}, api.HandlerOptions()...)
	mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
		if token != "" && r.Header.Get("Authorization") != "Bearer "+token {
			api.Refuse(w, r, connect.CodeUnauthenticated, errors.New("this is for those who have a token"))
			return
		}
		cluster.ServeHTTP(w, r)
	})
	server := httptest.NewServer(mux)
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	page, err := Open(ctx, chromium, t.TempDir())
	check(t, err)
	t.Cleanup(func() {
		defer cancel()
		check(t, page.Close())
		server.CloseClientConnections()
		server.Close()
	})
	check(t, page.Scheme(scheme, 1280, 800))
	check(t, page.Go(server.URL+dashboard.Path))
	return page
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// views are all views, and a page of each kind of thing; the last one is the map.
var views = []string{"", "switches", "switches/2", "links", "actors", "actors/suite/hosts/7", "timeline", "failures",
	"events/c2-9", "groups/1", "nowhere", "tables", "tables/app%2Fsuite%2Fhosts", "topology/1..2",
	"topology/2"}

// TestViews: each view of a network of 20 and of 980 switches, light and dark, has names and contrast, and says nothing
// in the console. A page of 980 switches and 10,976 links needs less than a second of a processor, and their map is
// drawn fluently.
func TestViews(t *testing.T) {
	t.Parallel()
	for scheme, k := range map[string]int{"light": 4, "dark": 28} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			page := open(t, k, scheme, "")
			check(t, page.Until(`document.querySelector(".state").textContent === "live"`))
			loaded, err := page.Busy()
			check(t, err)
			var after float64
			check(t, page.Eval(`performance.now()`, &after))
			t.Logf("to show %d switches the page needs %v of a processor, and %.0f ms", 5*k*k/4, loaded, after)
			if loaded > time.Second {
				t.Error("that is more than a second")
			}
			loadAxe(t, page)
			for _, view := range views {
				visit(t, page, scheme, view)
				if k == 4 {
					keyboard(t, page, view)
				}
			}
			if k > 4 {
				fluent(t, page)
			}
			narrow := []string{"topology/1..2"}
			if pictures != "" {
				narrow = views
			}
			check(t, page.Scheme(scheme, 390, 800))
			for _, view := range narrow {
				visit(t, page, scheme+"-narrow", view)
			}
			check(t, page.Scheme(scheme, 1280, 800))
			check(t, page.Key("/"))
			check(t, page.Until(`document.activeElement.id === "search"`))
			for _, key := range []string{"s", "w", "i", "t", "c", "h", " ", "7", "ArrowDown", "ArrowUp"} {
				check(t, page.Key(key))
			}
			picture(t, page, scheme+"-search")
			check(t, page.Key("Enter"))
			check(t, page.Until(`location.hash === "#/switches/7"`))
			for _, problem := range page.Problems() {
				t.Errorf("the console says %s", problem)
			}
		})
	}
}

func visit(t *testing.T, page *Page, scheme, view string) {
	t.Helper()
	check(t, page.Eval(fmt.Sprintf(`location.hash = "#/%s"; new Promise(done => requestAnimationFrame(() =>
		requestAnimationFrame(() => done())))`, view), nil))
	check(t, page.Until(`!document.body.textContent.includes("Asking …")`))
	if view == "topology/2" {
		check(t, page.Until(`document.querySelector("canvas").dataset.settled`))
	}
	var wider int // than the window; wide tables scroll by themselves
	check(t, page.Eval(`document.documentElement.scrollWidth - document.documentElement.clientWidth`, &wider))
	if wider > 0 {
		t.Errorf("%s, %s is %d pixels wider than the window", scheme, view, wider)
	}
	accessible(t, page, scheme+", "+view)
	picture(t, page, scheme+"-"+strings.ReplaceAll(cmp.Or(view, "overview"), "/", "-"))
}

// fluent measures how busy the page is while the map is moved and zoomed.
func fluent(t *testing.T, page *Page) {
	t.Helper()
	const frames = 60
	before, err := page.Busy()
	check(t, err)
	check(t, page.Eval(fmt.Sprintf(`(async () => { const c = document.querySelector("canvas")
		for (let i = 0; i < %d; i++) {
			c.dispatchEvent(new KeyboardEvent("keydown", { key: ["+", "ArrowLeft", "-"][i %% 3], bubbles: true }))
			await new Promise(requestAnimationFrame) } return 0 })()`, frames), nil))
	after, err := page.Busy()
	check(t, err)
	frame := (after - before) / frames
	t.Logf("a frame of the map needs %v of a processor", frame)
	if frame > 33*time.Millisecond {
		t.Error("that is too long for 30 in a second")
	}
}

// TestToken: who has no certificate types a token in. Only the memory of the page keeps it.
func TestToken(t *testing.T) {
	t.Parallel()
	page := open(t, 2, "light", "t0ken")
	check(t, page.Until(`document.activeElement.type === "password"`))
	picture(t, page, "light-login")
	for _, key := range strings.Split("t0ken", "") {
		check(t, page.Key(key))
	}
	check(t, page.Eval(`document.querySelector("form.login button").click()`, nil))
	check(t, page.Until(`document.querySelector(".leader").textContent === "c1"`))
	var kept int
	check(t, page.Eval(`localStorage.length + sessionStorage.length + document.cookie.length`, &kept))
	if kept != 0 {
		t.Error("the page has stored something")
	}
	var url string
	check(t, page.Eval(`location.href`, &url))
	check(t, page.Go(url))
	check(t, page.Until(`document.activeElement.type === "password"`))
}

func picture(t *testing.T, page *Page, name string) {
	if pictures == "" {
		return
	}
	png, err := page.Picture()
	check(t, err)
	check(t, os.WriteFile(filepath.Join(pictures, name+".png"), png, 0o644))
}
