//go:build !linux

package rawconn

import "net"

// Of returns c.
func Of(c net.Conn) net.Conn { return c }
