package ovsdb

import "errors"

// maxMessage bounds one message. Open vSwitch tells of an interface in less than 2 KiB, so the first message, which
// tells of all, has room for 8,000.
const maxMessage = 16 << 20

var (
	errNoObject = errors.New("it sends what is no JSON object: is this a database server?")
	errCutOff   = errors.New("its last message is cut off")
)

// splitter cuts a stream into messages: JSON objects one after the other, with nothing but white space between (4). It
// remembers how far it has looked, so that a large message that comes in small pieces is looked at once.
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

// look takes one byte, and says whether it ends the message.
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
