package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"connectrpc.com/grpcreflect"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/holdfast-sdn/holdfast/api"
	"github.com/holdfast-sdn/holdfast/lab/cluster"
)

// TestWatchLeader: a watch at a follower begins with everything, and tells who leads after a kill and what that cost.
// It resumes without a gap. The API speaks gRPC, HTTP with JSON, and Python on the same port.
func TestWatchLeader(t *testing.T) {
	t.Parallel()
	s := startCluster(t, cluster.Config{Apps: []string{"topology"}})
	leader, follower := s.leader(), s.followers()[0]
	client := follower.Client()
	watch, err := client.Watch(s.ctx, &api.WatchRequest{})
	s.check(err)
	if !watch.Receive() {
		t.Fatal(watch.Err())
	}
	first := watch.Msg()
	names := map[string]bool{}
	for _, c := range first.Changes {
		if c.GetController().GetStatus() != nil {
			names[c.GetController().Name] = true
		}
	}
	if !first.Snapshot || len(names) != 3 {
		t.Errorf("the watch begins with %v", first)
	}
	s.check(leader.Kill())
	last := untilLeader(s, watch, leader.Name)
	s.check(watch.Close())

	again, err := client.Watch(s.ctx, &api.WatchRequest{Feed: first.Feed, Revision: first.Revision,
		Kinds: []api.Kind{api.Kind_KIND_EVENT}})
	s.check(err)
	if r := untilLeader(s, again, leader.Name); r.Snapshot || r.Revision != last.Revision {
		t.Errorf("the watch resumes with %v, and the event was in revision %d", r, last.Revision)
	}
	s.check(again.Close())

	s.protocols(follower)
	s.apiInPython()
}

// untilLeader reads changes until one says that another controller than this one leads.
func untilLeader(s *testCluster, watch *connect.ServerStreamForClient[api.WatchResponse],
	killed string) *api.WatchResponse {
	for watch.Receive() {
		for _, c := range watch.Msg().Changes {
			e := c.GetEvent()
			if f := e.GetFailover(); f != nil && f.From == killed && e.Controller != killed && f.LeaderlessMs >= 0 {
				return watch.Msg()
			}
		}
	}
	s.t.Fatalf("the watch has ended: %v", watch.Err())
	return nil
}

// protocols asks a controller by gRPC, and as HTTP with JSON.
func (s *testCluster) protocols(c *cluster.Controller) {
	both := new(http.Protocols)
	both.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: both}
	defer transport.CloseIdleConnections()
	http2, url := &http.Client{Transport: transport}, "http://"+c.API
	st, err := api.NewClusterClient(http2, url, connect.WithGRPC()).GetController(s.ctx, &emptypb.Empty{})
	s.check(err)
	if st.Name != c.Name {
		s.t.Errorf("by gRPC %s says %v", c.Name, st)
	}
	_, err = api.NewOperationsClient(http2, url, connect.WithGRPC()).Move(s.ctx, &api.Move{App: "topology", Group: 1})
	if connect.CodeOf(err) != connect.CodeFailedPrecondition {
		s.t.Errorf("a move by gRPC: %v", err)
	}
	describes := grpcreflect.NewClient(http2, url, connect.WithGRPC()).NewStream(s.ctx)
	services, err := describes.ListServices()
	s.check(err)
	if _, err = describes.Close(); err != nil || !slices.Contains(services, api.ClusterName) {
		s.t.Errorf("the services are %v (%v)", services, err)
	}
	for path, want := range map[string]string{
		"/holdfast.v1.Cluster/GetTopology": `"controller":"` + c.Name + `"`,
		"/holdfast.v1.Cluster/ListLinks":   "not_found",
		"/grpc.health.v1.Health/Check":     "SERVING",
	} {
		resp, err := http.Post(url+path, "application/json", strings.NewReader("{}"))
		s.check(err)
		text, err := io.ReadAll(resp.Body)
		if err != nil || !strings.Contains(strings.ReplaceAll(string(text), " ", ""), want) {
			s.t.Errorf("%s: %v, %s", path, err, text)
		}
		resp.Body.Close()
	}
	resp, err := http.Get(url + "/openapi.json")
	s.check(err)
	defer resp.Body.Close()
	var described struct{ Paths map[string]any }
	if err := json.NewDecoder(resp.Body).Decode(&described); err != nil || len(described.Paths) < 15 {
		s.t.Errorf("%d paths are described (%v)", len(described.Paths), err)
	}
}

// apiInPython uses the client in Python.
func (s *testCluster) apiInPython() {
	var addresses []string
	for _, c := range s.Controllers() {
		addresses = append(addresses, c.API)
	}
	python := exec.CommandContext(s.ctx, "python3", "-c", fmt.Sprintf(`
from holdfast.api import ApiError, Client, NobodyAnswersError
from holdfast.api_types import ListEventsRequest, ListRowsRequest, Move
def failovers(address):
    try:
        with Client([address], timeout_seconds=5) as one:
            return [e for e in one.list_events(ListEventsRequest()).events if e.failover and e.time]
    except NobodyAnswersError: # it was killed
        return []
addresses = %q.split()
with Client(addresses) as cluster:
    status = cluster.get_status()
    print(len(status.controllers), status.groups[0].leader != "", status.groups[0].term > 0)
    print(any(failovers(a) for a in addresses)) # each controller has events of its own
    print(cluster.list_rows(ListRowsRequest(application="topology")).application)
    first = next(cluster.watch(["KIND_GROUP"]))
    print(first.snapshot, first.changes[0].group.group)
    try:
        cluster.move(Move(app="topology", group=1))
    except ApiError as e:
        print(e.code, bool(e.remedy))
`, strings.Join(addresses, " ")))
	python.Env = append(os.Environ(), "PYTHONPATH="+filepath.Join("..", "..", "python"))
	python.Stderr = os.Stderr
	out, err := python.Output()
	if want := "3 True True\nTrue\ntopology\nTrue 0\nfailed_precondition True\n"; err != nil || string(out) != want {
		s.t.Errorf("python: %v, %q, want %q", err, out, want)
	}
}
