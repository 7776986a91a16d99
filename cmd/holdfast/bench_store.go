package main

import (
	"github.com/spf13/cobra"

	"github.com/holdfast-sdn/holdfast/lab/bench"
)

func benchStoreCommand() *cobra.Command {
	var b bench.Store
	cmd := &cobra.Command{
		Use:   "store",
		Short: "Throughput and latency of the consistent data store, beside etcd",
		Long: `Run the store on three controllers: updates and linearizable reads in batches over a stream, updates in
one request each by many clients, and by one client alone. Then the same updates on a cluster of three
etcd, which is built unless --etcd has one. All share the machine with the clients.`,
		Example: `  holdfast bench store --durability disk --json
  holdfast bench store --batch 64 --etcd /usr/bin/etcd`,
	}
	cmd.Flags().StringVar(&b.Etcd, "etcd", "", "the etcd binary; by default it is built, in the folder of the source")
	cmd.Flags().IntVar(&b.Batch, "batch", 512, "updates of a batch")
	cmd.Flags().IntVar(&b.Callers, "callers", 8, "batches at a time")
	cmd.Flags().IntVar(&b.Clients, "clients", 500, "clients with one update at a time")
	cmd.Flags().IntVar(&b.Seconds, "seconds", 3, "how long each measurement lasts")
	durabilityFlag(cmd, &b.Durability)
	return benchmarkCommand(cmd, &b, &b.Binary)
}
