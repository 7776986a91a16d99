package bench

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/holdfast-sdn/holdfast/lab/cluster"
	"github.com/holdfast-sdn/holdfast/lab/load"
	"github.com/holdfast-sdn/holdfast/ryu"
)

// plainScript runs an application on os-ken itself, with its own server.
//
//go:embed ryu_plain.py
var plainScript string

// plain is an application that runs on os-ken itself.
type plain struct {
	address string // for switches
	pid     int
	end     func()
}

// startPlain starts it with a Python that has os-ken; the application may be in one of the folders of path.
func startPlain(ctx context.Context, python, app string, path []string) (p plain, err error) {
	addresses, err := cluster.FreeAddresses("127.0.0.1", 1)
	if err != nil {
		return p, err
	}
	p.address = addresses[0]
	folder, remove, err := ryu.Unpack()
	if err != nil {
		return p, err
	}
	cmd := exec.CommandContext(ctx, python, "-W", "ignore", "-c", plainScript,
		p.address[strings.LastIndexByte(p.address, ':')+1:], app)
	cmd.Env = append(os.Environ(), "PYTHONPATH="+strings.Join(append([]string{folder}, path...), ":"))
	var printed strings.Builder
	cmd.Stderr = &printed
	if err := cmd.Start(); err != nil {
		remove()
		return p, fmt.Errorf("start os-ken: %w", err)
	}
	p.pid = cmd.Process.Pid
	p.end = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed
		remove()
	}
	if err := awaitListener(ctx, p.address); err != nil {
		p.end()
		return p, fmt.Errorf("os-ken does not listen: %w\n%s", err, printed.String())
	}
	return p, nil
}

func awaitListener(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, 60*time.Second)
	defer cancel()
	for {
		conn, err := load.At(address)(ctx, 0)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(100 * time.Millisecond):
		}
	}
}
