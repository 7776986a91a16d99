package census

import (
	"errors"
	"fmt"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// Keys is how many actors with a key census has: from 1 on.
const Keys = 6

// sighting is what an actor with a key emits to the actor of no switch, and greeting what that one answers. Count is
// how many packets it has counted; 0 if a timer makes it emit.
type sighting struct{ Key, Count uint64 }
type greeting struct{ Key, Count uint64 }

// keyed adds actors with a key. Each counts a share of the packets of all switches in a cell with many fields, sends
// commands and questions to switches, sets timers, fails now and then, exchanges messages with the other actors, and
// calls them. The actor of no switch checks the order of messages.
func keyed(a *app.App, wrong func(text string)) {
	visits := app.NewMap[uint64, uint64, uint64](a, "visits", app.Sharded)
	greeted := app.NewTable[uint64, uint64](a, "greeted", app.Sharded)
	sightings := app.NewTable[uint64, uint64](a, "sightings")
	const total, fields = 0, 64
	key := func(in app.PacketIn) uint64 { return 1 + frameNumber(in.Data)%Keys }
	calls(a, key, wrong)

	app.Handle(a, func(in app.PacketIn) app.Cells { return app.Need(visits.Cell(key(in))) },
		func(tx *app.Tx, in app.PacketIn) error {
			k := key(in)
			n, _ := visits.Get(tx, k, total)
			n++
			visits.Put(tx, k, total, n)
			field := 1 + n%fields
			if _, there := visits.Get(tx, k, field); there && n%3 == 0 {
				visits.Delete(tx, k, field)
			} else {
				visits.Put(tx, k, field, frameNumber(in.Data))
			}
			if n%4 == 0 {
				note(tx, in.Switch, n)
			}
			if n%8 == 1 {
				tx.Send(in.Switch, &of13.BarrierRequest{})
			}
			if n%5 == 0 {
				if err := tx.SetTimer(timerOf(k), round/2, nil); err != nil {
					return err
				}
			}
			if frameNumber(in.Data)%101 == 0 {
				return errors.New("every frame with such a number fails")
			}
			return app.Emit(tx, sighting{k, n})
		})
	app.HandleEmitted(a, func(s sighting) app.Cells { return app.Need(sightings.Cell(s.Key)) },
		func(tx *app.Tx, s sighting) error {
			last, _ := sightings.Get(tx, s.Key)
			if s.Count > 0 && s.Count <= last {
				wrong(fmt.Sprintf("sighting %d of key %d comes after sighting %d", s.Count, s.Key, last))
			}
			sightings.Put(tx, s.Key, max(last, s.Count))
			if s.Count%3 != 0 {
				return nil
			}
			return app.Emit(tx, greeting{s.Key, last})
		})
	app.HandleEmitted(a, func(g greeting) app.Cells { return app.Need(greeted.Cell(g.Key)) },
		func(tx *app.Tx, g greeting) error {
			greeted.Put(tx, g.Key, g.Count)
			return nil
		})
	app.Handle(a, func(t app.Timer) app.Cells {
		if k, is := keyOf(t.Name); is {
			return app.Need(greeted.Cell(k))
		}
		return app.Need()
	},
		func(tx *app.Tx, t app.Timer) error {
			k, is := keyOf(t.Name)
			if !is {
				return nil
			}
			n, _ := greeted.Get(tx, k)
			greeted.Put(tx, k, n+1)
			return app.Emit(tx, sighting{k, 0})
		})
}

func timerOf(key uint64) string { return fmt.Sprint("visit ", key) }

// keyOf returns the actor with a key that has set a timer.
func keyOf(timer string) (key uint64, is bool) {
	n, _ := fmt.Sscanf(timer, "visit %d", &key)
	return key, n == 1
}
