package sentry

import (
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/holdfast-sdn/holdfast/bfd"
)

// socket sends and receives the frames of one interface. It does not block.
type socket struct {
	fd  int
	mac [6]byte
}

// openSocket opens an interface in the network namespace of a process. It needs CAP_NET_RAW, and CAP_SYS_ADMIN if that
// is another namespace.
func openSocket(pid int, name string) (s *socket, err error) {
	ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", pid))
	if err != nil {
		return nil, fmt.Errorf("network namespace of the switch: %w", err)
	}
	defer ns.Close()
	own, err := sameNamespace(ns)
	if err != nil {
		return nil, err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if !own {
			// never unlocked: the thread, which is in the wrong namespace now, ends with the goroutine
			runtime.LockOSThread()
			if err = unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
				err = fmt.Errorf("enter the network namespace of the switch (CAP_SYS_ADMIN is needed): %w", err)
				return
			}
		}
		s, err = openHere(name)
	}()
	<-done
	return s, err
}

// sameNamespace reports whether a namespace is that of this thread. It does not use /proc/self, which is the main
// thread: that one does not end with a goroutine that has entered another namespace on it.
func sameNamespace(ns *os.File) (bool, error) {
	theirs, err := ns.Stat()
	if err != nil {
		return false, err
	}
	ours, err := os.Stat("/proc/thread-self/ns/net")
	return err == nil && os.SameFile(ours, theirs), err
}

func openHere(name string) (*socket, error) {
	ifc, err := net.InterfaceByName(name)
	if err != nil {
		return nil, fmt.Errorf("interface %s: %w", name, err)
	}
	if len(ifc.HardwareAddr) != 6 {
		return nil, fmt.Errorf("interface %s is not Ethernet, perhaps a tunnel: only the switch's own BFD monitors it",
			name)
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("interface %s: packet socket (CAP_NET_RAW is needed): %w", name, err)
	}
	// A switch in the kernel takes frames before sockets for one protocol see them. Sockets for all protocols come
	// first.
	const every = unix.ETH_P_ALL>>8 | unix.ETH_P_ALL&0xff<<8 // in network order
	ours := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_H | unix.BPF_ABS, K: ethLen - 2},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: bfd.EtherTypeSentry},
		{Code: unix.BPF_RET | unix.BPF_K, K: 2 * frameLen},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0},
	}
	member := unix.PacketMreq{Ifindex: int32(ifc.Index), Type: unix.PACKET_MR_MULTICAST, Alen: 6}
	copy(member.Address[:], group[:])
	err = errors.Join(
		unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
			&unix.SockFprog{Len: uint16(len(ours)), Filter: &ours[0]}),
		unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1),
		unix.SetsockoptPacketMreq(fd, unix.SOL_PACKET, unix.PACKET_ADD_MEMBERSHIP, &member),
		unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: every, Ifindex: ifc.Index}))
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("interface %s: packet socket: %w", name, err)
	}
	return &socket{fd: fd, mac: [6]byte(ifc.HardwareAddr)}, nil
}

// read returns the length of a frame; 0 if none is there.
func (s *socket) read(frame []byte) (int, error) {
	n, err := unix.Read(s.fd, frame)
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
		return 0, nil
	}
	return max(n, 0), err
}

// write sends a frame. A frame that the interface does not accept is lost, as on a wire.
func (s *socket) write(frame []byte) { _, _ = unix.Write(s.fd, frame) }

func (s *socket) close() { unix.Close(s.fd) }
