// Package address reads the addresses at which switches find their controller: host:port, or unix:PATH for a Unix
// socket, as Open vSwitch writes it. It resolves no names, and knows nothing of TLS.
package address

import "strings"

// Of returns what package net calls the network of an address, and the address there.
func Of(address string) (network, at string) {
	if path, is := strings.CutPrefix(address, "unix:"); is {
		return "unix", path
	}
	return "tcp", address
}
