package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/holdfast-sdn/holdfast/api"
	"github.com/holdfast-sdn/holdfast/controller"
	waiting "github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/internal/mirror"
)

// refusal is an answer of a controller that refuses a request.
type refusal struct {
	Error  string
	Leader string // send the request to this controller instead
}

// fakes starts controllers c1, c2 and c3 that answer by a function, and returns their cluster file. The function gets
// the name of a controller, the name of a method, and the request as JSON. It returns a structure, or a refusal.
func fakes(t *testing.T, answer func(name, method, body string) (connect.Code, any)) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("controllers:\n")
	for i := 1; i <= 3; i++ {
		name := fmt.Sprint("c", i)
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			service, method, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
			found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(service + "." + method))
			if err != nil {
				t.Errorf("%s: %v", r.URL.Path, err)
				return
			}
			of := found.(protoreflect.MethodDescriptor)
			code, text := answer(name, method, asJSON(t, r, of))
			if no, is := text.(refusal); is {
				refused := connect.NewError(code, errors.New(no.Error))
				if d, err := connect.NewErrorDetail(&api.Problem{Leader: no.Leader}); err == nil {
					refused.AddDetail(d)
				}
				_ = connect.NewErrorWriter().Write(w, r, refused)
				return
			}
			m := messageOf(t, of.Output())
			mirror.Copy(m, text)
			out, err := proto.Marshal(m)
			if err != nil {
				t.Error(err)
			}
			w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
			_, _ = w.Write(out)
		}))
		t.Cleanup(srv.Close)
		fmt.Fprintf(&b, "  - {name: %s, id: %d, peer: \"127.0.0.1:%d\", openflow: \"127.0.0.1:%d\", api: \"%s\"}\n",
			name, i, i, 10+i, srv.Listener.Addr())
	}
	return writeCluster(t, b.String())
}

func messageOf(t *testing.T, d protoreflect.MessageDescriptor) proto.Message {
	kind, err := protoregistry.GlobalTypes.FindMessageByName(d.FullName())
	if err != nil {
		t.Error(err)
	}
	return kind.New().Interface()
}

// asJSON returns a request. What it has as a query is that of a method without side effects.
func asJSON(t *testing.T, r *http.Request, of protoreflect.MethodDescriptor) string {
	m := messageOf(t, of.Input())
	body, err := io.ReadAll(r.Body)
	if errors.Is(err, io.ErrUnexpectedEOF) { // another controller has answered, so this one is not asked any more
		return ""
	}
	if err == nil {
		err = proto.Unmarshal(body, m)
	}
	if err != nil {
		t.Error(err)
	}
	text, err := protojson.Marshal(m)
	if err != nil {
		t.Error(err)
	}
	return strings.ReplaceAll(string(text), " ", "")
}

// three returns the members c1, c2 and c3.
func three() controller.Members {
	m := controller.Members{Leader: "c2", Last: 40}
	for i := uint64(1); i <= 3; i++ {
		m.Members = append(m.Members, controller.Member{Name: fmt.Sprint("c", i), ID: i, Address: "127.0.0.1:1",
			Votes: true, Leads: i == 2, Connected: true, Match: 40})
	}
	return m
}

// TestMember: commands find the leader through a follower, retry until the change is done, and print the result.
func TestMember(t *testing.T) {
	var posts []string
	cluster := fakes(t, func(name, request, body string) (connect.Code, any) {
		m := three()
		switch {
		case name != "c2":
			return connect.CodeFailedPrecondition, refusal{Error: "controller c2 leads", Leader: "c2"}
		case request == "ListMembers":
			return 0, m
		case strings.Contains(body, `"remove":"3"`):
			return connect.CodeFailedPrecondition, refusal{Error: "not that one"}
		}
		posts = append(posts, body)
		m.Members[0].Votes = false
		switch len(posts) {
		case 1:
			return connect.CodeUnavailable, refusal{Error: "soon"}
		case 2:
			m.Waiting = &controller.Member{Name: "c9", Match: 7}
		default:
			m.Done = true
		}
		return 0, m
	})
	code, out, stderr := invoke(t.Context(), "member", "list", "--config", cluster)
	want := `CONTROLLER  ID  ADDRESS      ROLE   CONNECTED  HAS
c1          1   127.0.0.1:1  votes  true       40 of 40
c2          2   127.0.0.1:1  leads  true       40 of 40
c3          3   127.0.0.1:1  votes  true       40 of 40
`
	if code != 0 || out != want || stderr != "" {
		t.Errorf("exit code %d, stderr %q, printed\n%s", code, stderr, out)
	}
	if code, out, stderr = invoke(t.Context(), "member", "replace", "c1", "c9", "9", "127.0.0.1:9", "--config",
		cluster); code != 0 || !strings.Contains(out, "learner") || !strings.Contains(stderr, "is still accepted") {
		t.Errorf("exit code %d, stderr %q, printed\n%s", code, stderr, out)
	}
	if want := `{"add":{"name":"c9","id":"9","address":"127.0.0.1:9"},"remove":"1"}`; len(posts) != 3 || posts[0] != want ||
		posts[2] != want {
		t.Errorf("asked for %q, want %s three times", posts, want)
	}
	if code, _, stderr = invoke(t.Context(), "member", "replace", "c1", "c9", "9", "127.0.0.1:9", "--config",
		cluster); code != 0 || !strings.Contains(stderr, "nothing is left to change") {
		t.Errorf("asked for what is so: exit code %d, stderr %q", code, stderr)
	}
	for _, c := range []struct{ args, says string }{
		{"remove c7", `no member is called "c7"; there are [c1 c2 c3]`},
		{"remove c3", "not that one"},
		{"add c8",
			`no controller is called "c8" in the cluster file; there are [c1 c2 c3]; add it, or give its id and address as well`},
		{"add c8 x 127.0.0.1:8", `id "x": use a whole number from 1`},
	} {
		args := append(append([]string{"member"}, strings.Fields(c.args)...), "--config", cluster)
		if code, _, stderr := invoke(t.Context(), args...); code != exitFailed || !strings.Contains(stderr, c.says) {
			t.Errorf("%s: exit code %d, stderr %q, which does not say %q", c.args, code, stderr, c.says)
		}
	}
	if code, _, stderr := invoke(t.Context(), "member", "add", "a", "b"); code != exitUsage ||
		!strings.Contains(stderr, "accepts 1 arg(s), or 3 with ID and ADDRESS, received 2") {
		t.Errorf("exit code %d, stderr %q", code, stderr)
	}
}

func TestDrainCommand(t *testing.T) {
	asked := 0
	cluster := fakes(t, func(name, request, _ string) (connect.Code, any) {
		switch {
		case request == "Drain" && name == "c2":
			if asked++; asked == 1 {
				return connect.CodeUnavailable, refusal{Error: "soon"}
			}
			return 0, controller.Members{Leader: "c3"}
		case request == "Drain":
			return connect.CodeFailedPrecondition, refusal{Error: "nobody else can lead"}
		case name == "c2":
			return 0, three()
		}
		return connect.CodeFailedPrecondition, refusal{Error: "controller c2 leads", Leader: "c2"}
	})
	if code, out, stderr := invoke(t.Context(), "drain", "--config", cluster); code != 0 ||
		out != "c2 is drained until it is restarted; c3 leads\n" {
		t.Errorf("exit code %d, stderr %q, printed %q", code, stderr, out)
	}
	for who, says := range map[string]string{"c1": "nobody else can lead", "c9": "no controller is called"} {
		if code, _, stderr := invoke(t.Context(), "drain", who, "--config", cluster); code != exitFailed ||
			!strings.Contains(stderr, says) {
			t.Errorf("exit code %d, stderr %q", code, stderr)
		}
	}
}

// Only a controller that answers and knows a leader is healthy.
func TestHealthCommand(t *testing.T) {
	cluster := fakes(t, func(name, _, _ string) (connect.Code, any) {
		switch name {
		case "c1":
			return 0, controller.Status{Name: name, Role: "follower", Leader: "c2"}
		case "c2":
			return 0, controller.Status{Name: name, Role: "no leader"}
		}
		return connect.CodeUnavailable, refusal{Error: "the loop does not answer"}
	})
	if code, out, stderr := invoke(t.Context(), "health", "--config", cluster, "c1"); code != 0 ||
		out != "c1: follower; c2 leads\n" {
		t.Errorf("exit code %d, stderr %q, printed %q", code, stderr, out)
	}
	for who, says := range map[string]string{"c2": "knows no leader", "c3": "does not answer", "c9": "no controller is"} {
		if code, _, stderr := invoke(t.Context(), "health", "--config", cluster, who); code != exitFailed ||
			!strings.Contains(stderr, says) {
			t.Errorf("%s: exit code %d, stderr %q", who, code, stderr)
		}
	}
}

// TestInit: a folder is created once, and only for a controller of the cluster.
func TestInit(t *testing.T) {
	cluster := writeCluster(t, clusterText+"data: "+t.TempDir()+"\ndurability: memory\n")
	if code, out, stderr := invoke(t.Context(), "init", "--config", cluster, "--name", "c1"); code != 0 ||
		!strings.Contains(out, "the folder of controller c1, one of 1 of cluster holdfast") {
		t.Errorf("exit code %d, stderr %q, printed %q", code, stderr, out)
	}
	for name, says := range map[string]string{"c1": "holds a log already", "c2": "no controller is called"} {
		if code, _, stderr := invoke(t.Context(), "init", "--config", cluster, "--name", name); code != exitFailed ||
			!strings.Contains(stderr, says) {
			t.Errorf("%s: exit code %d, stderr %q", name, code, stderr)
		}
	}
}

// TestRegroupCommand: a folder is changed once, to several groups and only if the cluster file has them.
func TestRegroupCommand(t *testing.T) {
	text := clusterText + "data: " + t.TempDir() + "\ndurability: memory\n"
	one, several := writeCluster(t, text), writeCluster(t, text+"groups: per-controller\n")
	for _, c := range []struct {
		args, says string
		fails      bool
	}{
		{"regroup --name c1 --config " + several, "there is no log here", true},
		{"init --name c1 --config " + one, "is the folder of controller c1", false},
		{"regroup --name c1 --config " + one, "the cluster file has groups: 1", true},
		{"serve --name c1 --config " + several, "holdfast regroup changes it from 1 to per-controller", true},
		{"regroup --name c1 --config " + several, "c1 has several groups now", false},
		{"regroup --name c1 --config " + several, "c1 has several groups already", false},
		{"serve --name c1 --config " + one, "correct `groups` in the cluster file", true},
	} {
		code, out, stderr := invoke(t.Context(), strings.Fields(c.args)...)
		if (code != 0) != c.fails || !strings.Contains(out+stderr, c.says) {
			t.Errorf("%s: exit code %d, printed %q and %q, which do not say %q", c.args, code, out, stderr, c.says)
		}
	}
}

// writer is a function that is told what is written.
type writer func([]byte)

func (w writer) Write(b []byte) (int, error) { w(b); return len(b), nil }

// TestWaitingSaysForWhom: a command that waits for a cluster that is down says after a second what it waits for, and
// whom it asked.
func TestWaitingSaysForWhom(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), waiting.Limit)
	defer cancel()
	var said []byte // what it says before it is told to end
	root := Root()
	root.SetErr(writer(func(b []byte) { said = bytes.Clone(b); cancel() }))
	began := time.Now()
	execute(ctx, root, []string{"member", "list", "--config",
		writeCluster(t, strings.ReplaceAll(clusterText, "8653", "1"))}, io.Discard)
	const says = "holdfast: waiting for a controller that leads; c1: dial tcp 127.0.0.1:1: connect: connection " +
		"refused\n"
	if took := time.Since(began); string(said) != says || took < time.Second {
		t.Errorf("it says %q after %v", said, took)
	}
}
