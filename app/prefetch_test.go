package app_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// Of a packet that an application handles, the rows of its sender and its receiver are prefetched.
func TestPrefetch(t *testing.T) {
	handles, deaf := app.New("handles"), app.New("deaf")
	for _, a := range []*app.App{handles, deaf} {
		app.NewMap[app.Switch, app.MAC, app.Port](a, "hosts")
		app.NewMap[app.Switch, app.Port, int](a, "counts")
		app.NewTable[app.MAC, app.Port](a, "ports")
	}
	app.Handle(handles, nil, func(*app.Tx, app.PacketIn) error { return nil })
	packet := of13.PacketIn{BufferID: of13.NoBuffer, Data: []byte{2, 0, 0, 0, 0, 7, 2, 0, 0, 0, 0, 9, 8, 0}}
	whole := packet.Append(nil, 0)
	status := of13.PortStatus{}
	for _, x := range []struct {
		name    string
		app     *app.App
		message []byte
		want    []string
	}{
		{"packet", handles, whole, []string{"hosts 5 20000000009", "hosts 5 20000000007"}},
		{"another one to the same receiver", handles, whole, []string{"hosts 5 20000000009"}},
		{"nobody handles it", deaf, whole, nil},
		{"damaged", handles, whole[:20], nil},
		{"short", handles, whole[:1], nil},
		{"another message", handles, status.Append(nil, 0), nil},
	} {
		var got []string
		x.app.Prefetch(&ledger.Input{Kind: ledger.Message, Switch: 5, Message: x.message},
			func(table string, cell, field ledger.Key) {
				got = append(got, fmt.Sprint(table, " ", cell, " ", field))
			})
		if !slices.Equal(got, x.want) {
			t.Errorf("%s: %q, want %q", x.name, got, x.want)
		}
	}
}

// The buffer of an earlier packet is in use again when a damaged one comes.
func TestDamagedPacketAfterAnother(t *testing.T) {
	a := app.New("a")
	app.NewMap[app.Switch, app.MAC, app.Port](a, "hosts")
	app.Handle(a, nil, func(*app.Tx, app.PacketIn) error { return nil })
	row := func(string, ledger.Key, ledger.Key) {}
	p := of13.PacketIn{BufferID: of13.NoBuffer, Match: of13.Match(nil).WithInPort(1),
		Data: []byte{2, 0, 0, 0, 0, 7, 2, 0, 0, 0, 0, 9, 8, 0}}
	buffer := p.Append(nil, 0)
	damaged := []byte{4, of13.TypePacketIn, 0, 8, 0, 0, 0, 0}
	a.Prefetch(&ledger.Input{Kind: ledger.Message, Switch: 5, Message: buffer}, row)
	for i := range buffer {
		buffer[i] = 0xff
	}
	a.Prefetch(&ledger.Input{Kind: ledger.Message, Switch: 5, Message: damaged}, row)
}
