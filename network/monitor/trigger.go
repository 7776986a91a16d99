package monitor

import (
	"fmt"
	"strconv"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// Measure is what a trigger compares with its threshold.
type Measure string

// The measures.
const (
	// Bandwidth is in bytes/s: of a flow entry what matches it, of a port the larger one of both directions.
	Bandwidth Measure = "bandwidth"
	// Duration is since when a flow entry is installed, or a port is there, in ms. Switches of OpenFlow 1.0 do not tell
	// that of a port.
	Duration Measure = "duration"
)

// Kind is what a trigger watches.
type Kind string

// The kinds.
const (
	Ports   Kind = "ports"
	Entries Kind = "entries"
)

// Trigger is a threshold. Each port or flow entry that it selects is compared with it by itself.
type Trigger struct {
	Switch app.Switch `json:"-" cbor:"switch"`
	Owner  string     `json:"owner,omitempty"` // the name of an application; "http" over HTTP, where it is not given
	Name   string     `json:"name,omitempty"`  // over HTTP, the path has it

	Of     Kind     `json:"of"`
	Port   app.Port `json:"port,omitempty"`   // of Ports, the only one; 0: each
	Table  *uint8   `json:"table,omitempty"`  // of Entries, where they are; nil: in each table
	Cookie Cookie   `json:"cookie,omitempty"` // of Entries: they have this cookie where Mask has ones
	Mask   Cookie   `json:"mask,omitempty"`   // 0: all ones if there is a cookie, else no restriction

	Measure Measure `json:"measure"`
	// The trigger fires for what is at Above or higher, and again only after that was below Below. Below 0 is four
	// fifths of Above. For Duration it is Above.
	Above uint64 `json:"above"`
	Below uint64 `json:"below,omitempty"`
}

// Cookie is a cookie or a mask of cookies. In JSON it is a string, such as "0x68666677".
type Cookie uint64

// MarshalText implements encoding.TextMarshaler.
func (c Cookie) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%#x", uint64(c)), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (c *Cookie) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(string(text), 0, 64)
	if err != nil {
		return fmt.Errorf("cookie or mask %q is not a number of 64 bits, such as \"0x1f\"", text)
	}
	*c = Cookie(n)
	return nil
}

// Status is a trigger with what is above its threshold.
type Status struct {
	Trigger
	Crossings uint64   `json:"crossings"` // how often its owner was told
	Raised    []Raised `json:"raised"`
}

// Raised is a port or a flow entry above a threshold.
type Raised struct {
	Subject
	Match string    `json:"match,omitempty"` // of the entry
	Value uint64    `json:"value"`           // when it rose
	Since time.Time `json:"since"`
}

func (r *raised) view() Raised {
	v := Raised{Subject: r.Subject, Value: r.Value, Since: time.Unix(0, r.Since).UTC()}
	if r.Entry != nil {
		v.Match = r.Entry.Match.String()
	}
	return v
}

const maxName = 64

// complete checks a trigger, and fills in what is not given.
func (t *Trigger) complete() error {
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("trigger %q: %s", t.Name, fmt.Sprintf(format, args...))
	}
	if t.Cookie != 0 && t.Mask == 0 {
		t.Mask = ^Cookie(0)
	}
	switch {
	case t.Name == "" || len(t.Name) > maxName || t.Owner == "" || len(t.Owner) > maxName:
		return wrong("its name and owner need 1 to %d bytes", maxName)
	case t.Of != Ports && t.Of != Entries:
		return wrong("of is %q: use %s or %s", t.Of, Ports, Entries)
	case t.Of == Ports && (t.Table != nil || t.Mask != 0):
		return wrong("a table, cookie or mask selects entries: leave it out, or use of %q", Entries)
	case t.Of == Entries && t.Port != 0:
		return wrong("a port selects no entries: leave it out, or use of %q", Ports)
	case t.Measure != Bandwidth && t.Measure != Duration:
		return wrong("measure is %q: use %s or %s", t.Measure, Bandwidth, Duration)
	case t.Above == 0:
		return wrong("above is 0, which everything is: use at least 1")
	case t.Below > t.Above:
		return wrong("below is %d, which is more than above, %d", t.Below, t.Above)
	case t.Measure == Duration && t.Below != 0 && t.Below != t.Above:
		return wrong("a duration does not sink: leave out below")
	}
	if t.Below == 0 {
		t.Below = t.Above
		if t.Measure == Bandwidth {
			t.Below -= t.Above / 5
		}
	}
	return nil
}

func (t *Trigger) key() string { return key(t.Owner, t.Name) }

// key names a trigger at its switch. Lengths precede what may contain a blank.
func key(owner, name string) string { return fmt.Sprintf("%d %s %s", len(owner), owner, name) }

// raisedKey names a subject that is above the threshold of a trigger.
func raisedKey(trigger string, s Subject) string {
	if s.Entry == nil {
		return fmt.Sprintf("%s port %d", trigger, s.Port)
	}
	return fmt.Sprintf("%s table %d priority %d %v", trigger, s.Entry.Table, s.Entry.Priority, s.Entry.Match)
}

// selects reports whether a trigger on flow entries selects one.
func (t *Trigger) selects(table uint8, cookie uint64) bool {
	return (t.Table == nil || *t.Table == table) && (Cookie(cookie)^t.Cookie)&t.Mask == 0
}

// widen makes a request ask for the entries that a trigger selects, too. The mask keeps the bits in which all cookies
// agree.
func (t *Trigger) widen(q *of13.FlowStatsRequest, first bool) {
	table := of13.TableAll
	if t.Table != nil {
		table = *t.Table
	}
	if first {
		q.TableID, q.Cookie, q.CookieMask = table, uint64(t.Cookie&t.Mask), uint64(t.Mask)
		return
	}
	if table != q.TableID {
		q.TableID = of13.TableAll
	}
	q.CookieMask &= uint64(t.Mask) &^ (q.Cookie ^ uint64(t.Cookie))
	q.Cookie &= q.CookieMask
}
