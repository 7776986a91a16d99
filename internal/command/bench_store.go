package command

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/holdfast-sdn/holdfast/lab/bench"
)

func benchStoreCommand() *cobra.Command {
	var b bench.Store
	w := bench.StoreWorkload{}
	cmd := &cobra.Command{
		Use:   "store",
		Short: "Throughput and latency of the consistent data store, beside etcd",
		Long: `Run the store on three controllers: updates and linearizable reads in batches over a stream, reads of the
last 100 ms at the followers, updates in one request each by many clients, and by one client alone. Then the
same updates on a cluster of three etcd, which is built unless --etcd has one. All share the machine with the
clients. With --buckets, rows are in a namespace with so many buckets, which all three controllers execute.

With --workload, run a control application on the store instead: a learning switch (ls-bcast, ls-ucast), a
load balancer (lb-arp, lb-vip) or a device manager (dm-known, dm-unknown), which handles one kind of packet.
Its variants use the store as in the paper: init, cref, vers, cols, micro and cache. The variant inside
uses none: the application is handlers of the controllers, and the packets come from switches.
The more packets are handled at a time, the more flows a second there are, and the longer each one takes.
So loads are tried, twice for 200 ms each, and the one with the most flows whose p90 is at most 0.9 ms is
measured. Until the p90 is between 0.85 and 1 ms, up to four smaller or larger loads are measured, and the
one with the most flows whose p90 is at most 1 ms is reported. With --flows, that load is measured, and none
is tried. Each process uses one processor at a time (GOMAXPROCS=1), because the four share the machine; with
inside, as many as there are.`,
		Example: `  holdfast bench store --durability disk --json
  holdfast bench store --batch 64 --etcd /usr/bin/etcd
  holdfast bench store --workload lb-vip --variant micro`,
	}
	cmd.Flags().StringVar(&b.Etcd, "etcd", "", "the etcd binary; by default it is built, in the folder of the source")
	cmd.Flags().IntVar(&b.Batch, "batch", 512, "updates of a batch")
	cmd.Flags().IntVar(&b.Buckets, "buckets", 1, "of the namespace; 1: it is not divided")
	cmd.Flags().IntVar(&b.Callers, "callers", 8, "batches at a time")
	cmd.Flags().IntVar(&b.Clients, "clients", 500, "clients with one update at a time")
	cmd.Flags().IntVar(&b.Seconds, "seconds", 3, "how long each measurement lasts")
	durabilityFlag(cmd, &b.Durability)
	cmd.Flags().StringVar(&w.Workload, "workload", "", "run this application instead")
	cmd.Flags().StringVar(&w.Variant, "variant", "micro", "with --workload: how it uses the store")
	cmd.Flags().IntVar(&w.Flows, "flows", 0,
		"with --workload: packets that are handled at a time; 0: the most with a p90 of at most 1 ms")
	cmd.Flags().IntVar(&w.Clients, "domains", 1, "with --workload: clients, each with a namespace")
	return benchmarkCommand(cmd, &storeBenchmark{&b, &w}, &b.Binary)
}

// storeBenchmark is one of the store, or of an application on it.
type storeBenchmark struct {
	*bench.Store
	workload *bench.StoreWorkload
}

func (s *storeBenchmark) Validate() error {
	if s.workload.Workload == "" {
		return s.Store.Validate()
	}
	return s.shared().Validate()
}

func (s *storeBenchmark) Run(ctx context.Context, progress bench.Progress) (bench.Report, error) {
	if s.workload.Workload == "" {
		return s.Store.Run(ctx, progress)
	}
	collectLess() // as in holdfast store app
	return s.shared().Run(ctx, progress)
}

// shared returns the workload with the flags that both benchmarks have.
func (s *storeBenchmark) shared() *bench.StoreWorkload {
	w := s.workload
	w.Binary, w.Seconds, w.Durability = s.Binary, s.Seconds, s.Durability
	return w
}
