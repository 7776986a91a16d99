package app_test

import (
	"testing"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/app/apptest"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// All flow entries of an application are in the table in which it was put, and it deletes no other ones.
func TestInTable(t *testing.T) {
	a := app.New("low")
	app.Handle(a, nil, func(tx *app.Tx, up app.SwitchUp) error {
		tx.TableMiss(up.Switch)
		tx.Send(up.Switch, &of13.FlowMod{Command: of13.FlowDelete, TableID: of13.TableAll, BufferID: of13.NoBuffer,
			OutPort: of13.PortAny, OutGroup: of13.GroupAny})
		tx.Send(up.Switch, &of13.BarrierRequest{})
		return nil
	})
	for _, table := range []uint8{0, 3} {
		a.InTable(table)
		sent := apptest.New(t, a).SwitchUp(1)
		want := []uint8{table, table}
		if table == 0 {
			want[1] = of13.TableAll
		}
		for i, m := range sent[:2] {
			if got := m.Message.(*of13.FlowMod).TableID; got != want[i] {
				t.Errorf("in table %d, command %d is for table %d, want %d", table, i, got, want[i])
			}
		}
		if len(sent) != 3 {
			t.Errorf("sent %v", sent)
		}
	}
}
