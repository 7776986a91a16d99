//go:build amd64 || arm64

package cells

import "unsafe"

// prefetch has the processor begin to load the line of its cache at p. It waits for nothing, and no value of p is an
// error: the instruction neither faults nor changes anything but the cache.
//
//go:noescape
func prefetch(p unsafe.Pointer)
