package vswitch

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// carrierEvery is how often a device's carrier is checked.
const carrierEvery = 20 * time.Millisecond

// Device is an interface of Linux as a port of a switch.
type Device struct {
	name  string
	file  *os.File
	tap   bool
	ioctl int // a socket for questions about the interface
}

// OpenDevice opens an existing interface, such as one end of a veth pair, by a packet socket. It needs CAP_NET_RAW.
// Nothing else should use the interface, and offloading of checksums and segments must be off at its peer (ethtool -K …
// tx off tso off gso off), because the frames are forwarded unchanged.
func OpenDevice(name string) (*Device, error) {
	ifc, err := net.InterfaceByName(name)
	if err != nil {
		return nil, fmt.Errorf("open interface %s: %w", name, err)
	}
	protocol := uint16(unix.ETH_P_ALL)<<8 | uint16(unix.ETH_P_ALL)>>8
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open a packet socket for %s (CAP_NET_RAW is needed): %w", name, err)
	}
	set := func(what string, err error) error {
		if err == nil {
			return nil
		}
		unix.Close(fd)
		return fmt.Errorf("%s %s: %w", what, name, err)
	}
	// The kernel takes VLAN tags out of frames; the auxiliary data has them.
	if err := set("ask for VLAN tags of", unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_AUXDATA, 1)); err != nil {
		return nil, err
	}
	if err := set("ignore what is sent to", unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING,
		1)); err != nil {
		return nil, err
	}
	if err := set("bind to", unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: protocol,
		Ifindex: ifc.Index})); err != nil {
		return nil, err
	}
	promiscuous := unix.PacketMreq{Ifindex: int32(ifc.Index), Type: unix.PACKET_MR_PROMISC}
	if err := set("make promiscuous", unix.SetsockoptPacketMreq(fd, unix.SOL_PACKET, unix.PACKET_ADD_MEMBERSHIP,
		&promiscuous)); err != nil {
		return nil, err
	}
	return newDevice(name, fd, false)
}

// OpenTAP creates or opens a TAP interface, which is removed when the device is closed. It needs CAP_NET_ADMIN. The
// caller brings the interface up.
func OpenTAP(name string) (*Device, error) {
	request, err := unix.NewIfreq(name)
	if err != nil {
		return nil, fmt.Errorf("TAP interface %q: a name has at most 15 bytes: %w", name, err)
	}
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("make TAP interface %s: %w", name, err)
	}
	request.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, request); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("make TAP interface %s (CAP_NET_ADMIN is needed): %w", name, err)
	}
	return newDevice(name, fd, true)
}

func newDevice(name string, fd int, tap bool) (*Device, error) {
	questions, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("open a socket to ask about %s: %w", name, err)
	}
	return &Device{name: name, file: os.NewFile(uintptr(fd), name), tap: tap, ioctl: questions}, nil
}

// Up reports whether the interface is up and has a carrier.
func (d *Device) Up() bool {
	request, err := unix.NewIfreq(d.name)
	if err != nil || unix.IoctlIfreq(d.ioctl, unix.SIOCGIFFLAGS, request) != nil {
		return false
	}
	const want = unix.IFF_UP | unix.IFF_RUNNING
	return request.Uint16()&want == want
}

// Read waits for a frame and returns its length.
func (d *Device) Read(frame []byte) (int, error) {
	if d.tap {
		return d.file.Read(frame)
	}
	raw, err := d.file.SyscallConn()
	if err != nil {
		return 0, err
	}
	var n, controlLen int
	var failed error
	var control [64]byte
	err = raw.Read(func(fd uintptr) bool {
		// Room for a tag is left behind the addresses.
		n, controlLen, _, _, failed = unix.Recvmsg(int(fd), frame[4:], control[:], 0)
		return failed != unix.EAGAIN
	})
	if err == nil {
		err = failed
	}
	if err != nil {
		return 0, err
	}
	return restoreTag(frame, n, control[:controlLen]), nil
}

// restoreTag moves the frame frame[4:4+n] to the start, and inserts the VLAN tag of the auxiliary data.
func restoreTag(frame []byte, n int, control []byte) int {
	messages, err := unix.ParseSocketControlMessage(control)
	if err == nil && n >= ethLen {
		for _, m := range messages {
			if m.Header.Level != unix.SOL_PACKET || m.Header.Type != unix.PACKET_AUXDATA ||
				len(m.Data) < int(unsafe.Sizeof(unix.TpacketAuxdata{})) {
				continue
			}
			aux := (*unix.TpacketAuxdata)(unsafe.Pointer(&m.Data[0]))
			if aux.Status&unix.TP_STATUS_VLAN_VALID == 0 {
				continue
			}
			tpid := uint16(typeVLAN)
			if aux.Status&unix.TP_STATUS_VLAN_TPID_VALID != 0 {
				tpid = aux.Vlan_tpid
			}
			copy(frame, frame[4:16])
			copy(frame[12:], []byte{byte(tpid >> 8), byte(tpid), byte(aux.Vlan_tci >> 8), byte(aux.Vlan_tci)})
			return n + 4
		}
	}
	copy(frame, frame[4:4+n])
	return n
}

// Write sends a frame. It does not block: a frame that the interface cannot take now is lost.
func (d *Device) Write(frame []byte) (int, error) {
	raw, err := d.file.SyscallConn()
	if err != nil {
		return 0, err
	}
	var n int
	var failed error
	err = raw.Write(func(fd uintptr) bool {
		n, failed = unix.Write(int(fd), frame)
		return true
	})
	return n, errors.Join(err, failed)
}

// Close closes the device.
func (d *Device) Close() error {
	unix.Close(d.ioctl)
	return d.file.Close()
}

// Serve makes the device a port of a running switch: frames both ways, and the carrier. It returns when the device is
// closed, or the runner, which closes it.
func (d *Device) Serve(r *Runner, no of13.Port) error {
	// Write errors are lost frames, as on a wire.
	r.Transmit(no, func(frame []byte) { _, _ = d.Write(frame) })
	up := d.Up()
	r.SetPortLive(no, up)
	ended := make(chan struct{})
	var watcher sync.WaitGroup
	watcher.Go(func() {
		tick := time.NewTicker(carrierEvery)
		defer tick.Stop()
		for {
			select {
			case <-ended:
				return
			case <-r.ctx.Done():
				d.file.Close()
				return
			case <-tick.C:
				if now := d.Up(); now != up {
					up = now
					r.SetPortLive(no, up)
				}
			}
		}
	})
	err := d.receive(r, no)
	close(ended)
	watcher.Wait()
	if r.ctx.Err() != nil || errors.Is(err, os.ErrClosed) || errors.Is(err, io.EOF) {
		return nil
	}
	return fmt.Errorf("read from interface %s: %w", d.name, err)
}

func (d *Device) receive(r *Runner, no of13.Port) error {
	frame := make([]byte, MaxFrame+4)
	for {
		n, err := d.Read(frame)
		switch {
		case errors.Is(err, unix.ENETDOWN): // it will come up again
			time.Sleep(carrierEvery)
		case err != nil:
			return err
		default:
			r.Receive(no, frame[:n])
		}
	}
}
