package ledger

import (
	"slices"
	"testing"

	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// listener says what it handles.
type listener struct {
	script
	hears func(kind InputKind, typ uint8, name string) bool
}

func (l *listener) Hears(kind InputKind, typ uint8, name string) bool {
	return l.hears(kind, typ, name)
}

// An application is called for what it hears, in the order of all, and one that does not say what it hears for all.
func TestListener(t *testing.T) {
	say := func(tx *Tx, in *Input) error {
		if in.Kind != Message {
			return nil
		}
		for _, name := range []string{"x", "y", "nobody's"} {
			if err := tx.Emit(name, nil); err != nil {
				return err
			}
		}
		return nil
	}
	all := &script{name: "all", do: say}
	some := &listener{script{name: "some"}, func(kind InputKind, typ uint8, name string) bool {
		return kind == Message && typ == of13.TypePortStatus || kind == Emitted && name == "y" || kind == SwitchDown
	}}
	p := newPair(t, Limits{}, all, some)
	p.event(1, 1, 1, switchUp())
	p.event(1, 1, 2, packetIn("x"))
	p.event(1, 1, 3, switchDown())
	p.commit()
	if want := []string{"emitted y", "switch down of switch 0000000000000001"}; !slices.Equal(some.told, want) {
		t.Errorf("told %q, want %q", some.told, want)
	}
	if len(all.told) != 6 {
		t.Errorf("who says nothing was told %q", all.told)
	}
}

// What no application hears is not kept, but counts as emitted.
func TestNobodyListens(t *testing.T) {
	emits := &listener{script{name: "emits", do: func(tx *Tx, _ *Input) error {
		for range 2 * maxEmitted {
			if err := tx.Emit("x", []byte("x")); err != nil {
				return err
			}
		}
		return nil
	}}, func(kind InputKind, _ uint8, _ string) bool { return kind == Message }}
	p := newPair(t, Limits{}, emits)
	p.event(1, 1, 1, switchUp())
	p.event(1, 1, 2, packetIn("x"))
	if f := p.leader.Failures(); len(f) > 0 || len(emits.told) != 1 || len(p.leader.emitted) > 0 {
		t.Errorf("failures %v, told %q", f, emits.told)
	}
}
