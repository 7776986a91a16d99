package netlab

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// Host is a network namespace with one interface, eth0, and the kernel's own IPv4 stack.
type Host struct {
	Name string
	Addr netip.Prefix
	MAC  net.HardwareAddr // 02:00 and the four bytes of the address: easy to read in a flow table

	Namespace string // of the network, for `ip netns exec`

	plugged bool
}

// AddHost makes a host with an IPv4 address, such as 10.0.0.1/24.
func (l *Lab) AddHost(name string, addr netip.Prefix) (*Host, error) {
	if !addr.Addr().Is4() {
		return nil, fmt.Errorf("host %s: %s is not an IPv4 address with prefix length", name, addr)
	}
	if err := l.claim(name); err != nil {
		return nil, err
	}
	ip := addr.Addr().As4()
	h := &Host{Name: name, Addr: addr, MAC: append(net.HardwareAddr{2, 0}, ip[:]...), Namespace: l.scoped(name)}
	if err := addNamespace(h.Namespace); err != nil {
		return nil, fmt.Errorf("host %s: %w", name, err)
	}
	return h, nil
}

func (h *Host) newEnd() (end, error) {
	if h.plugged {
		return end{}, fmt.Errorf("host %s has its cable already", h.Name)
	}
	h.plugged = true
	return end{namespace: h.Namespace, device: "eth0"}, nil
}

func (h *Host) attach(e end) error {
	return errors.Join(
		h.Do(func() error { // the default, 1 s, would hide how fast a network mends
			return os.WriteFile("/proc/sys/net/ipv4/neigh/eth0/retrans_time_ms", []byte("50"), 0o644)
		}),
		e.ip("link", "set", e.device, "address", h.MAC.String()),
		e.ip("addr", "add", h.Addr.String(), "dev", e.device))
}

// Do runs fn on a thread inside the host's namespace. Sockets that fn opens belong to the
// host from then on.
func (h *Host) Do(fn func() error) error { return within(h.Namespace, fn) }

// Raw opens eth0: each Read returns one frame that arrived, each Write sends one. The host's own
// stack sees the frames as well. The file has deadlines; close it when done.
func (h *Host) Raw() (*os.File, error) {
	fd := -1
	err := h.Do(func() (err error) {
		eth0, err := net.InterfaceByName("eth0")
		if err != nil {
			return err
		}
		fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			return err
		}
		if err = unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1); err != nil {
			return err
		}
		const everyProtocol = unix.ETH_P_ALL>>8 | unix.ETH_P_ALL&0xff<<8 // in network order
		return unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: everyProtocol, Ifindex: eth0.Index})
	})
	if err != nil {
		if fd >= 0 {
			unix.Close(fd)
		}
		return nil, fmt.Errorf("open eth0 of host %s: %w", h.Name, err)
	}
	return os.NewFile(uintptr(fd), h.Name+" eth0"), nil
}
