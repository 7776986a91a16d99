package ovsdb

import (
	"errors"
	"maps"
	"net"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestConfigOfBFD(t *testing.T) {
	const ms = time.Millisecond
	mac := net.HardwareAddr{2, 0, 0, 0, 0, 1}
	for _, c := range []struct {
		in   BFD
		want textMap
	}{
		{BFD{MinTx: 5 * ms, MinRx: 1500 * time.Microsecond}, textMap{"enable": "true", "min_tx": "5", "min_rx": "2"}},
		{BFD{MinTx: 1, MinRx: time.Second, Multiplier: 5},
			textMap{"enable": "true", "min_tx": "1", "min_rx": "1000", "mult": "5"}},
		{BFD{MinTx: ms, MinRx: ms, LocalDst: mac, RemoteDst: mac},
			textMap{"enable": "true", "min_tx": "1", "min_rx": "1",
				"bfd_local_dst_mac": "02:00:00:00:00:01", "bfd_remote_dst_mac": "02:00:00:00:00:01"}},
		{BFD{MinTx: ms}, nil},
		{BFD{MinTx: -ms, MinRx: ms}, nil},
		{BFD{MinTx: 2 * time.Hour, MinRx: ms}, nil},
		{BFD{MinTx: ms, MinRx: ms, Multiplier: 256}, nil},
		{BFD{MinTx: ms, MinRx: ms, Multiplier: -1}, nil},
	} {
		got, err := c.in.config()
		if (err == nil) != (c.want != nil) || !maps.Equal(got, c.want) {
			t.Errorf("%+v: %v, error %v", c.in, got, err)
		}
	}
}

func TestForeign(t *testing.T) {
	want := textMap{"enable": "true", "min_tx": "5"}
	for _, c := range []struct {
		what      string
		bfd, ours textMap
		foreign   bool
	}{
		{"nothing there", nil, nil, false},
		{"ours", textMap{"enable": "true", "min_tx": "9"}, textMap{"enable": "true", "min_tx": "9"}, false},
		{"ours, and a key of others", textMap{"enable": "true", "decay_min_rx": "9"}, textMap{"enable": "true"}, false},
		{"ours, partly removed by others", nil, textMap{"enable": "true"}, false},
		{"ours, changed by others", textMap{"enable": "false", "min_tx": "5"}, textMap{"enable": "true", "min_tx": "5"},
			true},
		{"others'", textMap{"enable": "true"}, nil, true},
		{"others', and off", textMap{"decay_min_rx": "9"}, nil, true},
	} {
		if err := foreign(c.bfd, c.ours, want); errors.Is(err, ErrForeign) != c.foreign {
			t.Errorf("%s: error %v", c.what, err)
		}
	}
}

func TestMark(t *testing.T) {
	m := textMap{"enable": "true", "min_tx": "5", "bfd_local_dst_mac": "02:00:00:00:00:01"}
	if diff := cmp.Diff(m, parseMark(mark(m))); diff != "" {
		t.Error(diff)
	}
	if got := parseMark("  what is this= "); len(got) != 3 {
		t.Errorf("%v", got)
	}
}
