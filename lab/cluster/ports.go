package cluster

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// Ports are taken from below those that the kernel gives to outgoing connections, so that a controller finds its port
// free when it is restarted. Each is given out once before one is given out again: a process binds its own only when it
// has started, and clusters start beside each other. Test processes run beside each other too: each takes the ports of
// one block, since the port of a controller that was just killed looks free to the others. The blocks are locked by
// empty files in a folder holdfast-ports-UID of the temporary files, which stay there: removing a file that another
// process has opened would let two processes lock the same block.
const (
	firstPort = 10_000
	blocks    = 11
	blockSize = 2_000 // ports
)

// ports gives out the ports of this process.
var ports struct {
	mu    sync.Mutex // guards the fields below
	block int        // -1: none was free, and any port will do
	lock  *os.File   // locked as long as the process lives; nil before the first port
	given int
}

func nextPort() int {
	p := &ports
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.given == 0 {
		p.block, p.lock = claimBlock()
		p.given = rand.IntN(blockSize)
	}
	p.given++
	if p.block < 0 {
		return firstPort + rand.IntN(blocks*blockSize)
	}
	return firstPort + p.block*blockSize + p.given%blockSize
}

// claimBlock locks a block that no other process of this user has.
func claimBlock() (block int, lock *os.File) {
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("holdfast-ports-%d", os.Getuid()))
	if os.MkdirAll(dir, 0o700) != nil {
		return -1, nil
	}
	for _, block := range rand.Perm(blocks) {
		f, err := os.OpenFile(filepath.Join(dir, strconv.Itoa(block)), os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return -1, nil
		}
		if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			return block, f
		}
		f.Close()
	}
	return -1, nil
}

// FreeAddresses finds addresses that nobody listens on.
func FreeAddresses(host string, n int) ([]string, error) {
	var addrs []string
	for range 100 * n {
		l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(nextPort())))
		if err != nil {
			continue // somebody's
		}
		l.Close()
		addrs = append(addrs, l.Addr().String())
		if len(addrs) == n {
			return addrs, nil
		}
	}
	return nil, fmt.Errorf("no %d free ports between %d and %d on %s", n, firstPort, firstPort+blocks*blockSize, host)
}
