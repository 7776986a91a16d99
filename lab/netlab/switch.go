package netlab

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/holdfast-sdn/holdfast/internal/address"
)

// schema is where Debian's openvswitch-common keeps the schema of the switch's database.
const schema = "/usr/share/openvswitch/vswitch.ovsschema"

// maxSwitches bounds the switches of a lab: their addresses share a /24 with Lab.Addr.
const maxSwitches = 250

// bridge is the name of the one bridge of a switch, within its namespace.
const bridge = "br0"

// Switch is an unmodified Open vSwitch with one bridge, which speaks OpenFlow 1.3, unless told otherwise, and, without
// a controller, forwards nothing (fail mode secure).
type Switch struct {
	Name       string
	DatapathID uint64
	Namespace  string     // of the network, for `ip netns exec`
	Management *Link      // over which it reaches its controllers
	Address    netip.Addr // in the management network

	dir string

	mu       sync.Mutex // guards the fields below
	database *process
	daemon   *process // nil while killed
	ports    int      // given so far; numbered from 1
	protocol string   // to controllers: "tcp" or "ssl"
	sockets  int      // links to Unix sockets of controllers so far
	version  string   // of OpenFlow, as ovs-vsctl names it
}

// AddSwitch starts a switch. It connects to no controller before SetControllers.
func (l *Lab) AddSwitch(name string, datapathID uint64) (*Switch, error) {
	if err := l.claim(name); err != nil {
		return nil, err
	}
	s := &Switch{Name: name, DatapathID: datapathID, Namespace: l.scoped(name), protocol: "tcp", version: "OpenFlow13",
		dir: filepath.Join(l.dir, name)}
	l.mu.Lock()
	l.switches = append(l.switches, s) // before it starts: Close stops whatever came up
	number := len(l.switches)
	l.mu.Unlock()
	if number > maxSwitches {
		return nil, fmt.Errorf("switch %s: the lab has %d already", name, maxSwitches)
	}
	s.Address = l.managementAddr(1 + number)
	for _, step := range []func() error{
		func() error { return addNamespace(s.Namespace) },
		func() error { return s.manage(l) },
		s.startDatabase,
		s.addBridge,
		s.Start,
	} {
		if err := step(); err != nil {
			return nil, fmt.Errorf("switch %s: %w", name, err)
		}
	}
	return s, nil
}

// manage plugs the switch into the management network.
func (s *Switch) manage(l *Lab) error {
	ours, theirs := end{device: l.scoped(s.Name)}, end{namespace: s.Namespace, device: "mgmt"}
	s.Management = &Link{a: ours, b: theirs, down: ours}
	if err := s.Management.plug(); err != nil {
		return err
	}
	return errors.Join(
		ours.ip("link", "set", ours.device, "master", l.scoped("mgmt")),
		theirs.ip("addr", "add", s.Address.String()+"/24", "dev", theirs.device))
}

func (s *Switch) startDatabase() error {
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return err
	}
	if _, err := run("ovsdb-tool", "create", s.path("conf.db"), schema); err != nil {
		return err
	}
	var err error
	s.database, err = start(s.dir, s.Namespace, "ovsdb-server", "--remote=punix:"+s.path("db.sock"),
		"--remote=db:Open_vSwitch,Open_vSwitch,manager_options", "--private-key=db:Open_vSwitch,SSL,private_key",
		"--certificate=db:Open_vSwitch,SSL,certificate",
		"--ca-cert=db:Open_vSwitch,SSL,ca_cert", "--unixctl="+s.path("db.ctl"),
		"--log-file="+s.path("ovsdb-server.log"), "-vconsole:err", "-vsyslog:off",
		s.path("conf.db"))
	if err != nil {
		return err
	}
	return s.database.waitFile(s.path("db.sock"))
}

func (s *Switch) addBridge() error {
	_, err := s.vsctl("--no-wait", "init", "--", "add-br", bridge, "--", "set", "bridge", bridge,
		"datapath_type=netdev", "protocols=OpenFlow13",
		"fail_mode=secure", fmt.Sprintf("other_config:datapath-id=%016x", s.DatapathID),
		"other_config:disable-in-band=true",
		fmt.Sprintf(`other_config:hwaddr="%s"`, s.portMAC(0)))
	return err
}

// Start starts the switch again after Kill. Its ports and controllers are as before, its
// flow table is empty.
func (s *Switch) Start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.daemon != nil {
		return fmt.Errorf("start switch %s: it runs", s.Name)
	}
	os.Remove(s.path(bridge + ".mgmt")) // of a killed one
	daemon, err := start(s.dir, s.Namespace, "ovs-vswitchd", "unix:"+s.path("db.sock"), "--unixctl="+s.Control(),
		"--log-file="+s.path("ovs-vswitchd.log"), "-vconsole:err", "-vsyslog:off")
	if err != nil {
		return err
	}
	s.daemon = daemon
	// The last thing that it makes, when the bridge and its ports are there.
	if err := daemon.waitFile(s.path(bridge + ".mgmt")); err != nil {
		return err
	}
	return quiet(s.Namespace, bridge)
}

// Kill ends the switch with SIGKILL, as a power cut would. Its configuration survives.
func (s *Switch) Kill() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.daemon.kill()
	s.daemon = nil
	return err
}

func (s *Switch) stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := errors.Join(s.daemon.stop(), s.database.stop())
	s.daemon, s.database = nil, nil
	return err
}

// SetTLS gives the switch its key, its certificate, and the authority that it trusts, as PEM files. SetControllers
// after that connects over TLS.
func (s *Switch) SetTLS(key, cert, ca string) error {
	if _, err := s.vsctl("set-ssl", key, cert, ca); err != nil {
		return fmt.Errorf("certificate of switch %s: %w", s.Name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.protocol = "ssl"
	return nil
}

// SetControllers makes the switch connect to exactly these addresses, which can be unix:PATH. After a lost connection
// it retries within a second: Open vSwitch allows no shorter back-off.
func (s *Switch) SetControllers(addresses ...string) error {
	var create, ids []string
	for i, a := range addresses {
		target, err := s.target(a)
		if err != nil {
			return fmt.Errorf("controllers of switch %s: %w", s.Name, err)
		}
		id := fmt.Sprintf("@c%d", i)
		ids = append(ids, id)
		create = append(create, "--", "--id="+id, "create", "controller", `target="`+target+`"`,
			"max_backoff=1000", "connection_mode=out-of-band")
	}
	args := append([]string{"set", "bridge", bridge, "controller=[" + strings.Join(ids, ",") + "]"}, create...)
	if _, err := s.vsctl(args...); err != nil {
		return fmt.Errorf("controllers of switch %s: %w", s.Name, err)
	}
	return nil
}

// target is how the switch names the address of a controller. Open vSwitch connects only to Unix sockets in its own
// folder, so a link is made there. Each has a new name, because Open vSwitch keeps the connection while the name is the
// same.
func (s *Switch) target(to string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	network, path := address.Of(to)
	if network != "unix" {
		return s.protocol + ":" + to, nil
	}
	s.sockets++
	link := fmt.Sprintf("controller%d.sock", s.sockets)
	return "unix:" + link, os.Symlink(path, s.path(link))
}

// SetVersion makes the switch use only one version of OpenFlow, such as "OpenFlow15". It reconnects.
func (s *Switch) SetVersion(version string) error {
	if _, err := s.vsctl("set", "bridge", bridge, "protocols="+version); err != nil {
		return fmt.Errorf("OpenFlow version of switch %s: %w", s.Name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version = version
	return nil
}

// Database is where the switch's database listens, as Open vSwitch writes it.
func (s *Switch) Database() string { return "unix:" + s.path("db.sock") }

// Control is the control socket of ovs-vswitchd, which `ovs-appctl --target` takes.
func (s *Switch) Control() string { return s.path("vswitchd.ctl") }

// SetManager makes the switch's database listen in the management network as well, as `ovs-vsctl set-manager` does: at
// "ptcp:6640" or, after SetTLS, "pssl:6640".
func (s *Switch) SetManager(target string) error {
	if _, err := s.vsctl("set-manager", target); err != nil {
		return fmt.Errorf("manager of switch %s: %w", s.Name, err)
	}
	return nil
}

// LimitFlows bounds the entries of a flow table; the switch refuses those beyond.
func (s *Switch) LimitFlows(table, entries int) error {
	if _, err := s.vsctl("--id=@t", "create", "flow_table", fmt.Sprintf("flow_limit=%d", entries),
		"overflow_policy=refuse",
		"--", "set", "bridge", bridge, fmt.Sprintf("flow_tables:%d=@t", table)); err != nil {
		return fmt.Errorf("flow table %d of switch %s: %w", table, s.Name, err)
	}
	return nil
}

// Flows returns the flow entries, one line each, as ovs-ofctl prints them without counters.
func (s *Switch) Flows() ([]string, error) {
	out, err := s.OFCtl("dump-flows", "--no-stats")
	if err != nil {
		return nil, err
	}
	var flows []string
	for line := range strings.Lines(out) {
		if line = strings.TrimSpace(line); line != "" {
			flows = append(flows, line)
		}
	}
	return flows, nil
}

// OFCtl runs `ovs-ofctl COMMAND switch ARGS…` in the switch's OpenFlow version, over the switch's own management
// socket: it needs no controller and works beside one.
func (s *Switch) OFCtl(command string, args ...string) (string, error) {
	s.mu.Lock()
	version := s.version
	s.mu.Unlock()
	out, err := run("ovs-ofctl", append([]string{"-O", version, command, "unix:" + s.path(bridge+".mgmt")}, args...)...)
	if err != nil {
		return "", fmt.Errorf("switch %s: %w", s.Name, err)
	}
	return out, nil
}

// NextPort sets the port that the next cable is plugged into, which must be beyond those in use. Without it ports are
// used one after the other, from 1 on.
func (s *Switch) NextPort(port int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ports = port - 1
}

func (s *Switch) newEnd() (end, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ports++
	return end{namespace: s.Namespace, device: fmt.Sprintf("p%d", s.ports), port: s.ports}, nil
}

func (s *Switch) attach(e end) error {
	if err := e.ip("link", "set", e.device, "address", s.portMAC(e.port)); err != nil {
		return err
	}
	_, err := s.vsctl("add-port", bridge, e.device, "--", "set", "interface", e.device,
		fmt.Sprintf("ofport_request=%d", e.port))
	if err != nil {
		return err
	}
	got, err := s.vsctl("get", "interface", e.device, "ofport")
	if err == nil && strings.TrimSpace(got) != fmt.Sprint(e.port) {
		err = fmt.Errorf("switch %s: port %d came up as %s", s.Name, e.port, strings.TrimSpace(got))
	}
	return err
}

// portMAC is an address that depends only on switch and port, so that labs that are built alike are alike; port 0 is
// the bridge itself.
func (s *Switch) portMAC(port int) string {
	return net.HardwareAddr{2, 1, byte(s.DatapathID >> 8), byte(s.DatapathID), byte(port >> 8), byte(port)}.String()
}

// vsctl changes the configuration and waits until the switch has taken it.
func (s *Switch) vsctl(args ...string) (string, error) {
	return run("ovs-vsctl", append([]string{"--db=" + s.Database(), "--timeout=10", "--retry"}, args...)...)
}

func (s *Switch) path(file string) string { return filepath.Join(s.dir, file) }
