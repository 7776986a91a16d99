package bfd_test

import (
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/bfd"
	"github.com/holdfast-sdn/holdfast/lab/netlab"
	"github.com/holdfast-sdn/holdfast/lab/vswitch"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
	"github.com/holdfast-sdn/holdfast/ovsdb"
)

// A software switch of ours and a real Open vSwitch are connected by a cable. Both detect a silent cut, and the
// repair.
func TestSwitchWithOpenVSwitch(t *testing.T) {
	t.Parallel()
	lab := netlab.ForTest(t)
	s := must(lab.AddSwitch("s1", 0x11))(t)
	h := must(lab.AddHost("h1", netip.MustParsePrefix("10.0.0.1/24")))(t)
	cable := must(lab.Connect(s, h))(t)
	db := watch(t, s)
	const interval = 10 * beat
	end := await(t, db, "p1", "plugged in", hasLink)
	if err := db.SetBFD(t.Context(), end, ovsdb.BFD{MinTx: interval, MinRx: interval}); err != nil {
		t.Fatal(err)
	}

	ours := vswitch.StartRunner(vswitch.RunnerConfig{Switch: vswitch.Config{DatapathID: 2, Ports: vswitch.Ports(2, 1)}})
	served := make(chan error, 1)
	var device *vswitch.Device
	err := h.Do(func() (err error) {
		device, err = vswitch.OpenDevice("eth0")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer device.Close()
	go func() { served <- device.Serve(ours, 1) }()
	defer func() {
		ours.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()
	session := bfd.Config{Discriminator: rand.Uint32() | 1, MinTx: interval, MinRx: interval,
		Multiplier: bfd.Multiplier, Jitter: rand.Float64}
	ours.Do(func(s *vswitch.Switch, now time.Duration) { err = s.SetBFD(now, of13.Port(1), session) })
	if err != nil {
		t.Fatal(err)
	}
	notices := func(what string, up bool) {
		t.Helper()
		for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(ms) {
			var status bfd.Status
			ours.Do(func(s *vswitch.Switch, _ time.Duration) { status, _ = s.BFD(1) })
			if (status.State == bfd.Up) == up {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: our session is %+v", what, status)
			}
		}
	}
	await(t, db, "p1", "up", isUp)
	notices("at first", true)
	if err := cable.CutSilently(); err != nil {
		t.Fatal(err)
	}
	await(t, db, "p1", "down", func(i ovsdb.Interface) bool { return isDown(i) && i.LinkUp })
	notices("cut silently", false)
	if err := cable.Restore(); err != nil {
		t.Fatal(err)
	}
	await(t, db, "p1", "up again", isUp)
	notices("mended", true)
}
