package promises

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/holdfast-sdn/holdfast/apps/tenants"
	"github.com/holdfast-sdn/holdfast/lab/vswitch"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// The second act: a pair of switches, linked by their ports 1, and machines of two tenants at ports 2 to 4. The tenants
// use the same addresses, so they need a network whose application tells them apart.
const pairSize = 2

// machine is the address of the machines one and two of each tenant.
func machine(n byte) of13.MAC { return of13.MAC{2, 0, 0, 0, 0, n} }

// playTenants has each tenant send from its machine one to its machine two. That of red moves from one switch to the
// other, and a leader dies meanwhile.
func playTenants(ctx context.Context, s *site, r *Result) error {
	s.link(1, 1, 2, 1)
	s.say("two tenants with the same addresses on two switches, and three controllers")
	at := func(id int, port of13.Port, n byte) *vswitch.Host {
		return s.host(id, port, machine(n), [4]byte{10, 0, 0, n})
	}
	red, blue := at(1, 2, 1), at(1, 3, 1)
	redThere, blueThere := at(2, 2, 2), at(2, 3, 2)
	redMoved := at(1, 4, 2)
	before, after := s.add(red, redThere, machine(2), allowedPort, 0), s.add(red, redMoved, machine(2), allowedPort, 0)
	other := s.add(blue, blueThere, machine(2), allowedPort, 0)
	if err := s.WaitReady(ctx, pairSize); err != nil {
		return err
	}
	for _, m := range []struct {
		tenant string
		n      byte
		id     int
		port   of13.Port
	}{{"red", 1, 1, 2}, {"red", 2, 2, 2}, {"blue", 1, 1, 3}, {"blue", 2, 2, 3}} {
		if err := s.attach(ctx, m.tenant, m.n, m.id, m.port); err != nil {
			return err
		}
	}
	sending, stop := context.WithCancel(s.sending)
	defer stop()
	s.tasks.Go(func() { before.run(sending) })
	s.send(other)
	both := func() bool { return before.flows(0) && other.flows(0) }
	if err := s.until(ctx, "both tenants' frames", both); err != nil {
		return err
	}
	begun := other.next()
	stop() // the machine stops here, moves, and goes on there
	dead, err := s.kill(ctx)
	if err != nil {
		return err
	}
	moving := time.Now()
	if err := s.attach(ctx, "red", 2, 1, 4); err != nil {
		return err
	}
	took := time.Since(moving)
	s.say(fmt.Sprintf("leader %s killed; machine two of red has moved to the other switch since", dead.Name))
	s.send(after)
	if err := s.until(ctx, "frames of red where it is now", func() bool { return after.flows(0) }); err != nil {
		return err
	}
	if err := s.restart(ctx, pairSize, dead); err != nil {
		return err
	}
	ends := [2]int{after.next(), other.next()}
	time.Sleep(settle)
	moved, stayed := after.count(0, ends[0]), other.count(begun, ends[1])
	mixed := before.count(0, before.next()).wrong + moved.wrong + stayed.wrong
	r.add("tenants", "a machine moves, and no packet of a tenant comes to another one",
		mixed+moved.lost()+stayed.lost() == 0,
		"%d of %d packets came elsewhere; moved in %d ms, then %d lost; of the other tenant %d lost", mixed,
		moved.sent+stayed.sent, took.Milliseconds(), moved.lost(), stayed.lost())
	r.Figures["tenant_mixed"], r.Figures["tenant_moved_ms"] = float64(mixed), took.Seconds()*1000
	return nil
}

// attach says where a machine of a tenant is, and waits until the network knows.
func (s *site) attach(ctx context.Context, tenant string, n byte, id int, port of13.Port) error {
	if _, err := s.request(ctx, "PUT", "tenants/"+tenant, ""); err != nil {
		return err
	}
	path := fmt.Sprintf("tenants/%s/hosts/%v", tenant, machine(n))
	if _, err := s.request(ctx, "PUT", path, fmt.Sprintf(`{"switch":"%d","port":%d}`, id, port)); err != nil {
		return err
	}
	return s.until(ctx, path+" to be ready", func() bool {
		text, err := s.request(ctx, "GET", path, "")
		var is tenants.Status
		return err == nil && json.Unmarshal([]byte(text), &is) == nil && is.Ready && is.Port == port
	})
}
