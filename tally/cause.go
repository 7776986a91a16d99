package tally

// Type is a type of message. Those below FirstName are the caller's own numbers.
type Type uint16

const (
	// Unnamed is any type for which there is no other number.
	Unnamed Type = 0
	// FirstName is the first type that has a name.
	FirstName Type = 1 << 9
)

// Named returns the type with a name.
func (t *Tally[ID]) Named(name string) Type {
	typ, known := t.types[name]
	if !known && len(t.names) < MaxNames {
		typ = FirstName + Type(len(t.names))
		t.types[name] = typ
		t.names = append(t.names, name)
	}
	return typ // or Unnamed
}

// app has the causes of the actors of an application.
type app[ID comparable] struct {
	name   string
	causes map[Type]*cause[ID]
	last   *cause[ID] // the one that was found last
}

func (t *Tally[ID]) application(name string) *app[ID] {
	a := t.apps[name]
	if a == nil {
		a = &app[ID]{name: name, causes: map[Type]*cause[ID]{}}
		t.apps[name] = a
	}
	return a
}

// cause is a handler of an application: what it does with a type of message.
type cause[ID comparable] struct {
	in               Type
	inputs, failures uint64
	effects          []Effect
	// The actor that handles the messages, unless several do; then only what is above is counted. sources are the
	// actors that have sent them, the first MaxSources of them, and from is the last one.
	by      ID
	several bool
	sources map[ID]struct{}
	from    ID
}

// Effect is a type of message that a handler has sent, and how often.
type Effect struct {
	Type  Type
	Count uint64
}

func (a *app[ID]) cause(in Type) *cause[ID] {
	if a.last != nil && a.last.in == in {
		return a.last
	}
	c := a.causes[in]
	if c == nil {
		c = &cause[ID]{in: in}
		a.causes[in] = c
	}
	a.last = c
	return c
}

func (c *cause[ID]) effect(typ Type, n uint64) {
	for i := range c.effects {
		if e := &c.effects[i]; e.Type == typ || i == maxEffects-1 {
			e.Count += n
			return
		}
	}
	if len(c.effects) == maxEffects-1 {
		typ = Unnamed
	}
	c.effects = append(c.effects, Effect{typ, n})
}

// handled counts n equal inputs, and notes who handled them and from whom they came.
func (c *cause[ID]) handled(a, from *Actor[ID], n uint64) {
	first := c.inputs == 0
	c.inputs += n
	switch {
	case c.several:
		return
	case first:
		c.by = a.id
	case c.by != a.id:
		c.several, c.sources = true, nil
		return
	}
	if from == nil || from == a || from.id == c.from && c.sources != nil || len(c.sources) >= MaxSources {
		return
	}
	if c.sources == nil {
		c.sources = map[ID]struct{}{}
	}
	c.from = from.id
	c.sources[from.id] = struct{}{}
}

// crossingKey is a kind of messages from another group.
type crossingKey struct {
	group    uint64
	from, to string
	typ      Type
}

// Crossing counts the messages of a type that have come from actors of an application in another group to those of an
// application in this one. Switches have no application.
type Crossing struct {
	Group    uint64 // from which they came
	From, To string // applications
	Type     Type
	Messages uint64
	Bytes    uint64
}

// Crossed counts a message from another group. It is not undone by Abort.
func (t *Tally[ID]) Crossed(group uint64, from, to string, typ Type, bytes int) {
	key := crossingKey{group, from, to, typ}
	c := t.crossings[key]
	if c == nil && len(t.crossings) >= maxCrossings {
		key = crossingKey{group: group}
		c = t.crossings[key]
	}
	if c == nil {
		c = &Crossing{Group: group, From: key.from, To: key.to, Type: key.typ}
		t.crossings[key] = c
	}
	c.Messages++
	c.Bytes += uint64(bytes)
}
