package transport

import (
	"net"

	"golang.org/x/sys/unix"
)

// limitStall makes the kernel give a connection up when the other machine acknowledges
// nothing for stallTime; without it, small messages are sent into the void for a quarter of an hour.
func limitStall(conn net.Conn) {
	if around, ok := conn.(interface{ NetConn() net.Conn }); ok { // as TLS is
		conn = around.NetConn()
	}
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return // closed already
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(stallTime.Milliseconds()))
	})
}
