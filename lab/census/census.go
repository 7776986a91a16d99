// Package census is the load of simulated networks: an application that does all that applications may, and the frames
// that hosts send. It is deterministic, so that a checker can execute what was logged once more. It is no example for
// applications that somebody runs.
package census

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// Name is that of the application.
const Name = "census"

// EtherType is that of frames: one for local experiments.
const EtherType = 0x88b5

// HostPort is the port at which each switch has its host.
const HostPort of13.Port = 1

const round = 700 * time.Millisecond

// burst is how many commands a switch gets at once now and then: with others that wait, more than a low bound.
const burst = 16

// tally is what census emits.
type tally struct{ Switch, Count, Frame uint64 }

// Config says what census does.
type Config struct {
	Errs    bool // it sends commands that switches refuse too
	Sharded bool // there are several groups; then only its actor of no switch sends commands to other switches
	Keyed   bool // it has actors with a key, too
	// Requests: it has a handler over HTTP, for actors with a key; see Request. It needs Wrong.
	Requests bool
	// Minorities: it has a handler that runs without a majority, and writes.
	Minorities bool
	// Wrong is called if of those an actor gets a message before an earlier one of the same sender, or if a call ends
	// or is executed twice. Keyed needs it.
	Wrong func(text string)
}

// New makes census, which uses all that an application may: tables, timers, messages to itself, commands to other
// switches, questions to switches, and failures. It is deterministic.
func New(cfg Config) *app.App {
	a := app.New(Name)
	seen := app.NewTable[app.Switch, uint64](a, "seen")
	tallies := app.NewMap[app.Switch, uint64, uint64](a, "tallies")
	rounds := app.NewTable[string, uint64](a, "rounds")
	ports := app.NewTable[app.PortOf, uint64](a, "ports")
	if cfg.Sharded {
		elsewhere(a)
	}
	if cfg.Keyed {
		keyed(a, cfg.Wrong)
	}
	if cfg.Requests {
		requests(a, cfg.Wrong)
	}
	if cfg.Minorities {
		counts(a)
	}

	app.Handle(a, func(in app.PacketIn) app.Cells { return app.Need(seen.Cell(in.Switch)) },
		func(tx *app.Tx, in app.PacketIn) error {
			count, _ := seen.Get(tx, in.Switch)
			count++
			seen.Put(tx, in.Switch, count)
			if count%5 == 0 && !cfg.Sharded {
				for to := range tx.Switches() {
					if to != in.Switch {
						note(tx, to, count)
					}
				}
			}
			switch count % 8 {
			case 3:
				if err := tx.SetTimer("late", round/2, nil); err != nil {
					return err
				}
			case 6:
				tx.CancelTimer("late")
			}
			if count%16 == 0 {
				tx.Send(in.Switch, &of13.BarrierRequest{})
			}
			if cfg.Errs && count%32 == 7 {
				mistake(tx, in.Switch, count)
				note(tx, in.Switch, count)
			}
			if count%64 == 0 && !cfg.Sharded {
				for to := range tx.Switches() {
					for i := range uint64(burst) {
						note(tx, to, i)
					}
				}
			}
			sent := frameNumber(in.Data)
			if sent%97 == 0 {
				// not a cell that it named: all that it did for this frame is discarded
				tallies.Delete(tx, in.Switch, sent)
			}
			if count%8 == 0 {
				return app.Emit(tx, tally{uint64(in.Switch), count, sent})
			}
			return nil
		})
	app.HandleEmitted(a, func(t tally) app.Cells { return app.Need(tallies.Cell(app.Switch(t.Switch))) },
		func(tx *app.Tx, t tally) error {
			tallies.Put(tx, app.Switch(t.Switch), t.Count/8%32, t.Count)
			if t.Frame%8 == 0 { // not of the count, which would be discarded, and fail again
				return errors.New("every eighth tally fails")
			}
			return nil
		})
	app.Handle(a, nil, func(tx *app.Tx, up app.SwitchUp) error {
		note(tx, up.Switch, 0)
		return tx.SetTimer("round", round, nil)
	})
	app.Handle(a, func(t app.Timer) app.Cells { return app.Need(rounds.Cell(t.Name)) },
		func(tx *app.Tx, t app.Timer) error {
			n, _ := rounds.Get(tx, t.Name)
			rounds.Put(tx, t.Name, n+1)
			if t.Name != "round" {
				return nil
			}
			for to := range tx.Switches() {
				note(tx, to, n)
			}
			return tx.SetTimer("round", round, nil)
		})
	app.Handle(a, func(p app.PortStatus) app.Cells {
		return app.Need(ports.Cell(app.PortOf{Switch: p.Switch, Port: p.Port.Port}))
	},
		func(tx *app.Tx, p app.PortStatus) error {
			ports.Put(tx, app.PortOf{Switch: p.Switch, Port: p.Port.Port}, uint64(tx.Now().UnixNano()))
			return nil
		})
	return a
}

// counts adds a handler that runs without a majority. It counts packets, and does all that is undone then.
func counts(a *app.App) {
	counted := app.NewTable[app.Switch, uint64](a, "counted")
	app.Handle(a, func(in app.PacketIn) app.Cells { return app.Need(counted.Cell(in.Switch)) },
		func(tx *app.Tx, in app.PacketIn) error {
			n, _ := counted.Get(tx, in.Switch)
			counted.Put(tx, in.Switch, n+1)
			if n%3 == 0 {
				note(tx, in.Switch, n)
			}
			if n%7 == 0 {
				if err := tx.SetTimer("late", round/2, nil); err != nil {
					return err
				}
				return app.Emit(tx, tally{uint64(in.Switch), n, 1})
			}
			return nil
		}, app.Degraded())
}

// elsewhere adds what an actor does that belongs to no switch, and so is in another group than most: it counts the
// packets of all switches, and sends commands to all of them.
func elsewhere(a *app.App) {
	totals := app.NewTable[uint64, uint64](a, "totals")
	const packets, ups, answers, void = 0, 1, 2, 3
	add := func(tx *app.Tx, what uint64) uint64 {
		n, _ := totals.Get(tx, what)
		totals.Put(tx, what, n+1)
		return n + 1
	}
	app.Handle(a, func(app.PacketIn) app.Cells { return app.Need(totals.Cell(packets)) },
		func(tx *app.Tx, in app.PacketIn) error {
			n := add(tx, packets)
			for to := range tx.Switches() {
				switch {
				case n%64 == 0:
					for i := range uint64(burst) {
						note(tx, to, i)
					}
				case n%16 == uint64(to)%16:
					tx.Send(to, &of13.BarrierRequest{})
				case n%5 == 0 && to != in.Switch:
					note(tx, to, n)
				}
			}
			return nil
		})
	app.Handle(a, func(app.SwitchUp) app.Cells { return app.Need(totals.Cell(ups)) },
		func(tx *app.Tx, up app.SwitchUp) error {
			note(tx, up.Switch, add(tx, ups))
			return nil
		})
	app.Handle(a, func(app.SwitchDown) app.Cells { return app.Need(totals.Cell(ups)) },
		func(tx *app.Tx, down app.SwitchDown) error {
			note(tx, down.Switch, add(tx, ups)) // nobody is there
			return nil
		})
	app.Handle(a, func(app.BarrierReply) app.Cells { return app.Need(totals.Cell(answers)) },
		func(tx *app.Tx, _ app.BarrierReply) error {
			add(tx, answers)
			return nil
		})
	app.Handle(a, func(app.Void) app.Cells { return app.Need(totals.Cell(void)) },
		func(tx *app.Tx, _ app.Void) error {
			add(tx, void)
			return nil
		})
}

// note has a switch send a number to its host.
func note(tx *app.Tx, to app.Switch, number uint64) {
	tx.PacketOut(to, of13.PacketOut{BufferID: of13.NoBuffer, InPort: of13.PortController,
		Actions: of13.Actions(nil).Output(HostPort, 0),
		Data:    binary.BigEndian.AppendUint64(make([]byte, 14), number)})
}

// mistake sends a command that a switch refuses: it makes no sense, or cannot even be read.
func mistake(tx *app.Tx, to app.Switch, number uint64) {
	m := of13.PacketOut{BufferID: of13.NoBuffer, InPort: of13.PortMax, Actions: of13.Actions(nil).Output(HostPort, 0),
		Data: make([]byte, 14)}
	if number%64 < 32 {
		tx.PacketOut(to, m)
	} else {
		tx.Send(to, garbled{&m})
	}
}

// garbled is a packet-out whose actions are longer than itself.
type garbled struct{ *of13.PacketOut }

// Append appends it to dst.
func (g garbled) Append(dst []byte, xid uint32) []byte {
	at := len(dst)
	dst = g.PacketOut.Append(dst, xid)
	binary.BigEndian.PutUint16(dst[at+16:], 0xfff8)
	return dst
}

// Frame is the frame that the host at switch number from sends to that at number to, as its sent-th.
func Frame(from, to int, sent uint64) []byte {
	frame := make([]byte, 60)
	copy(frame, hostMAC(to))
	copy(frame[6:], hostMAC(from))
	binary.BigEndian.PutUint16(frame[12:], EtherType)
	binary.BigEndian.PutUint64(frame[14:], uint64(from))
	binary.BigEndian.PutUint64(frame[22:], sent)
	return frame
}

// frameNumber is what a host has counted.
func frameNumber(frame []byte) uint64 {
	if len(frame) < 30 {
		return 1
	}
	return binary.BigEndian.Uint64(frame[22:])
}

func hostMAC(n int) []byte { return []byte{2, 0, 0, 0, byte(n >> 8), byte(n)} }
