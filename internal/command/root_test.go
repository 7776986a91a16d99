package command

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	waiting "github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/spf13/cobra"
)

// commands calls f for cmd and all commands below it.
func commands(cmd *cobra.Command, f func(*cobra.Command)) {
	f(cmd)
	for _, c := range cmd.Commands() {
		commands(c, f)
	}
}

func TestEveryCommandExplainsItself(t *testing.T) {
	commands(Root(), func(c *cobra.Command) {
		for what, text := range map[string]string{"Short": c.Short, "Long": c.Long, "Example": c.Example} {
			if text == "" {
				t.Errorf("%q has no %s text", c.CommandPath(), what)
			}
		}
		if c.Example != "" && !strings.Contains(c.Example, c.CommandPath()) {
			t.Errorf("the example of %q does not call it", c.CommandPath())
		}
		if !c.HasSubCommands() && c.Args == nil {
			t.Errorf("%q does not check its arguments", c.CommandPath())
		}
	})
}

// invoke runs a command line and returns the exit code and both outputs.
func invoke(ctx context.Context, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	root := Root()
	root.SetOut(&out)
	root.SetErr(&errs)
	code = execute(ctx, root, args, &errs)
	return code, out.String(), errs.String()
}

func TestExitCodes(t *testing.T) {
	for _, tc := range []struct {
		args   string
		code   int
		stderr string
	}{
		{"", 0, ""},
		{"--help", 0, ""},
		{"config", 0, ""},
		{"config check --help", 0, ""},
		{"versoin", 2, "holdfast: unknown command \"versoin\" for \"holdfast\" Did you mean this? version (see " +
			"`holdfast --help`)\n"},
		{"config chekc", 2, "holdfast: unknown command \"chekc\" for \"holdfast config\" (see `holdfast config " +
			"--help`)\n"},
		{"config check", 2, "holdfast: accepts 1 arg(s), received 0 (see `holdfast config check --help`)\n"},
		{"version --loud", 2, "holdfast: unknown flag: --loud (see `holdfast version --help`)\n"},
		{"agent", 2, "holdfast: at least one of the flags in the group [config controllers] is required (see " +
			"`holdfast agent --help`)\n"},
		{"agent --config a --controllers b", 2, "holdfast: if any flags in the group [config controllers] are set " +
			"none of the others can be; [config controllers] were all set (see `holdfast agent --help`)\n"},
		{"agent --controllers 10.0.0.1", 1,
			"holdfast: controller address \"10.0.0.1\": write it like 127.0.0.1:6653\n"},
		{"agent --controllers 10.0.0.1:70000", 1, "holdfast: controller address \"10.0.0.1:70000\": write it like " +
			"127.0.0.1:6653\n"},
		{"agent --controllers=", 1, "holdfast: no controller address: write it like 127.0.0.1:6653\n"},
		{"bench throughptu", 2, "holdfast: unknown command \"throughptu\" for \"holdfast bench\" (see `holdfast " +
			"bench --help`)\n"},
		{"bench throughput --replicas 2", 1, "holdfast: --replicas 2: use odd numbers from 1 to 9; an even one " +
			"survives no more failures\n"},
		{"bench throughput --durability foo", 1, "holdfast: --durability \"foo\": use memory or disk\n"},
		{"bench throughput --switches 0", 1, "holdfast: --switches 0: use 1 to 4096\n"},
		{"bench throughput --window 0", 1, "holdfast: --window 0: use 1 to 16384\n"},
		{"bench throughput --seconds 0", 1, "holdfast: --seconds 0: use 1 to 3600\n"},
		{"bench hops --packets 0", 1, "holdfast: --packets 0: use 1 to 1000000\n"},
		{"bench hops --durability memory,foo", 1, "holdfast: --durability \"foo\": use memory or disk\n"},
		{"bench failover --kills -1", 1, "holdfast: --kills -1: use 1 to 10000\n"},
		{"bench failover --durability foo", 1, "holdfast: --durability \"foo\": use memory or disk\n"},
		{"agent --controllers 10.0.0.1:1 --log-level loud", 1,
			"holdfast: log level \"loud\": use debug, info, warn or error\n"},
		{"agent --controllers 10.0.0.1:1 --listen 0.0.0.0:0", 1, "holdfast: listen for switches at 0.0.0.0:0 without " +
			"TLS: anybody in the network could be a switch; listen on a loopback address, use tls also for switches, or " +
			"write `insecure: true` into a cluster file that has no tls (without a file: --insecure)\n"},
		{"config check /nonexistent", 1, "holdfast: /nonexistent: cannot open: no such file or directory; name an " +
			"existing file that you may read\n"},
	} {
		t.Run(tc.args, func(t *testing.T) {
			code, _, stderr := invoke(t.Context(), strings.Fields(tc.args)...)
			if code != tc.code || stderr != tc.stderr {
				t.Errorf("exit code %d, want %d; stderr:\n got %swant %s", code, tc.code, stderr, tc.stderr)
			}
		})
	}
}

func TestVersion(t *testing.T) {
	for _, args := range [][]string{{"version"}, {"--version"}} {
		code, out, stderr := invoke(t.Context(), args...)
		if code != 0 || stderr != "" || !strings.HasPrefix(out, "holdfast ") || strings.Count(out, "\n") != 1 ||
			!strings.Contains(out, " go1.") {
			t.Errorf("%v: exit code %d, printed %q and %q", args, code, out, stderr)
		}
	}
}

const clusterText = `controllers:
  - name: c1
    peer: 127.0.0.1:7001
    openflow: 127.0.0.1:6653
    api: 127.0.0.1:8653
    id: 1
`

func writeCluster(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "cluster.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestConfigCheck(t *testing.T) {
	code, out, stderr := invoke(t.Context(), "config", "check", writeCluster(t, clusterText))
	want := `CONTROLLER  ID  PEER            OPENFLOW        API             REST  DATA
c1          1   127.0.0.1:7001  127.0.0.1:6653  127.0.0.1:8653  -     /var/lib/holdfast/c1

cluster          holdfast
apps             learning
groups           1
durability       disk
heartbeat        10ms
election         50ms
switch timeout   3s
handler timeout  5s
agent heartbeat  100ms
tls              none: plain TCP
`
	if code != 0 || out != want || stderr != "" {
		t.Errorf("exit code %d, stderr %q, printed\n%s", code, stderr, out)
	}

	five := "controllers:\n"
	for i := 1; i <= 5; i++ {
		five += fmt.Sprintf("- {name: c%[1]d, id: %[1]d, peer: \"h%[1]d:7001\", openflow: \"h%[1]d:6653\", "+
			"api: \"h%[1]d:8653\"}\n", i)
	}
	five = writeCluster(t, five+"groups: per-controller\nreplication: 3\ninsecure: true\n")
	code, out, _ = invoke(t.Context(), "config", "check", five)
	for _, line := range []string{"groups 6: one of each controller, and the system group",
		"replication 3: a group works while 2 of its 3 controllers run and reach each other",
		"group 0, system on c1, c2, c3, c4, c5", "group 2, home c2 on c2, c3, c4"} {
		if code != 0 || !strings.Contains(strings.Join(strings.Fields(out), " "), line) {
			t.Errorf("exit code %d, no line %q in\n%s", code, line, out)
		}
	}

	bad := writeCluster(t, clusterText+"apps: [lerning]\n")
	code, out, stderr = invoke(t.Context(), "config", "check", bad)
	want = "holdfast: " + bad + ":7: unknown app \"lerning\"; did you mean \"learning\"? (known: " +
		"balancer, burst, devices, edge, exchange, firewall, flock, graph, hub, kandoo, kandoo-central, kv, " +
		"learning, liveness, monitor, node, path, queue, recovery, router, store, tenants, topology, valiant); an " +
		"application of your own is in your program: use that in place of holdfast\n"
	if code != 1 || out != "" || stderr != want {
		t.Errorf("exit code %d, printed %q, stderr\n got %swant %s", code, out, stderr, want)
	}
}

// TestConfigCheckMachine: it finds on this machine what would keep a controller from starting, in the words with which
// that fails.
func TestConfigCheckMachine(t *testing.T) {
	dir := t.TempDir()
	tls := "tls: {ca: " + dir + "/ca.pem, cert: \"" + dir + "/{name}.pem\", key: \"" + dir + "/{name}-key.pem\"}\n"
	for _, c := range []struct{ name, text, says string }{
		{"two that forward", "apps: [recovery, learning]\n", "recovery and learning both forward packets"},
		{"no Python", "apps: [./mine.py]\nryu: {python: " + dir + "/python9}\n", "there is no " + dir + "/python9"},
		{"no tokens", "tokens: " + dir + "/tokens\n", "`holdfast token add` makes the file"},
		{"no certificates", tls, "no controller has its certificate on this machine: tls: "},
	} {
		file := writeCluster(t, clusterText+"data: "+dir+"\n"+c.text)
		code, out, stderr := invoke(t.Context(), "config", "check", file)
		if code != exitFailed || !strings.Contains(stderr, c.says) || !strings.Contains(out, "CONTROLLER") {
			t.Errorf("%s: exit code %d, printed %q, stderr %q", c.name, code, out, stderr)
		}
		code, out, _ = invoke(t.Context(), "config", "check", file, "--json")
		var sum summary
		if err := json.Unmarshal([]byte(out), &sum); err != nil || code != exitFailed || len(sum.Problems) != 1 ||
			!strings.Contains(sum.Problems[0], c.says) {
			t.Errorf("%s: exit code %d, %v, printed %s", c.name, code, err, out)
		}
		if c.name == "no certificates" {
			continue // with the name of the controller, the words differ
		}
		if code, _, started := invoke(t.Context(), "serve", "--config", file, "--name", "c1"); code != exitFailed ||
			started != stderr {
			t.Errorf("%s: check says %q, and a start %q", c.name, stderr, started)
		}
	}
	_, _, checked := invoke(t.Context(), "config", "check", "--name", "c1", writeCluster(t, clusterText+tls))
	if !strings.Contains(checked, dir+"/ca.pem: no such file") {
		t.Errorf("no TLS files: %q", checked)
	}
}

// The cluster file in the help is valid.
func TestConfigHelpIsValid(t *testing.T) {
	_, text, _ := strings.Cut(configCommand().Long, "\n\n")
	if _, err := loadCluster(writeCluster(t, text)); err != nil {
		t.Error(err)
	}
}

// The agent completes the handshake with a switch, and ends without an error when it is told to.
func TestAgent(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := busy.Addr().String()
	code, _, stderr := invoke(t.Context(), "agent", "--listen", address, "--controllers", "127.0.0.1:1")
	if want := "holdfast: listen for switches: listen tcp " + address +
		": bind: address already in use: free the address or choose another with --listen\n"; code != 1 ||
		stderr != want {
		t.Errorf("exit code %d, stderr\n got %swant %s", code, stderr, want)
	}
	busy.Close()

	agentServes(t, "tcp", address, "--listen", address, "--config", writeCluster(t, clusterText))
	secure := tlsCluster(t, authority(t, "agent a1"))
	agentServes(t, "unix", secure+".sock", "--listen", "unix:"+secure+".sock", "--config", secure, "--name", "a1")
}

// agentServes starts an agent and says hello to it without TLS.
func agentServes(t *testing.T, network, at string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan int)
	go func() {
		code, _, _ := invoke(ctx, slices.Concat([]string{"agent", "--log-level", "error"}, args)...)
		ended <- code
	}()
	var conn net.Conn
	waiting.Until(t, "the agent to listen", func() (is bool) {
		var err error
		conn, err = net.Dial(network, at)
		return err == nil
	})
	defer conn.Close()
	conn.Write([]byte{4, 0, 0, 8, 0, 0, 0, 1}) // HELLO
	hello := make([]byte, 2)
	conn.SetReadDeadline(time.Now().Add(waiting.Limit))
	if _, err := conn.Read(hello); err != nil || hello[1] != 0 {
		t.Errorf("the agent says %x, %v", hello, err)
	}
	cancel()
	if code := <-ended; code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// A command that was ended by a signal reports that, and fails.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	root := &cobra.Command{Use: "work", SilenceErrors: true, SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Context().Err() }}
	var stderr bytes.Buffer
	if code := execute(ctx, root, []string{}, &stderr); code != exitInterrupted ||
		stderr.String() != "holdfast: interrupted (context canceled)\n" {
		t.Errorf("exit code %d, stderr %q", code, stderr.String())
	}
}
