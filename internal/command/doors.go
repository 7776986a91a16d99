package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/holdfast-sdn/holdfast/internal/address"
)

// listenForSwitches refuses an address that other machines reach, unless they may: connections are secured, or somebody
// wants it without.
func listenForSwitches(listen string, anybody bool) (net.Listener, error) {
	if network, path := address.Of(listen); network == "unix" {
		l, err := listenAtSocket(path)
		if err != nil {
			return nil, fmt.Errorf("listen for switches at %s: %w", listen, err)
		}
		return l, nil
	}
	return door{what: "listen for switches", like: "127.0.0.1:6653 or unix:/run/holdfast/s1.sock",
		another: "choose another with --listen",
		exposed: fmt.Sprintf("listen for switches at %s without TLS: anybody in the network could be a switch; "+
			"listen on a loopback address, use tls also for switches, or write `insecure: true` into a cluster file "+
			"that has no tls (without a file: --insecure)", listen)}.listen(listen, anybody)
}

// The longest path of a Unix socket, in bytes: sun_path of unix(7) has one more for the end.
const maxSocketPath = 107

// checkSocket refuses a path that a Unix socket cannot have here.
func checkSocket(path string) error {
	switch {
	case path == "" || len(path) > maxSocketPath:
		return fmt.Errorf("the path has %d bytes: use 1 to %d", len(path), maxSocketPath)
	case strings.HasPrefix(path, "@"):
		return errors.New("every user can connect to an abstract socket: name a file")
	}
	return nil
}

var errListensThere = errors.New("another process listens there: end it or choose another path")

// socket listens at a Unix socket, whose path it has locked.
type socket struct {
	net.Listener
	lock *os.File
}

// Close removes the socket, and unlocks its path. The file of the lock stays: who waits for it may have it open.
func (s *socket) Close() error { return errors.Join(s.Listener.Close(), s.lock.Close()) }

// listenAtSocket listens at a Unix socket, to which the owner and the group of the process may connect. One that is
// left of a process that was killed is replaced.
func listenAtSocket(path string) (net.Listener, error) {
	if err := checkSocket(path); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.EROFS):
		return nil, fmt.Errorf("%w: make a folder in which this user may write", err)
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("%w: use a folder in which this user may write, and remove that file if another user "+
			"has made it", err)
	case err != nil:
		return nil, err
	}
	l, err := listenLocked(path, lock)
	if err != nil {
		lock.Close()
		return nil, err
	}
	return &socket{l, lock}, nil
}

func listenLocked(path string, lock *os.File) (net.Listener, error) {
	err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, errListensThere
	}
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	if err := removeLeft(path); err != nil {
		return nil, err
	}
	const mode = 0o660
	// The mode is that of the descriptor, without the bits of the umask, until Chmod.
	private := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var failed error
		err := c.Control(func(fd uintptr) { failed = unix.Fchmod(int(fd), mode) })
		return errors.Join(err, failed)
	}}
	l, err := private.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, mode); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// removeLeft removes a socket at which nobody listens.
func removeLeft(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return errors.New("there is a file that is no socket: choose another path")
	}
	conn, err := net.Dial("unix", path)
	if err == nil {
		conn.Close()
		return errListensThere
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return err
	}
	return os.Remove(path)
}

// door is a place at which a command listens, with what it says if it cannot.
type door struct {
	what, like, another string
	exposed             string // if other machines reach the address, and must not
}

// listen listens, on a loopback address unless anybody may connect.
func (d door) listen(at string, anybody bool) (net.Listener, error) {
	tcp, err := net.ResolveTCPAddr("tcp", at)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w: write the address like %s", d.what, err, d.like)
	case !tcp.IP.IsLoopback() && !anybody:
		return nil, errors.New(d.exposed)
	}
	l, err := net.ListenTCP("tcp", tcp)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: free the address or %s", d.what, err, d.another)
	}
	return l, nil
}
