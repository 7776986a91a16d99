package path

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strings"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/network/model"
)

// named is a definition with its name.
type named struct {
	name string
	Definition
}

// readAll reads definitions by name, and returns them in the order of their names.
func readAll(r app.Request) ([]named, error) {
	if list, is := scanAll(r.Body); is {
		return list, nil
	}
	var all map[string]Definition
	if err := app.ReadJSON(r, &all); err != nil {
		return nil, err
	}
	var list []named
	for name, d := range all {
		list = append(list, named{name, d})
	}
	slices.SortFunc(list, byName)
	return list, nil
}

func byName(a, b named) int { return strings.Compare(a.name, b.name) }

// scanAll reads definitions as most programs write them, which takes encoding/json several times as long. It reports
// false if there is anything else in the text, such as an escape, an unknown field, null, or an error: that is for
// encoding/json, which decides.
func scanAll(b []byte) (list []named, is bool) {
	s := scanner{b: b}
	s.object(func(name []byte) {
		n := named{name: string(name)}
		s.definition(&n.Definition)
		list = append(list, n)
	})
	if s.next(); s.failed || len(s.b) > 0 {
		return nil, false
	}
	slices.SortFunc(list, byName)
	for i := 1; i < len(list); i++ {
		if list[i].name == list[i-1].name {
			return nil, false
		}
	}
	return list, true
}

// scanner reads a part of JSON. After it has failed, it reads nothing more.
type scanner struct {
	b      []byte
	failed bool
}

func (s *scanner) fail() { s.b, s.failed = nil, true }

// next skips spaces, and returns what follows; 0 at the end.
func (s *scanner) next() byte {
	for len(s.b) > 0 {
		switch c := s.b[0]; c {
		case ' ', '\n', '\t', '\r':
			s.b = s.b[1:]
		default:
			return c
		}
	}
	return 0
}

// skip skips a byte, if that is next.
func (s *scanner) skip(c byte) bool {
	if s.next() != c {
		return false
	}
	s.b = s.b[1:]
	return true
}

func (s *scanner) need(c byte) {
	if !s.skip(c) {
		s.fail()
	}
}

// list calls do for each element between two brackets.
func (s *scanner) list(from, to byte, do func()) {
	s.need(from)
	if s.skip(to) {
		return
	}
	for !s.failed {
		if do(); !s.skip(',') {
			s.need(to)
			return
		}
	}
}

func (s *scanner) object(field func(name []byte)) {
	s.list('{', '}', func() {
		name := s.text()
		s.need(':')
		field(name)
	})
}

// text reads a string of printable ASCII, which is valid until the next change of the text.
func (s *scanner) text() []byte {
	s.need('"')
	for i, c := range s.b {
		switch {
		case c == '"':
			text := s.b[:i]
			s.b = s.b[i+1:]
			return text
		case c < ' ' || c > '~' || c == '\\':
			s.fail()
			return nil
		}
	}
	s.fail()
	return nil
}

func (s *scanner) string() string { return string(s.text()) }

// number reads a natural number.
func (s *scanner) number(most uint64) (n uint64) {
	s.next()
	i := 0
	for ; i < len(s.b) && '0' <= s.b[i] && s.b[i] <= '9'; i++ {
		if n = 10*n + uint64(s.b[i]-'0'); n > most || i > 0 && n < 10 { // or it begins with zero
			s.fail()
			return 0
		}
	}
	if i == 0 {
		s.fail()
		return 0
	}
	s.b = s.b[i:]
	return n // and what follows, such as a fraction, is none of the bytes that may
}

func (s *scanner) bool() bool {
	s.next()
	if rest, is := bytes.CutPrefix(s.b, []byte("true")); is {
		s.b = rest
		return true
	}
	rest, is := bytes.CutPrefix(s.b, []byte("false"))
	if s.b = rest; !is {
		s.fail()
	}
	return false
}

func (s *scanner) definition(d *Definition) {
	s.object(func(name []byte) {
		switch string(name) {
		case "from":
			s.end(&d.From)
		case "to":
			s.end(&d.To)
		case "match":
			s.match(d)
		case "priority":
			d.Priority = uint16(s.number(math.MaxUint16))
		case "max_hops":
			d.MaxHops = int(s.number(math.MaxInt32))
		case "backup":
			d.Backup = s.bool()
		case "avoid":
			d.Avoid = []string{}
			s.list('[', ']', func() { d.Avoid = append(d.Avoid, s.string()) })
		default:
			s.fail()
		}
	})
}

func (s *scanner) end(e *End) {
	s.object(func(name []byte) {
		switch string(name) {
		case "switch":
			e.Switch = s.string()
		case "port":
			e.Port = app.Port(s.number(math.MaxUint32))
		default:
			s.fail()
		}
	})
}

func (s *scanner) match(d *Definition) {
	s.object(func(name []byte) {
		switch c := &d.Match; string(name) {
		case "protocol":
			c.Protocol = s.string()
		case "source":
			c.Source = s.string()
		case "destination":
			c.Destination = s.string()
		case "source_ports":
			c.SourcePorts = s.string()
		case "destination_ports":
			c.DestinationPorts = s.string()
		case "vlan":
			vlan := uint16(s.number(math.MaxUint16))
			c.VLAN = &vlan
		default:
			s.fail()
		}
	})
}

// answerAll answers with the states of paths, in the order of their names, as encoding/json writes a map of them.
func answerAll(list []model.Path, states []State) (app.Response, error) {
	b := append(make([]byte, 0, 48*len(list)), '{')
	for i, s := range states {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendText(b, list[i].Name), ':')
		if s.Why == "" {
			b = append(appendText(append(b, `{"state":`...), string(s.State)), '}')
			continue
		}
		text, err := json.Marshal(s)
		if err != nil {
			return app.Response{}, err
		}
		b = append(b, text...)
	}
	return app.Response{Type: "application/json", Body: append(b, '}')}, nil
}

// appendText appends a string in JSON.
func appendText(b []byte, s string) []byte {
	for _, c := range []byte(s) {
		if c < ' ' || c > '~' || strings.IndexByte(`"\<>&`, c) >= 0 { // encoding/json escapes it
			text, _ := json.Marshal(s) // of a string, that does not fail
			return append(b, text...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}
