package of14

import (
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// counters are what a list of statistics fields (OXS) of 1.5 can tell that 1.3 has too.
type counters struct {
	duration       of13.Duration
	flows          uint32
	packets, bytes uint64
}

// Fields of the class OpenFlow basic of OXS.
const (
	oxsClassBasic  uint16 = 0x8002
	oxsDuration    uint8  = 0
	oxsFlowCount   uint8  = 3
	oxsPacketCount uint8  = 4
	oxsByteCount   uint8  = 5
)

// statsAt reads the statistics at msg[off:end], and where they end with their padding. What is not there is all
// ones, as 1.3 says that the switch does not count it.
func statsAt(msg []byte, off, end int) (counters, int, error) {
	c := counters{of13.Duration{Sec: 1<<32 - 1, Nsec: 1<<32 - 1}, 1<<32 - 1, 1<<64 - 1, 1<<64 - 1}
	n, err := sized(msg, off, end, 2, 4, "a list of statistics")
	if err == nil && padded(n) > end-off {
		err = fail(msg, off+2, openflow.BadLength, "statistics of %d bytes without their padding", n)
	}
	if err != nil {
		return c, 0, err
	}
	for at := off + 4; at < off+n; {
		if off+n-at < 4 || int(msg[at+3]) > off+n-at-4 {
			return c, 0, fail(msg, at, openflow.BadLength, "a statistics field, %d bytes left", off+n-at)
		}
		if v := msg[at+4 : at+4+int(msg[at+3])]; be.Uint16(msg[at:]) == oxsClassBasic {
			c.set(msg[at+2]>>1, v)
		}
		at += 4 + int(msg[at+3])
	}
	return c, off + padded(n), nil
}

func (c *counters) set(field uint8, v []byte) {
	switch {
	case field == oxsDuration && len(v) == 8:
		c.duration = of13.Duration{Sec: be.Uint32(v), Nsec: be.Uint32(v[4:])}
	case field == oxsFlowCount && len(v) == 4:
		c.flows = be.Uint32(v)
	case field == oxsPacketCount && len(v) == 8:
		c.packets = be.Uint64(v)
	case field == oxsByteCount && len(v) == 8:
		c.bytes = be.Uint64(v)
	}
}
