//go:build !linux || !amd64

package exitorder

// ConnectionsFirst has no effect on this platform.
func ConnectionsFirst() error { return nil }
