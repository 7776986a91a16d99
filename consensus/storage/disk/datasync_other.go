//go:build !linux || !(amd64 || arm64)

package disk

import (
	"os"

	"go.etcd.io/etcd/client/pkg/v3/fileutil"
)

// datasync is fdatasync.
type datasync struct{}

func (*datasync) open() error           { return nil }
func (*datasync) sync(f *os.File) error { return fileutil.Fdatasync(f) }
func (*datasync) close() error          { return nil }
