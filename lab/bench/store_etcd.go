package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	etcd "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/holdfast-sdn/holdfast/lab/cluster"
)

// etcdModule is where the command etcd is, from the folder of this module.
const etcdModule = "lab/etcd"

// etcd adds the figures of etcd.
func (s Store) etcd(ctx context.Context, progress Progress, f map[string]float64) error {
	dir, err := os.MkdirTemp("", "holdfast-bench-etcd-")
	if err != nil {
		return fmt.Errorf("folder for etcd: %w", err)
	}
	defer os.RemoveAll(dir)
	binary := s.Etcd
	if binary == "" {
		progress.show(0, "building etcd")
		binary = filepath.Join(dir, "etcd")
		build := exec.CommandContext(ctx, "go", "build", "-C", etcdModule, "-o", binary, ".")
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("build etcd: %w: %s: run this in the folder of Holdfast's source, or give --etcd", err,
				out)
		}
	}
	c, err := startEtcd(ctx, binary, dir, s.Durability)
	if err != nil {
		return err
	}
	defer c.end()
	value := strings.Repeat("v", storeValue)
	for _, m := range []struct {
		clients       int
		name, latency string
	}{{s.Clients, "etcd_puts_per_s", "etcd_put"}, {1, "etcd_alone_puts_per_s", "etcd_alone_put"}} {
		err := s.measure(progress, m.clients, 1, m.name, m.latency, f, func(i, n int) error {
			_, err := c.clients[i%len(c.clients)].Put(ctx, storeKey(i*7919+n), value)
			return err
		})
		if err != nil {
			return fmt.Errorf("etcd: %w", err)
		}
	}
	return nil
}

// etcdCluster is three processes, and connections to the leader.
type etcdCluster struct {
	processes []*exec.Cmd
	clients   []*etcd.Client
}

// etcdConnections is how many connections the clients share.
const etcdConnections = 8

func startEtcd(ctx context.Context, binary, dir, durability string) (c *etcdCluster, err error) {
	c = new(etcdCluster)
	defer func() {
		if err != nil {
			c.end()
		}
	}()
	addresses, err := cluster.FreeAddresses("127.0.0.1", 6) // three for each other, three for clients
	if err != nil {
		return c, err
	}
	var members []string
	for i := range addresses {
		addresses[i] = "http://" + addresses[i]
	}
	for i := range 3 {
		members = append(members, fmt.Sprintf("e%d=%s", i, addresses[i]))
	}
	for i := range 3 {
		cmd := exec.CommandContext(ctx, binary, "--name", fmt.Sprint("e", i), "--data-dir",
			filepath.Join(dir, fmt.Sprint("e", i)), "--listen-peer-urls", addresses[i], "--initial-advertise-peer-urls",
			addresses[i], "--listen-client-urls", addresses[3+i], "--advertise-client-urls", addresses[3+i],
			"--initial-cluster", strings.Join(members, ","), "--log-level", "error")
		if durability == "memory" {
			cmd.Args = append(cmd.Args, "--unsafe-no-fsync")
		}
		cmd.Stderr = io.Discard
		if err := cmd.Start(); err != nil {
			return c, fmt.Errorf("start etcd: %w", err)
		}
		c.processes = append(c.processes, cmd)
	}
	leader, err := etcdLeader(ctx, addresses[3:])
	if err != nil {
		return c, err
	}
	for range etcdConnections {
		cl, err := newEtcdClient(leader)
		if err != nil {
			return c, err
		}
		c.clients = append(c.clients, cl)
	}
	return c, nil
}

func newEtcdClient(endpoint string) (*etcd.Client, error) {
	return etcd.New(etcd.Config{Endpoints: []string{endpoint}, DialTimeout: 5 * time.Second, Logger: zap.NewNop()})
}

// etcdLeader waits for a leader, and returns its address.
func etcdLeader(ctx context.Context, endpoints []string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for ctx.Err() == nil {
		for _, e := range endpoints {
			cl, err := newEtcdClient(e)
			if err != nil {
				return "", err
			}
			status, err := func() (*etcd.StatusResponse, error) {
				ctx, cancel := context.WithTimeout(ctx, time.Second)
				defer cancel()
				return cl.Status(ctx, e)
			}()
			cl.Close()
			if err == nil && status.Leader == status.Header.MemberId && status.Leader != 0 {
				return e, nil
			}
		}
	}
	return "", errors.New("no etcd leads after 30 s")
}

func (c *etcdCluster) end() {
	for _, cl := range c.clients {
		cl.Close()
	}
	for _, p := range c.processes {
		_ = p.Process.Kill()
		_ = p.Wait()
	}
}
