package of13

// Error refuses a message (section 7.4.4). It is also a Go error, which Match.Validate and Actions.Validate return, so
// that a switch can send it.
type Error struct {
	ErrType uint16 // one of the ErrType constants
	Code    uint16 // its meaning depends on ErrType; for ErrTypeExperimenter it is the exp_type
	// Data is at least the first 64 bytes of the refused message; a text for
	// HELLO_FAILED; the experimenter id and its data for ErrTypeExperimenter.
	Data []byte
}

// Type returns TypeError.
func (*Error) Type() uint8 { return TypeError }

// Append appends the message.
func (m *Error) Append(dst []byte, xid uint32) []byte {
	n := len(dst)
	dst = put16(put16(begin(dst, TypeError, xid), m.ErrType), m.Code)
	return end(append(dst, m.Data...), n)
}

// Decode reads an ERROR. HELLO_FAILED may come in any version, because the sides have not agreed on one.
func (m *Error) Decode(msg []byte) error {
	err := openAnyVersion(msg, TypeError, 12)
	if err == nil && u16(msg[8:]) != ErrTypeHelloFailed {
		err = open(msg, TypeError, 12)
	}
	if err != nil {
		return err
	}
	*m = Error{u16(msg[8:]), u16(msg[10:]), msg[12:]}
	return nil
}

// String returns the names of type and code, such as BAD_MATCH/BAD_PREREQ.
func (m *Error) String() string { return ErrorName(m.ErrType, m.Code) }

// Error implements the error interface.
func (m *Error) Error() string { return "openflow: refused: " + m.String() }
