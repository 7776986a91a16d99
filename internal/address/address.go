// Package address reads the addresses at which switches find their controller: host:port, or unix:PATH for a Unix
// socket, as Open vSwitch writes it. It resolves no names, and knows nothing of TLS.
package address

import (
	"net"
	"strings"
)

// Of returns what package net calls the network of an address, and the address there.
func Of(address string) (network, at string) {
	if path, is := strings.CutPrefix(address, "unix:"); is {
		return "unix", path
	}
	return "tcp", address
}

// Peer returns the address of the other end of a connection. One that has connected to a Unix socket has none, so for
// that it is the address of the socket.
func Peer(conn net.Conn) net.Addr {
	if at, is := conn.RemoteAddr().(*net.UnixAddr); is && (at == nil || at.Name == "" || at.Name == "@") {
		return conn.LocalAddr()
	}
	return conn.RemoteAddr()
}
