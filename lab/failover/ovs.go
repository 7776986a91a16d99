package failover

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"sync"

	"github.com/holdfast-sdn/holdfast/internal/mtls"
	"github.com/holdfast-sdn/holdfast/lab/netlab"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// ovsNetwork is a row of Open vSwitch bridges in network namespaces, with a host at each.
type ovsNetwork struct {
	lab      *netlab.Lab
	switches []*netlab.Switch
	ends     []*Host
	sockets  []*os.File
	readers  sync.WaitGroup // one for each socket; they end when it is closed
}

func newOVSNetwork(dir string, n int) (*ovsNetwork, error) {
	lab, err := netlab.New(filepath.Join(dir, "ovs"))
	if err != nil {
		return nil, err
	}
	o := &ovsNetwork{lab: lab}
	for i := range n {
		if err := o.add(i); err != nil {
			return nil, errors.Join(err, o.Close())
		}
	}
	return o, nil
}

// add makes switch i and its host, and links it to the one before.
func (o *ovsNetwork) add(i int) error {
	sw, err := o.lab.AddSwitch(fmt.Sprintf("s%d", i+1), uint64(i+1))
	if err != nil {
		return err
	}
	o.switches = append(o.switches, sw)
	if i > 0 {
		if _, err := o.lab.Connect(o.switches[i-1], sw); err != nil {
			return err
		}
	}
	ns, err := o.lab.AddHost(fmt.Sprintf("h%d", i+1),
		netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}), 24))
	if err != nil {
		return err
	}
	if _, err := o.lab.Connect(sw, ns); err != nil {
		return err
	}
	socket, err := ns.Raw()
	if err != nil {
		return err
	}
	o.sockets = append(o.sockets, socket)
	h := newHost(i+1, func(frame []byte) error { _, err := socket.Write(frame); return err })
	h.mac = of13.MAC(ns.MAC)
	o.ends = append(o.ends, h)
	o.readers.Go(func() {
		buf := make([]byte, 2048)
		for {
			n, err := socket.Read(buf)
			if err != nil {
				return
			}
			h.receive(buf[:n])
		}
	})
	return nil
}

func (o *ovsNetwork) hosts() []*Host        { return o.ends }
func (o *ovsNetwork) listenAddress() string { return o.lab.Addr().String() }

func (o *ovsNetwork) secure(f mtls.Files) error {
	for _, s := range o.switches {
		if err := s.SetTLS(f.Key, f.Cert, f.CA); err != nil {
			return err
		}
	}
	return nil
}

func (o *ovsNetwork) connect(i int, addrs ...string) error {
	return o.switches[i].SetControllers(addrs...)
}

func (o *ovsNetwork) Close() error {
	var errs []error
	for _, s := range o.sockets {
		errs = append(errs, s.Close())
	}
	o.readers.Wait()
	return errors.Join(append(errs, o.lab.Close())...)
}
