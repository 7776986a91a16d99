package sim

import (
	"bytes"
	"context"
	"encoding/binary"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-sdn/holdfast/controller"
	"github.com/holdfast-sdn/holdfast/ledger"
)

// damages are the replicas whose memory was changed, and what came of it.
type damages struct {
	rebuilt map[string]int // how often a controller began anew because it differed
	named   map[string]int // how often another one has said so
}

// damage changes a row in the memory of a replica that follows, as a bug would, or a bit that flips, as soon as there
// are rows.
func (s *simulation) damage(f Fault) {
	replicas := s.led(f).replicas
	for i := range replicas {
		r := replicas[(f.B+i)%len(replicas)]
		if r.n.p.up && r.leader != 0 && r.leader != r.n.id && r.damage() {
			s.w.note(r.n.p, "has a damaged row of group %d", r.g.number)
			return
		}
	}
	s.w.after(controller.TickInterval, nil, func() { s.damage(f) })
}

// damage changes the first row of an application, and reports whether there is one.
func (r *replica) damage() bool {
	l := r.core.Ledger()
	state, err := l.Snapshot()
	r.n.check(err)
	for _, a := range r.n.s.applications(r.g) {
		rows, err := l.Rows(a.Name(), maxDirectory)
		r.n.check(err)
		slices.SortFunc(rows, ledger.Row.Compare)
		for _, row := range rows {
			value := append(binary.AppendUvarint(row.Field.Append(nil), uint64(len(row.Value))), row.Value...)
			at := bytes.Index(state, value) // the key is before the value there
			if len(row.Value) == 0 || at < 0 {
				continue
			}
			state[at+len(value)-1] ^= 1
			r.n.check(l.Restore(state))
			r.damaged = true
			return true
		}
	}
	return false
}

// renewLag is how long a replica takes to begin anew.
const renewLag = 20 * time.Millisecond

// check is controllerNode.check for the Core. A replica that is damaged is to be noticed. It hands over, and the
// controller begins anew with what its log has.
func (r *replica) check(err error) {
	if !r.damaged || !controller.Differs(err) {
		r.n.check(err)
		return
	}
	if r.fenced {
		return
	}
	r.fenced = true
	r.n.s.damages.rebuilt[r.n.p.name]++
	if r.leader == r.n.id {
		r.handOver()
	}
	r.n.p.after(renewLag, func() { r.n.die(err) })
}

// unnamed returns who has begun anew, and no other controller has said that it differs; "" is nobody.
func (d *damages) unnamed() string {
	for name, n := range d.rebuilt {
		if d.named[name] < n {
			return name
		}
	}
	return ""
}

// namer is a log of a controller. It looks for who is said to differ, and drops everything.
type namer struct{ *damages }

// Enabled implements slog.Handler.
func (namer) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelError }

// Handle implements slog.Handler.
func (n namer) Handle(_ context.Context, r slog.Record) error {
	if !strings.HasPrefix(r.Message, "the state of another replica differs") {
		return nil
	}
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "controller" {
			n.named[a.Value.String()]++
		}
		return true
	})
	return nil
}

// WithAttrs implements slog.Handler.
func (n namer) WithAttrs([]slog.Attr) slog.Handler { return n }

// WithGroup implements slog.Handler.
func (n namer) WithGroup(string) slog.Handler { return n }
