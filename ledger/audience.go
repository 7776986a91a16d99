package ledger

import "github.com/holdfast-sdn/holdfast/internal/message"

// Listener is an Application that knows which inputs it handles. It is not called for others: with many applications,
// most of them handle few types of input.
type Listener interface {
	Application
	// Hears reports whether it may handle inputs of a kind: of a Message, of this type; of an Emitted one, of this
	// name. The answer does not change.
	Hears(kind InputKind, typ uint8, name string) bool
}

// audience knows which applications are called for an input that is for all of them, by their indices.
type audience struct {
	apps     []Application
	messages [256][]int
	kinds    [Forgotten + 1][]int
	emitted  map[string][]int // those that were asked for
}

// maxNames bounds the names of emitted messages whose listeners are kept. A program has far fewer.
const maxNames = 4096

func newAudience(apps []Application) *audience {
	a := &audience{apps: apps, emitted: map[string][]int{}}
	for typ := range a.messages {
		a.messages[typ] = a.find(Message, uint8(typ), "")
	}
	for kind := range a.kinds {
		a.kinds[kind] = a.find(InputKind(kind), 0, "")
	}
	return a
}

func (a *audience) find(kind InputKind, typ uint8, name string) (list []int) {
	for i, app := range a.apps {
		if l, is := app.(Listener); !is || l.Hears(kind, typ, name) {
			list = append(list, i)
		}
	}
	return list
}

// of returns who is called for an input.
func (a *audience) of(in *Input) []int {
	switch in.Kind {
	case Message:
		return a.messages[message.Type(in.Message)]
	case Emitted:
		return a.named(in.Name)
	}
	return a.kinds[in.Kind]
}

// named returns who is called for an emitted message.
func (a *audience) named(name string) []int {
	list, known := a.emitted[name]
	if !known {
		if list = a.find(Emitted, 0, name); len(a.emitted) < maxNames {
			a.emitted[name] = list
		}
	}
	return list
}
