package netlab

import (
	"errors"
	"fmt"
	"sync"
)

// Node is a *Switch or a *Host.
type Node interface {
	// newEnd allocates the end of a cable.
	newEnd() (end, error)
	// attach is called when the cable's device exists.
	attach(end) error
}

// end is one end of a cable.
type end struct {
	namespace string // "" is ours
	device    string
	port      int // at a switch; 0 at a host
}

// Link is a cable between two nodes.
type Link struct {
	// PortA and PortB are the OpenFlow port numbers at the two nodes, in the order in
	// which Connect got them; 0 at a host.
	PortA, PortB int

	a, b end
	down end // the end that Cut takes down

	mu          sync.Mutex // guards the fields below
	cut, silent bool
}

// Connect plugs a cable between a and b, at most one of which is a host. A host takes one cable.
func (l *Lab) Connect(a, b Node) (*Link, error) {
	k, err := connect(a, b)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	return k, nil
}

func connect(a, b Node) (*Link, error) {
	k := &Link{}
	var err error
	if k.a, err = a.newEnd(); err != nil {
		return nil, err
	}
	if k.b, err = b.newEnd(); err != nil {
		return nil, err
	}
	k.PortA, k.PortB, k.down = k.a.port, k.b.port, k.a
	switch {
	case k.PortA == 0 && k.PortB == 0:
		return nil, errors.New("two hosts: put a switch between them")
	case k.PortA == 0: // a host's end would forget its routes when taken down
		k.down = k.b
	}
	if err := k.plug(); err != nil {
		return nil, err
	}
	if err := a.attach(k.a); err != nil {
		return nil, err
	}
	return k, b.attach(k.b)
}

// plug makes the cable.
func (k *Link) plug() error {
	args := append([]string{"link", "add", "name", k.a.device}, inNS(k.a.namespace)...)
	args = append(args, "type", "veth", "peer", "name", k.b.device)
	if _, err := run("ip", append(args, inNS(k.b.namespace)...)...); err != nil {
		return err
	}
	return errors.Join(k.a.prepare(), k.b.prepare())
}

func inNS(namespace string) []string {
	if namespace == "" {
		return nil
	}
	return []string{"netns", namespace}
}

// prepare makes a fresh device carry the frames of others: quiet, with whole checksums, and up.
func (e end) prepare() error {
	if err := quiet(e.namespace, e.device); err != nil {
		return err
	}
	if err := within(e.namespace, func() error { return checksumOff(e.device) }); err != nil {
		return err
	}
	return e.ip("link", "set", e.device, "up")
}

func (e end) ip(args ...string) error { return e.command("ip", args...) }

func (e end) command(name string, args ...string) error {
	if e.namespace != "" {
		args = append([]string{"-n", e.namespace}, args...)
	}
	_, err := run(name, args...)
	return err
}

// Cut cuts the cable so that both nodes notice: the end at A (at the switch, if A is a host) goes down and the other
// loses its carrier.
func (k *Link) Cut() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.cut = true
	return k.down.ip("link", "set", k.down.device, "down")
}

// CutSilently loses every frame in both directions while both ends stay up, as a broken switch or fibre converter
// between them would.
func (k *Link) CutSilently() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.silent {
		return nil
	}
	k.silent = true
	for _, e := range []end{k.a, k.b} {
		if err := e.command("tc", "qdisc", "add", "dev", e.device, "clsact"); err != nil {
			return err
		}
		// A BPF program of one instruction, "return TC_ACT_STOLEN" (4): the sender believes that
		// the frame has left. It needs neither netem nor a compiler.
		if err := e.command("tc", "filter", "add", "dev", e.device, "egress", "bpf", "da", "bytecode",
			"1,6 0 0 4,"); err != nil {
			return err
		}
	}
	return nil
}

// Restore undoes Cut and CutSilently.
func (k *Link) Restore() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	var errs []error
	if k.silent {
		for _, e := range []end{k.a, k.b} {
			errs = append(errs, e.command("tc", "qdisc", "del", "dev", e.device, "clsact"))
		}
	}
	if k.cut {
		errs = append(errs, k.down.ip("link", "set", k.down.device, "up"))
	}
	k.cut, k.silent = false, false
	return errors.Join(errs...)
}
