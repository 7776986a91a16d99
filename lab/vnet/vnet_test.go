package vnet

import (
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/lab/vswitch"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// flooding starts a network whose switches flood every packet.
func flooding(t *testing.T, topology string) *Network {
	t.Helper()
	n, err := New(Config{Topology: topology})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	flood := of13.FlowMod{BufferID: of13.NoBuffer, OutPort: of13.PortAny, OutGroup: of13.GroupAny,
		Instructions: of13.Instructions(nil).Apply(of13.Actions(nil).Output(of13.PortFlood, 0))}
	hello := of13.Hello{}
	for _, s := range n.switches {
		s.Do(func(s *vswitch.Switch, now time.Duration) {
			const conn = 1 << 40 // none that the runner gives
			s.Open(now, conn)
			s.Message(now, conn, hello.Append(nil, 1))
			s.Message(now, conn, flood.Append(nil, 2))
		})
	}
	return n
}

// said runs commands and returns what was printed, with a time as T.
func said(t *testing.T, n *Network, commands ...string) string {
	t.Helper()
	var out strings.Builder
	if err := n.Console(t.Context(), strings.NewReader(strings.Join(commands, "\n")), &out); err != nil {
		t.Fatal(err)
	}
	text := strings.TrimSuffix(strings.ReplaceAll(out.String(), Prompt, ""), "\n")
	return regexp.MustCompile(`\d+\.\d ms`).ReplaceAllString(text, "T ms")
}

func TestPings(t *testing.T) {
	t.Parallel()
	for topology, pings := range map[string]string{"single,3": "6", "linear,4": "12"} {
		n := flooding(t, topology)
		want := pings + " sent, " + pings + " answered, 0 lost; slowest answer T ms\n"
		if got := said(t, n, "pingall"); got != want {
			t.Errorf("%s: pingall said %q, want %q", topology, got, want)
		}
	}
	n := flooding(t, "linear,3")
	if got := said(t, n, "nodes"); !strings.Contains(got, "s3  datapath id 0000000000000003\n"+
		"h1  10.0.0.1  02:00:00:00:00:01\n") {
		t.Errorf("nodes said %q", got)
	}
	for _, tc := range []struct{ commands, want string }{
		{"ping h1 h3 1", "h1 to h3: 1 sent, 1 answered, 0 lost; slowest answer T ms\n"},
		{"link s3 s2 down\nlinks\nlink s2 s3 up\nping h3 h1 2",
			"h1 s1 up\nh2 s2 up\ns1 s2 up\nh3 s3 up\ns2 s3 down\n" +
				"h3 to h1: 2 sent, 2 answered, 0 lost; slowest answer T ms\n"},
		{"link h1 s1 down\nping h1 h2", "h1 asked 3 times by ARP for 10.0.0.2, and has no answer\n"},
	} {
		if got := said(t, n, strings.Split(tc.commands, "\n")...); got != tc.want {
			t.Errorf("%s: said\n%swant\n%s", tc.commands, got, tc.want)
		}
	}
}

// A host that does not answer by ARP is lost for pingall, which pings the others, and leaves no counts behind.
func TestPingAllLosesAHost(t *testing.T) {
	t.Parallel()
	one := func(from, to string) string {
		return from + " to " + to + ": 1 sent, 1 answered, 0 lost; slowest answer T ms\n"
	}
	n := flooding(t, "single,3")
	got := said(t, n, "ping h2 h1 1", "ping h2 h3 1", "ping h3 h2 1", // all but one need no ARP: it is slow
		"link h2 s1 down", "pingall", "link h2 s1 up", "ping h1 h2 1", "ping h3 h1 1")
	want := one("h2", "h1") + one("h2", "h3") + one("h3", "h2") +
		"6 sent, 2 answered, 4 lost; slowest answer T ms\n" + one("h1", "h2") + one("h3", "h1")
	if got != want {
		t.Errorf("said\n%swant\n%s", got, want)
	}
}

// Traffic runs beside the console until it is stopped, and what is lost meanwhile is counted.
func TestTraffic(t *testing.T) {
	t.Parallel()
	n := flooding(t, "linear,2")
	in, commands := io.Pipe()
	defer commands.Close() // ends the reader
	var out strings.Builder
	ended := make(chan error, 1)
	go func() { ended <- n.Console(t.Context(), in, &out) }()
	count := func() (answered, waiting int) {
		n.hosts[0].mu.Lock()
		defer n.hosts[0].mu.Unlock()
		return n.hosts[0].answered, len(n.hosts[0].waiting)
	}
	say := func(command string) {
		if _, err := io.WriteString(commands, command+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	say("start")
	await.Until(t, "ten answers", func() bool { answered, _ := count(); return answered >= 10 })
	say("ping h1 h2")
	say("link s1 s2 down")
	await.Until(t, "lost pings", func() bool { _, lost := count(); return lost > 5 })
	say("link s1 s2 up")
	before, _ := count()
	await.Until(t, "more answers", func() bool { answered, _ := count(); return answered > before })
	say("stop")
	say("exit")
	if err := await.End(t, "the console", ended); err != nil {
		t.Fatal(err)
	}
	want := regexp.MustCompile(`^2 hosts ping each other\n` + errTraffic.Error() + `\n` +
		`\d+ sent, \d+ answered, ([5-9]|\d\d+) lost; slowest answer \d+\.\d ms\n$`)
	if got := strings.ReplaceAll(out.String(), Prompt, ""); !want.MatchString(got) {
		t.Errorf("the console said %q", got)
	}
}

func TestMistakes(t *testing.T) {
	for _, topology := range []string{"", "ring", "ring,2", "single,0", "linear,251", "tree,2", "linear,x"} {
		if _, err := New(Config{Topology: topology}); err == nil {
			t.Errorf("a network of topology %q starts", topology)
		}
	}
	n := flooding(t, "ring,3")
	for _, tc := range []struct{ command, want string }{
		{"pong", "there is no command pong: see help"},
		{"ping h1", "use ping h1 h2, or ping h1 h2 COUNT"},
		{"ping h1 h4", "there is no host h4: there are h1 to h3"},
		{"ping h1 h2 0", "0 pings: use 1 to 10000"},
		{"link s1 h2 down", "there is no link between s1 and h2: see links"},
		{"link s1 s3 off", "use link s1 s2 down, or up"},
		{"stop", "no traffic runs: start it first"},
		{"", ""},
	} {
		if got := said(t, n, tc.command); strings.TrimSpace(got) != tc.want {
			t.Errorf("%s: said %q, want %q", tc.command, got, tc.want)
		}
	}
}
