package command

import (
	"context"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	waiting "github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/internal/mtls"
	"github.com/holdfast-sdn/holdfast/internal/pki"
)

// authority creates an authority by the command line, with certificates for "ROLE NAME".
func authority(t *testing.T, holders ...string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "pki")
	must(t, "pki", "init", "--dir", dir)
	for _, h := range holders {
		must(t, append([]string{"pki", "issue", "--dir", dir}, strings.Fields(h)...)...)
	}
	return dir
}

func must(t *testing.T, args ...string) string {
	t.Helper()
	code, out, stderr := invoke(t.Context(), args...)
	if code != 0 {
		t.Fatalf("%v: %s", args, stderr)
	}
	return out
}

// tlsCluster returns clusterText with TLS and the authority in dir.
func tlsCluster(t *testing.T, dir string) string {
	return writeCluster(t, clusterText+"tls:\n  ca: "+dir+"/ca.pem\n  cert: "+dir+"/{name}.pem\n  key: "+dir+
		"/{name}-key.pem\n")
}

func TestPKI(t *testing.T) {
	dir := authority(t, "controller c1")
	if out := must(t, "pki", "issue", "switch", "s1", "--dir", dir); !strings.Contains(out,
		"ovs-vsctl set-ssl "+dir+"/s1-key.pem "+dir+"/s1.pem "+dir+"/ca.pem") {
		t.Errorf("issued for a switch, it does not say what Open vSwitch needs:\n%s", out)
	}
	if out := must(t, "pki", "renew", "c1", "--days", "30", "--dir", dir); out != dir+"/c1.pem  renewed for 30 days\n" {
		t.Errorf("renewed: %s", out)
	}
	for want, args := range map[string][]string{
		"holdfast: " + dir + "/ca-key.pem is there already, and is not overwritten\n": {"init"},
		"holdfast: " + dir + "/c1-key.pem is there already, and is not overwritten\n": {"issue",
			"agent", "c1"},
		"holdfast: unknown role \"root\"; known: controller, agent, switch, viewer, operator, admin, client\n": {"issue",
			"root", "x"},
		"holdfast: open " + dir + "/c2.pem: no such file or directory\n": {"renew",
			"c2"},
		"holdfast: accepts 2 arg(s), received 1 (see `holdfast pki issue --help`)\n": {"issue",
			"agent"},
		"holdfast: address \"10.0.0.1:1\": use an IP address or a host name, without a port\n": {"issue",
			"agent", "a1", "--address", "10.0.0.1:1"},
		"holdfast: \"ca\" is not the name of a certificate that was issued\n": {"renew",
			"ca"},
		"holdfast: unknown flag: --force (see `holdfast pki init --help`)\n": {"init",
			"--force"},
		"holdfast: 0 days: use 1 to 3650\n": {"issue", "agent", "a1", "--days", "0"},
		"holdfast: name \"C 1\": use at most 63 of a-z, 0-9, - and _, beginning with a letter or digit\n": {"issue",
			"agent", "C 1"},
	} {
		code, _, stderr := invoke(t.Context(), append(append([]string{"pki"}, args...), "--dir", dir)...)
		if code == 0 || stderr != want {
			t.Errorf("%v: exit code %d, stderr\n got %swant %s", args, code, stderr, want)
		}
	}
}

// A process whose certificates are invalid reports that when it starts.
func TestTLSMistakes(t *testing.T) {
	dir := authority(t, "controller c1", "switch agent")
	cluster := tlsCluster(t, dir)
	for _, tc := range []struct {
		name, want string
		args       []string
	}{
		{"agent with a switch's certificate", "it is that of switch agent, and agent is expected here",
			[]string{"agent", "--config", cluster, "--listen", "127.0.0.1:0"}},
		{"agent without one", "no such file", []string{"agent", "--config", cluster, "--listen", "127.0.0.1:0",
			"--name",
			"a1"}},
		{"plain switches from everywhere", "anybody in the network could be a switch",
			[]string{"agent", "--config", cluster, "--listen", "0.0.0.0:0", "--plain-switches", "--name", "c1"}},
		{"switch at a socket with a certificate", "does not speak TLS", []string{"vswitch", "--dpid", "1", "--controller",
			"unix:/s", "--ca", dir + "/ca.pem", "--cert", dir + "/s1.pem", "--key", dir + "/s1-key.pem"}},
		{"operator without one", "no such file", []string{"status", "--config", cluster}},
		{"switch with a controller's", "it is that of controller c1, and switch is expected here",
			[]string{"vswitch", "--dpid", "1", "--controller", "127.0.0.1:1", "--ca", dir + "/ca.pem", "--cert",
				dir + "/c1.pem", "--key", dir + "/c1-key.pem"}},
		{"switch without a key", "if any flags in the group [ca cert key] are set they must all be set",
			[]string{"vswitch", "--dpid", "1", "--controller", "127.0.0.1:1", "--ca", dir + "/ca.pem"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			code, _, stderr := invoke(t.Context(), tc.args...)
			if code == 0 || !strings.Contains(stderr, tc.want) || strings.Count(stderr, "\n") != 1 {
				t.Errorf("exit code %d, stderr\n got %swant %s", code, stderr, tc.want)
			}
		})
	}
}

// The software switch connects over TLS to an agent of its authority.
func TestVswitchTLS(t *testing.T) {
	dir := authority(t, "agent a1", "switch s1")
	agent, err := mtls.Load(mtls.Files{CA: dir + "/ca.pem", Cert: dir + "/a1.pem", Key: dir + "/a1-key.pem"},
		mtls.Role(pki.Agent), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := agent.Listener(raw, mtls.Role(pki.Switch))
	defer l.Close()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan int)
	go func() {
		code, _, _ := invoke(ctx, "vswitch", "--dpid", "1", "--ports", "1", "--controller", raw.Addr().String(),
			"--log-level", "error",
			"--ca", dir+"/ca.pem", "--cert", dir+"/s1.pem", "--key", dir+"/s1-key.pem")
		ended <- code
	}()
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(waiting.Limit)); err != nil {
		t.Fatal(err)
	}
	hello := make([]byte, 2)
	if _, err := conn.Read(hello); err != nil || hello[1] != 0 {
		t.Errorf("the switch says %x, %v", hello, err)
	}
	if id, err := mtls.Peer(conn); err != nil || id.Name != "s1" {
		t.Errorf("it is %v, %v", id, err)
	}
	cancel()
	if code := <-ended; code != 0 {
		t.Errorf("exit code %d", code)
	}
}
