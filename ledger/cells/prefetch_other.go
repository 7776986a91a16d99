//go:build !amd64 && !arm64

package cells

import "unsafe"

// prefetch does nothing: the instruction is not known here.
func prefetch(unsafe.Pointer) {}
