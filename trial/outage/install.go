package outage

import (
	"fmt"
	"net"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/ofconn"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// installTimeout bounds how long a switch may take to take its program.
const installTimeout = 10 * time.Second

// install sends messages to the management socket of a switch, and waits until it has carried them out.
func install(path string, msgs []of13.Message) error {
	conn, err := net.Dial("unix", path)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(installTimeout)); err != nil {
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
