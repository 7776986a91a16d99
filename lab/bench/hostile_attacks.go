package bench

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/config"
	"github.com/holdfast-sdn/holdfast/lab/cluster"
	"github.com/holdfast-sdn/holdfast/lab/hostile"
)

// attacker is the address of all hostile peers. Honest agents have another one, so that parts which tell hosts apart
// can do so.
const attacker = "127.0.0.2"

// hostileDatapath is the first datapath id of hostile switches.
const hostileDatapath = 1 << 40

// victim is whom an attempt is for.
type victim struct {
	*cluster.Controller
	agent *cluster.Agent
}

// attack is a kind of hostile peers. Each peer tries again and again, at most once in a time, and an attempt ends after
// another time at the latest.
type attack struct {
	name         string
	peers        int
	every, lasts time.Duration
	run          func(ctx context.Context, on victim, peer, n int) error
}

// attacks are all kinds of package hostile.
var attacks = []attack{
	{"datapaths", 4, 50 * time.Millisecond, time.Second, // one datapath id after the other, and no command is executed
		func(ctx context.Context, on victim, peer, n int) error {
			_, err := hostile.Agent{Datapath: own(peer, n), Epoch: 1, Packets: 20, Size: 1400,
				From: attacker}.Attack(ctx, on.OpenFlow)
			return err
		}},
	{"epochs", 1, 100 * time.Millisecond, time.Second, // that end all epochs
		func(ctx context.Context, on victim, _, n int) error {
			_, err := hostile.Agent{Datapath: own(100, n), Epoch: math.MaxUint64 - uint64(n),
				From: attacker}.Attack(ctx, on.OpenFlow)
			return err
		}},
	{"acknowledgements", 2, 200 * time.Millisecond, 2 * time.Second, // of one agent, 4.8 MB that tell nothing
		func(ctx context.Context, on victim, peer, n int) error {
			_, err := hostile.Agent{Datapath: own(600+peer, n), Epoch: 1, Acks: 150_000, From: attacker}.Attack(ctx,
				on.OpenFlow)
			return err
		}},
	{"reconnects", 4, 5 * time.Millisecond, 500 * time.Millisecond, // of the agent of one switch, with a new epoch each
		func(ctx context.Context, on victim, peer, n int) error {
			_, err := hostile.Agent{Datapath: own(700+peer, 0), Epoch: uint64(n) + 1, From: attacker}.Attack(ctx,
				on.OpenFlow)
			return err
		}},
	{"floods", 2, 200 * time.Millisecond, 2 * time.Second, // switches without an agent that send far too much
		func(ctx context.Context, on victim, peer, n int) error {
			return hostile.Switch{Datapath: own(200+peer, n), Packets: 2000, Size: 1400, From: attacker}.Attack(ctx,
				on.OpenFlow)
		}},
	{"handshakes", 4, 100 * time.Millisecond, 2 * time.Second, // that do not end
		func(ctx context.Context, on victim, peer, n int) error {
			return hostile.Switch{Datapath: own(300+peer, n), Early: 500, Size: 1400, From: attacker}.Attack(ctx,
				on.OpenFlow)
		}},
	{"streams", 3, 200 * time.Millisecond, 2 * time.Second, // of switches on one connection, more than anybody may open
		func(ctx context.Context, on victim, peer, n int) error {
			return hostile.Trunk{Datapath: own(500+peer, n<<10), Streams: 200, Flood: 4 << 20, Read: peer > 0,
				Wrong: peer > 1, From: attacker}.Attack(ctx, on.OpenFlow)
		}},
	{"connections", 64, 500 * time.Millisecond, time.Minute, // that say nothing, at all ports
		func(ctx context.Context, on victim, peer, _ int) error {
			return hostile.Noise{From: attacker}.Attack(ctx, port(on, peer))
		}},
	{"agent", 8, 50 * time.Millisecond, 500 * time.Millisecond, // switches of the agent of the honest ones
		func(ctx context.Context, on victim, peer, n int) error {
			return hostile.Switch{Datapath: own(400+peer, n), Packets: 20, Size: 100, From: attacker}.Attack(ctx,
				on.agent.Listen)
		}},
	{"members", 2, 100 * time.Millisecond, time.Second, // without the key of the cluster
		func(ctx context.Context, on victim, peer, _ int) error {
			return hostile.Member{Cluster: "holdfast", From: uint64(peer) + 1,
				To: config.DefaultID(on.Name)}.Heartbeat(ctx, on.Peer, 1<<30, 1<<40)
		}},
	{"noise", 5, 100 * time.Millisecond, time.Second, // random bytes at each port
		func(ctx context.Context, on victim, peer, n int) error {
			return hostile.Noise{From: attacker, Size: 4096, Seed: uint64(n)}.Attack(ctx, port(on, peer))
		}},
	{"requests", 1, 200 * time.Millisecond, 2 * time.Second, // with a megabyte of random bytes
		func(ctx context.Context, on victim, _, n int) error {
			noise := hostile.Noise{From: attacker, Size: 1 << 20, Seed: uint64(n), HTTP: true}
			return errors.Join(noise.Attack(ctx, on.API), noise.Attack(ctx, on.REST))
		}},
}

// own returns a datapath id that no other peer claims.
func own(peer, n int) uint64 { return hostileDatapath + uint64(peer)<<24 + uint64(n) }

// port returns one of the addresses at which a cluster can be reached.
func port(on victim, n int) string {
	return []string{on.OpenFlow, on.Peer, on.API, on.REST, on.agent.Listen}[n%5]
}
