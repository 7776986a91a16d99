package promises

import (
	"context"
	"sync"

	"github.com/holdfast-sdn/holdfast/lab/vswitch"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// portsOfEach is how many ports a switch has.
const portsOfEach = 4

// network is switches in this process, and hosts that send streams.
type network struct {
	switches []*vswitch.Runner
	hosts    []*vswitch.Host
	streams  []*stream
	sending  context.Context
	stop     context.CancelFunc
	tasks    sync.WaitGroup
}

// startNetwork starts switches 1 to n, which connect to an agent.
func startNetwork(agent string, n int) *network {
	w := &network{}
	w.sending, w.stop = context.WithCancel(context.Background())
	for i := range n {
		w.switches = append(w.switches, vswitch.StartRunner(vswitch.RunnerConfig{Controllers: []string{agent},
			Switch: vswitch.Config{DatapathID: openflow.DatapathID(i + 1), Ports: vswitch.Ports(i+1, portsOfEach)}}))
	}
	return w
}

// link connects two switches.
func (w *network) link(a int, portA of13.Port, b int, portB of13.Port) *vswitch.Link {
	return vswitch.Connect(w.switches[a-1].Port(portA), w.switches[b-1].Port(portB))
}

// host adds a host at a port of a switch.
func (w *network) host(id int, port of13.Port, mac of13.MAC, ip [4]byte) *vswitch.Host {
	h := vswitch.NewHost(mac, ip)
	vswitch.Connect(w.switches[id-1].Port(port), h)
	w.hosts = append(w.hosts, h)
	w.tasks.Go(func() { // ends with the network
		for {
			select {
			case <-w.sending.Done():
				return
			case f := <-h.Received():
				if id, n, ok := parse(f); ok && int(id) < len(w.streams) {
					w.streams[id].arrive(h, n, f)
				}
			}
		}
	})
	return h
}

// send starts a stream. All streams are added before one starts.
func (w *network) send(s *stream) { w.tasks.Go(func() { s.run(w.sending) }) }

func (w *network) close() {
	w.stop()
	w.tasks.Wait()
	for _, s := range w.switches {
		s.Close()
	}
}
