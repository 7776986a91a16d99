package failover

import (
	"context"
	"fmt"

	"github.com/holdfast-sdn/holdfast/lab/cluster"
	"github.com/holdfast-sdn/holdfast/store"
	"github.com/holdfast-sdn/holdfast/store/client"
)

const (
	rowsTable = "rows"
	rowsValue = 32 // bytes
)

// fill writes the rows of the store that the controllers hold during the experiment. A namespace takes store.MaxRows,
// so there are as many namespaces as needed.
func (t *experiment) fill(ctx context.Context) error {
	leader, err := t.cluster.WaitLeader(ctx)
	if err != nil {
		return err
	}
	for first := 0; first < t.Rows; first += store.MaxRows {
		t.Progress(0, fmt.Sprintf("%d of %d rows are written", first, t.Rows))
		namespace := fmt.Sprintf("rows%d", first/store.MaxRows)
		if err := fillNamespace(ctx, leader, namespace, min(store.MaxRows, t.Rows-first)); err != nil {
			return t.cluster.WithLogs(fmt.Errorf("write rows of the namespace %s: %w", namespace, err))
		}
	}
	return nil
}

func fillNamespace(ctx context.Context, leader *cluster.Controller, namespace string, rows int) error {
	cl, err := client.New(namespace, leader.REST)
	if err != nil {
		return err
	}
	defer cl.Close()
	if _, err := cl.Do(ctx, store.Op{Kind: store.CreateTable, Table: rowsTable}); err != nil {
		return err
	}
	for first := 0; first < rows; first += store.MaxOps {
		var transactions [][]store.Op
		for n := first; n < min(rows, first+store.MaxOps); n++ {
			transactions = append(transactions, []store.Op{{Kind: store.Put, Table: rowsTable,
				Key: fmt.Sprintf("row%06d", n), Columns: store.Value(make([]byte, rowsValue))}})
		}
		outcomes, err := cl.Batch(ctx, transactions...)
		if err != nil {
			return err
		}
		for _, o := range outcomes {
			if o.Error != nil {
				return o.Error
			}
		}
	}
	return nil
}
