package netlab

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// addNamespace makes a namespace with a loopback interface.
func addNamespace(name string) error {
	if _, err := run("ip", "netns", "add", name); err != nil {
		return err
	}
	return end{namespace: name}.ip("link", "set", "lo", "up")
}

// within runs fn in a network namespace; "" is that of this process. Sockets that fn opens stay there.
func within(namespace string, fn func() error) error {
	if namespace == "" {
		return fn()
	}
	ns, err := os.Open("/run/netns/" + namespace)
	if err != nil {
		return fmt.Errorf("enter namespace %s: %w", namespace, err)
	}
	defer ns.Close()
	result := make(chan error)
	go func() {
		// Never unlocked: the thread, which is in the wrong namespace, ends with the goroutine.
		runtime.LockOSThread()
		if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
			result <- fmt.Errorf("enter namespace %s: %w", namespace, err)
			return
		}
		result <- fn()
	}()
	return <-result
}

// quiet keeps the kernel from sending IPv6 of its own (router solicitations, duplicate address
// detection) over a device, so that a lab carries what its user sends and nothing else.
func quiet(namespace, device string) error {
	return within(namespace, func() error {
		err := os.WriteFile("/proc/sys/net/ipv6/conf/"+device+"/disable_ipv6", []byte("1"), 0o644)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // a kernel without IPv6
		}
		return err
	})
}

// ethtoolSetTxChecksum is ETHTOOL_STXCSUM of linux/ethtool.h, which x/sys/unix lacks.
const ethtoolSetTxChecksum = 0x17

// checksumOff makes the kernel compute checksums itself. A veth pair leaves them out, because its receiver does not
// check them; Open vSwitch reads the raw frame and would forward a wrong one.
func checksumOff(device string) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("checksum offload of %s: %w", device, err)
	}
	defer unix.Close(fd)
	value := struct{ cmd, data uint32 }{ethtoolSetTxChecksum, 0}
	request := struct { // struct ifreq of linux/if.h
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [16]byte
	}{data: unsafe.Pointer(&value)}
	copy(request.name[:unix.IFNAMSIZ-1], device)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL,
		uintptr(unsafe.Pointer(&request))); errno != 0 {
		return fmt.Errorf("checksum offload of %s: %w", device, errno)
	}
	return nil
}
