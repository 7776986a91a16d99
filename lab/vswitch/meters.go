package vswitch

import (
	"slices"
	"time"

	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// maxBands bounds the bands of one meter.
const maxBands = 16

// fullFrame is the size of the largest Ethernet frame with a tag, in bits.
const fullFrame = 1522 * 8

// meter is an entry of the meter table (section 5.7).
type meter struct {
	id      uint32
	flags   uint16
	wire    of13.Bands
	bands   []band
	in      of13.Counter
	created time.Duration
}

// band is a token bucket. Tokens are packets or bits, times a billion, so that filling by nanoseconds is exact.
type band struct {
	of13.Band
	rate   uint64 // tokens per nanosecond
	depth  uint64
	tokens uint64
	filled time.Duration // when tokens was computed
	count  of13.Counter
}

// meterMod executes a METER_MOD (section 6.6).
func (s *Switch) meterMod(now time.Duration, m *of13.MeterMod) error {
	old := s.meters[m.MeterID]
	switch m.Command {
	case of13.MeterAdd:
		if old != nil {
			return refuse(of13.ErrTypeMeterModFailed, of13.MeterModFailedMeterExists)
		}
		if m.MeterID == 0 || m.MeterID > of13.MeterMax {
			return refuse(of13.ErrTypeMeterModFailed, of13.MeterModFailedInvalidMeter)
		}
		if len(s.meters) >= s.config.MaxMeters {
			return refuse(of13.ErrTypeMeterModFailed, of13.MeterModFailedOutOfMeters)
		}
	case of13.MeterModify:
		if old == nil {
			return refuse(of13.ErrTypeMeterModFailed, of13.MeterModFailedUnknownMeter)
		}
	case of13.MeterDelete:
		return s.deleteMeters(now, m.MeterID)
	default:
		return refuse(of13.ErrTypeMeterModFailed, of13.MeterModFailedBadCommand)
	}
	n, err := compileMeter(now, m)
	if err != nil {
		return err
	}
	if old != nil {
		n.created, n.in = old.created, old.in
	}
	s.meters[m.MeterID] = n
	return nil
}

func compileMeter(now time.Duration, m *of13.MeterMod) (*meter, error) {
	const known = of13.MeterKbps | of13.MeterPktps | of13.MeterBurst | of13.MeterStats
	if m.Flags&^known != 0 || m.Flags&of13.MeterKbps != 0 && m.Flags&of13.MeterPktps != 0 {
		return nil, refuse(of13.ErrTypeMeterModFailed, of13.MeterModFailedBadFlags)
	}
	n := &meter{id: m.MeterID, flags: m.Flags, wire: slices.Clone(m.Bands), created: now}
	unit, one := uint64(1000), uint64(fullFrame) // bits in a kilobit, and in a packet
	if m.Flags&of13.MeterPktps != 0 {
		unit, one = 1, 1
	}
	for w := range n.wire.All() {
		switch {
		case len(n.bands) == maxBands:
			return nil, refuse(of13.ErrTypeMeterModFailed, of13.MeterModFailedOutOfBands)
		case w.BandType == of13.BandExperimenter:
			return nil, refuse(of13.ErrTypeMeterModFailed, of13.MeterModFailedBadBand)
		case w.BandType == of13.BandDSCPRemark && w.PrecLevel > 3:
			return nil, refuse(of13.ErrTypeMeterModFailed, of13.MeterModFailedBadBandValue)
		}
		burst := uint64(w.Rate) // without a burst size, what passes in a second
		if m.Flags&of13.MeterBurst != 0 {
			burst = uint64(w.Burst)
		}
		// At least one packet must fit; the other bound keeps the value in 64 bits.
		depth := min(max(burst*unit, one), 4e9) * 1e9
		b := band{Band: w, rate: uint64(w.Rate) * unit, depth: depth, tokens: depth, filled: now}
		n.bands = append(n.bands, b)
	}
	return n, nil
}

// deleteMeters deletes one meter, or all, with the entries that use them.
func (s *Switch) deleteMeters(now time.Duration, id uint32) error {
	if id != of13.MeterAll && (id == 0 || id > of13.MeterMax) {
		return refuse(of13.ErrTypeMeterModFailed, of13.MeterModFailedInvalidMeter)
	}
	if id != of13.MeterAll && s.meters[id] == nil {
		return nil
	}
	for _, t := range s.tables {
		for f := range t.all {
			if u := f.program.meter; u != 0 && (u == id || id == of13.MeterAll) {
				s.removeFlow(now, f, of13.FlowRemovedDelete)
			}
		}
	}
	if id == of13.MeterAll {
		clear(s.meters)
	}
	delete(s.meters, id)
	return nil
}

func (s *Switch) sortedMeters() []*meter {
	return sortedBy(s.meters, func(m *meter) uint32 { return m.id })
}

// pass meters p: of the bands whose rate is exceeded the one with the highest rate applies. It returns false if that
// drops the packet.
func (m *meter) pass(now time.Duration, p *packet) bool {
	m.in.Packets++
	m.in.Bytes += uint64(len(p.data))
	cost := uint64(1e9)
	if m.flags&of13.MeterPktps == 0 {
		cost = uint64(len(p.data)) * 8 * 1e9
	}
	var hit *band
	for i := range m.bands {
		b := &m.bands[i]
		if !b.take(now, cost) && (hit == nil || b.Rate > hit.Rate) {
			hit = b
		}
	}
	if hit == nil {
		return true
	}
	hit.count.Packets++
	hit.count.Bytes += uint64(len(p.data))
	if hit.BandType == of13.BandDrop {
		return false
	}
	remark(p, hit.PrecLevel)
	return true
}

// take fills the bucket up to now, and removes cost if there is enough.
func (b *band) take(now time.Duration, cost uint64) bool {
	if dt := now - b.filled; dt > 0 {
		b.filled = now
		if room := b.depth - b.tokens; b.rate > 0 {
			if uint64(dt) >= room/b.rate {
				b.tokens = b.depth
			} else {
				b.tokens += uint64(dt) * b.rate
			}
		}
	}
	if b.tokens < cost {
		return false
	}
	b.tokens -= cost
	return true
}

// remark raises the drop precedence of an assured-forwarding class (RFC 2597), at most to 3.
func remark(p *packet, levels uint8) {
	p.refresh()
	if l := p.layers; l.l3 == 0 || l.ether != typeIPv4 && l.ether != typeIPv6 {
		return
	}
	dscp := p.key.field(of13.FieldIPDSCP)[0]
	class, drop := dscp>>3, dscp>>1&3
	if class < 1 || class > 4 || drop == 0 {
		return
	}
	p.setField(of13.FieldIPDSCP, []byte{class<<3 | min(drop+levels, 3)<<1})
}
