package config

import (
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// field is one key that a mapping may have, and what reads its value.
type field struct {
	key  string
	read func(*yaml.Node) error
}

// mapping reads n, refusing keys that are not in fields or come twice.
func (p *parser) mapping(n *yaml.Node, what string, fields []field) error {
	n = target(n)
	if n.Kind != yaml.MappingNode {
		return p.mistake(n, fmt.Sprintf("%s is %s", what, describe(n)), "write `key: value` lines")
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if line, twice := seen[key.Value]; twice {
			return p.mistake(key, fmt.Sprintf("key %q is already in line %d", key.Value, line), "remove one")
		}
		seen[key.Value] = key.Line
		if err := p.entry(key, value, fields); err != nil {
			return err
		}
	}
	return nil
}

func (p *parser) entry(key, value *yaml.Node, fields []field) error {
	var known []string
	for _, f := range fields {
		if f.key == key.Value {
			return f.read(target(value))
		}
		known = append(known, f.key)
	}
	return p.unknown(key, "key", key.Value, known)
}

func (p *parser) sequence(n *yaml.Node, what string) ([]*yaml.Node, error) {
	if n.Kind != yaml.SequenceNode {
		return nil, p.mistake(n, fmt.Sprintf("%s is %s", what, describe(n)), "write a list: lines that begin with `- `")
	}
	items := make([]*yaml.Node, len(n.Content))
	for i, item := range n.Content {
		items[i] = target(item)
	}
	return items, nil
}

func (p *parser) text(n *yaml.Node, what string, to *string) error {
	if n.Kind != yaml.ScalarNode || n.Tag != "!!str" || n.Value == "" {
		return p.mistake(n, fmt.Sprintf("%s is %s", what, describe(n)),
			"write a text; quote it if it looks like a number")
	}
	*to = n.Value
	return nil
}

func (p *parser) number(n *yaml.Node, what string, low, high uint64, to *uint64) error {
	remedy := fmt.Sprintf("write a whole number from %d to %d", low, high)
	if n.Kind != yaml.ScalarNode || n.Tag != "!!int" {
		return p.mistake(n, fmt.Sprintf("%s is %s", what, describe(n)), remedy)
	}
	v, err := strconv.ParseUint(n.Value, 10, 64)
	if err != nil || v < low || v > high {
		return p.mistake(n, fmt.Sprintf("%s is %s", what, n.Value), remedy)
	}
	*to = v
	return nil
}

// target follows an alias. (The parser of YAML lets no alias point at another alias.)
func target(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

func describe(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Value == "":
		return "empty"
	case n.Tag == "!!str":
		return fmt.Sprintf("the text %q", n.Value)
	}
	return fmt.Sprintf("%s (%s)", n.Value, strings.TrimPrefix(n.Tag, "!!"))
}

func (p *parser) mistake(n *yaml.Node, problem, remedy string) error {
	return &Error{File: p.file, Line: n.Line, Problem: problem, Remedy: remedy}
}

// unknown is a name that is none of known.
func (p *parser) unknown(n *yaml.Node, what, name string, known []string) error {
	return p.mistake(n, fmt.Sprintf("unknown %s %q", what, name), suggestion(name, known))
}

// suggestion is the remedy for a name that is none of known.
func suggestion(name string, known []string) string {
	all := "known: " + strings.Join(known, ", ")
	if near := nearest(name, known); near != "" {
		return fmt.Sprintf("did you mean %q? (%s)", near, all)
	}
	return all
}

// nearest returns the known name within a third of name's length in edits, or "".
func nearest(name string, known []string) string {
	best, near := len(name)/3+2, ""
	for _, k := range known {
		if d := edits(name, k); d < best {
			best, near = d, k
		}
	}
	return near
}

// edits is the Levenshtein distance, in bytes.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
