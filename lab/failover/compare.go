package failover

import (
	"context"
	"time"

	"github.com/holdfast-sdn/holdfast/lab/cluster"
	"github.com/holdfast-sdn/holdfast/lab/oracle"
)

// patience is how long nothing may change until missing messages count as lost. On a busy machine a process may wait
// for a second, with its work still in its sockets.
const patience = 10 * time.Second

// compare waits until every event is processed and every command executed, or until nothing has changed for patience:
// then the comparison says what is missing.
func (t *experiment) compare(ctx context.Context, r *Result) error {
	for moved := time.Now(); ; {
		before, done, err := t.movement(ctx)
		if err != nil {
			return err
		}
		over := time.Since(moved) > patience
		if done || over {
			if err := t.read(r); err != nil || r.Exact() || over {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(300 * time.Millisecond):
		}
		after, _, err := t.movement(ctx)
		if err != nil {
			return err
		}
		if after != before {
			moved = time.Now()
		}
	}
}

// read compares the logs with the switches, and with each other.
func (t *experiment) read(r *Result) error {
	records, err := oracle.Read(t.cluster.AuditFiles())
	if err != nil {
		return err
	}
	r.Streams, r.Result = oracle.CheckStreams(records), t.tally.Compare(records)
	return nil
}

// movement is a value that changes while work is being done. done says that the leader knows of no work left, and has
// seen as much as the switches.
func (t *experiment) movement(ctx context.Context) (m [3]uint64, done bool, err error) {
	s, err := t.cluster.Wait(ctx, "a leader", func(cluster.Status) bool { return true })
	sent, executed := t.tally.Counts()
	m[0], m[1] = uint64(sent), uint64(executed)
	done = true
	events := uint64(0) // without agents there are always more: the sync markers
	for _, sw := range s.Switches {
		events += sw.TotalEvents
		m[2] += sw.TotalCommands
		done = done && sw.CommandsDone == sw.CommandsSent
	}
	return m, done && events >= m[0] && m[2] <= m[1], err
}
