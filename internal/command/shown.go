package command

import (
	"iter"
	"slices"
	"time"

	"github.com/holdfast-sdn/holdfast/api"
	"github.com/holdfast-sdn/holdfast/controller"
	"github.com/holdfast-sdn/holdfast/internal/config"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/network/recovery"
	"github.com/holdfast-sdn/holdfast/network/show"
	"github.com/holdfast-sdn/holdfast/network/topology"
	"github.com/holdfast-sdn/holdfast/store"
)

// showNetwork returns what reads the network for the API of controllers, if application topology runs; else nil.
func showNetwork(s *config.Cluster) *controller.Network {
	apps := withRequirements(s.Apps)
	if !slices.Contains(apps, topology.Name) {
		return nil
	}
	n := &controller.Network{Application: topology.Name, Read: func(rows iter.Seq[ledger.Row]) (any, error) {
		s, err := topology.Of(rows)
		if err != nil {
			return nil, err
		}
		return show.NewTopology(s), nil
	}, Paths: askPaths}
	if slices.Contains(apps, recovery.Name) {
		n.Recovery = recovery.Name
		n.Protection = func(rows iter.Seq[ledger.Row]) (any, error) {
			v, err := recovery.Of(rows)
			if err != nil {
				return nil, err
			}
			return show.NewProtection(v, time.Now())
		}
	}
	return n
}

func askPaths(network, protected iter.Seq[ledger.Row], q *api.GetPathsRequest) (any, error) {
	s, err := topology.Of(network)
	if err != nil {
		return nil, err
	}
	var v *recovery.View
	if protected != nil {
		if v, err = recovery.Of(protected); err != nil {
			return nil, err
		}
	}
	return show.Ask(s, v, show.Question{From: q.From, To: q.To}, time.Now())
}

// showStore returns what reads the store for the API of controllers, if it runs; else nil.
func showStore(s *config.Cluster) *controller.Store {
	if !slices.Contains(withRequirements(s.Apps), store.Name) {
		return nil
	}
	return &controller.Store{Application: store.Name,
		Contents: func(rows iter.Seq[ledger.Row]) (any, error) { return store.Contents(rows) },
		Page: func(rows iter.Seq[ledger.Row], q *api.ListStoreRowsRequest, after string, most int) (any, bool, error) {
			p, err := store.Range{Namespace: q.Namespace, Table: q.Table, Prefix: q.KeyPrefix, After: after,
				Most: most}.Read(rows)
			if err != nil {
				return nil, false, err
			}
			return p, p.More, nil
		}}
}
