package netlab

import (
	"fmt"
	"net"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/ofconn"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// executeTimeout bounds how long a switch may take for Execute.
const executeTimeout = 10 * time.Second

// Execute has the switch carry out messages, in OpenFlow 1.3, and waits until it has; one that it refuses is an error.
// They go over the switch's own management socket, as those of OFCtl do.
func (s *Switch) Execute(msgs []of13.Message) error {
	if err := execute(s.path(bridge+".mgmt"), msgs); err != nil {
		return fmt.Errorf("switch %s: %w", s.Name, err)
	}
	return nil
}

func execute(socket string, msgs []of13.Message) error {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(executeTimeout)); err != nil {
		return err
	}
	hello := of13.NewHello(of13.VersionsOf(of13.Version))
	b := hello.Append(nil, 1)
	for _, m := range msgs {
		b = m.Append(b, 2)
	}
	if _, err := conn.Write((&of13.BarrierRequest{}).Append(b, 3)); err != nil {
		return err
	}
	for r := ofconn.NewReader(conn); ; {
		batch, err := r.Next()
		if err != nil {
			return err
		}
		for len(batch) > 0 {
			var raw []byte
			raw, batch, _ = openflow.Next(batch) // the reader returns whole messages
			switch m, err := of13.Decode(raw); {
			case err != nil:
				return err
			case m.Type() == of13.TypeError:
				return fmt.Errorf("it refuses: %v", m)
			case m.Type() == of13.TypeBarrierReply:
				return nil
			}
		}
	}
}
