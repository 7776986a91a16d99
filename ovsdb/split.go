package ovsdb

import "errors"

// maxMessage bounds one message. Open vSwitch describes an interface in less than 2 KiB, so the first message, which
// describes all, has room for 8,000.
const maxMessage = 16 << 20

var (
	errNoObject = errors.New("it does not send JSON objects: is this a database server?")
	errCutOff   = errors.New("its last message is cut off")
)

// splitter splits a stream into messages: JSON objects, with only white space between them (4). It remembers how far it
// has scanned, so that a large message that comes in small pieces is scanned only once.
type splitter struct {
	looked  int // bytes of the message so far
	depth   int // 0: it has not begun
	text    bool
	escaped bool
}

// split implements bufio.SplitFunc.
func (s *splitter) split(data []byte, atEOF bool) (advance int, token []byte, err error) {
	for i := s.looked; i < len(data); i++ {
		if s.depth == 0 && data[i] != '{' {
			if isSpace(data[i]) {
				continue
			}
			return 0, nil, errNoObject
		}
		if s.look(data[i]) {
			*s = splitter{}
			return i + 1, data[:i+1], nil
		}
	}
	if s.looked = len(data); atEOF && s.depth > 0 {
		return 0, nil, errCutOff
	}
	return 0, nil, nil
}

// look scans one byte, and reports whether it ends the message.
func (s *splitter) look(b byte) bool {
	switch {
	case s.escaped:
		s.escaped = false
	case s.text:
		s.escaped, s.text = b == '\\', b != '"'
	case b == '"':
		s.text = true
	case b == '{' || b == '[':
		s.depth++
	case b == '}' || b == ']':
		s.depth--
	}
	return s.depth == 0
}

func isSpace(b byte) bool { return b == ' ' || b == '\n' || b == '\r' || b == '\t' }
