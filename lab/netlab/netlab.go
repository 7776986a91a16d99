// Package netlab builds small real networks on one Linux machine: Open vSwitch in its
// userspace datapath, hosts as network namespaces, veth pairs as cables. Tests and the
// demo pull the cables, kill the switches and watch the pings.
//
// A lab is self-contained: every switch has its own ovsdb-server and ovs-vswitchd, with files in the lab's folder, so
// it needs neither the system's Open vSwitch service nor its kernel module. Everything ends with Close. If the process
// is killed, the daemons die with it, and the next lab on this machine removes its devices and namespaces.
//
// Each switch and each host is a namespace. The switches reach controllers and agents over a
// management network, in which this machine has the address Lab.Addr: let these listen there. Devices
// and namespaces are named hfN-…, where N is the number of the lab, which a lock file guards.
package netlab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// maxLabs bounds the labs alive on one machine: each has a /24 of 198.18.0.0/15, which RFC 2544 reserves for tests of
// networks.
const maxLabs = 511

// commandTimeout bounds every command that a lab runs; a slow one takes 20 ms.
const commandTimeout = 20 * time.Second

const lockDir = "/run/lock/holdfast-netlab"

// Lab is one network. One goroutine builds and closes it; its switches, hosts and links may meanwhile
// be used from several.
type Lab struct {
	number int
	dir    string
	lock   *os.File

	mu       sync.Mutex // guards the fields below
	closed   bool
	switches []*Switch
	names    map[string]bool
}

// Available returns nil if labs work here, else an error that says what to do.
func Available() error {
	if os.Geteuid() != 0 {
		return errors.New("network namespaces need root: run as root or with sudo")
	}
	for _, c := range []struct{ command, pkg string }{
		{"ip", "iproute2"}, {"tc", "iproute2"}, {"ovs-vswitchd", "openvswitch-switch"},
		{"ovsdb-server", "openvswitch-switch"}} {
		if _, err := exec.LookPath(c.command); err != nil {
			return fmt.Errorf("%s is not installed: apt-get install openvswitch-switch iproute2 (it is in %s)",
				c.command, c.pkg)
		}
	}
	return nil
}

// New starts an empty lab that keeps its files in dir. First it removes what dead labs left.
func New(dir string) (*Lab, error) {
	if err := Available(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(lockDir, 0o755); err != nil {
		return nil, fmt.Errorf("make the folder of lab locks: %w", err)
	}
	if err := sweep(); err != nil {
		return nil, err
	}
	for n := 1; n <= maxLabs; n++ {
		lock, err := tryLock(fmt.Sprint(n))
		if err != nil {
			return nil, err
		}
		if lock == nil {
			continue
		}
		l := &Lab{number: n, dir: dir, lock: lock, names: map[string]bool{"mgmt": true}}
		if err := l.manage(); err != nil {
			return nil, errors.Join(err, l.Close())
		}
		return l, nil
	}
	return nil, fmt.Errorf("%d labs are alive on this machine: close some", maxLabs)
}

// Addr is the address of this machine in the management network.
func (l *Lab) Addr() netip.Addr { return l.managementAddr(1) }

func (l *Lab) managementAddr(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{198, byte(18 + l.number>>8), byte(l.number), byte(i)})
}

// scoped is name made unique on this machine.
func (l *Lab) scoped(name string) string { return fmt.Sprintf("hf%d-%s", l.number, name) }

// manage makes the management network: a bridge, into which AddSwitch plugs the switches.
func (l *Lab) manage() error {
	bridge := end{device: l.scoped("mgmt")}
	if err := bridge.ip("link", "add", "name", bridge.device, "type", "bridge"); err != nil {
		return err
	}
	return errors.Join(
		quiet("", bridge.device),
		bridge.ip("addr", "add", l.Addr().String()+"/24", "dev", bridge.device),
		bridge.ip("link", "set", bridge.device, "up"))
}

// Close stops the switches and removes all devices and namespaces of the lab. It may be called again.
func (l *Lab) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	var errs []error
	for _, s := range l.switches {
		errs = append(errs, s.stop())
	}
	errs = append(errs, removeAll(l.scoped("")))
	errs = append(errs, l.lock.Close())
	return errors.Join(errs...)
}

var validName = regexp.MustCompile(`^[a-z][a-z0-9]{0,7}$`)

// claim reserves the name of a switch or host.
func (l *Lab) claim(name string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return fmt.Errorf("add %s: the lab is closed", name)
	case !validName.MatchString(name):
		return fmt.Errorf("name %q: use at most 8 of a-z and 0-9, a letter first: device names are short", name)
	case l.names[name]:
		return fmt.Errorf("name %q is taken in this lab", name)
	}
	l.names[name] = true
	return nil
}

// tryLock returns the locked file of lab n, or nil if another process holds the lock. The kernel releases it when the
// holder dies.
func tryLock(n string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(lockDir, n), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open the lock of lab %s: %w", n, err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if err == unix.EWOULDBLOCK {
			return nil, nil
		}
		return nil, fmt.Errorf("lock lab %s: %w", n, err)
	}
	return f, nil
}

var labDevice = regexp.MustCompile(`^hf([0-9]{1,3})-`)

// sweep removes the leftovers of labs whose process is dead.
func sweep() error {
	devices, namespaces, err := inventory("hf")
	if err != nil {
		return err
	}
	var errs []error
	seen := map[string]bool{}
	for _, name := range append(devices, namespaces...) {
		m := labDevice.FindStringSubmatch(name)
		if m == nil || seen[m[1]] {
			continue
		}
		seen[m[1]] = true
		lock, err := tryLock(m[1])
		if lock != nil {
			err = removeAll(m[0])
			lock.Close()
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// removeAll removes all devices and namespaces whose names begin with prefix. Both ends of a
// veth pair go at once, so a device that is not there any more is no error.
func removeAll(prefix string) error {
	devices, namespaces, err := inventory(prefix)
	if err != nil {
		return err
	}
	for _, d := range devices {
		run("ip", "link", "del", d) // its success is checked below, for all
	}
	for _, n := range namespaces {
		run("ip", "netns", "del", n)
	}
	devices, namespaces, err = inventory(prefix)
	if left := append(devices, namespaces...); len(left) > 0 {
		return fmt.Errorf("still there: %s: remove them with `ip link del` or `ip netns del`", strings.Join(left, ", "))
	}
	return err
}

// inventory returns the devices and namespaces whose names begin with prefix.
func inventory(prefix string) (devices, namespaces []string, err error) {
	links, err := run("ip", "-o", "link", "show")
	if err != nil {
		return nil, nil, err
	}
	for line := range strings.Lines(links) { // 7: hf1-s1-1@if2: <BROADCAST,…
		if f := strings.Fields(line); len(f) > 1 {
			name, _, _ := strings.Cut(strings.TrimSuffix(f[1], ":"), "@")
			if strings.HasPrefix(name, prefix) {
				devices = append(devices, name)
			}
		}
	}
	list, err := run("ip", "netns", "list")
	if err != nil {
		return nil, nil, err
	}
	for line := range strings.Lines(list) { // hf1-h1 (id: 3)
		if f := strings.Fields(line); len(f) > 0 && strings.HasPrefix(f[0], prefix) {
			namespaces = append(namespaces, f[0])
		}
	}
	return devices, namespaces, nil
}

// run runs a command to its end and returns its standard output.
func run(name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), commandTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}
