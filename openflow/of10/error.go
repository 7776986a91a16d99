package of10

import "fmt"

// Types of an Error (section 5.4.4).
const (
	ErrHelloFailed   uint16 = 0
	ErrBadRequest    uint16 = 1
	ErrBadAction     uint16 = 2
	ErrFlowModFailed uint16 = 3
	ErrPortModFailed uint16 = 4
	ErrQueueOpFailed uint16 = 5
)

// CodeBadVendor is the code of ErrBadRequest that answers an unknown Vendor message.
const CodeBadVendor uint16 = 3

var errorNames = [...]struct {
	name  string
	codes []string
}{
	{"HELLO_FAILED", []string{"INCOMPATIBLE", "EPERM"}},
	{"BAD_REQUEST", []string{"BAD_VERSION", "BAD_TYPE", "BAD_STAT", "BAD_VENDOR", "BAD_SUBTYPE", "EPERM", "BAD_LEN",
		"BUFFER_EMPTY", "BUFFER_UNKNOWN"}},
	{"BAD_ACTION", []string{"BAD_TYPE", "BAD_LEN", "BAD_VENDOR", "BAD_VENDOR_TYPE", "BAD_OUT_PORT", "BAD_ARGUMENT",
		"EPERM", "TOO_MANY", "BAD_QUEUE"}},
	{"FLOW_MOD_FAILED", []string{"ALL_TABLES_FULL", "OVERLAP", "EPERM", "BAD_EMERG_TIMEOUT", "BAD_COMMAND",
		"UNSUPPORTED"}},
	{"PORT_MOD_FAILED", []string{"BAD_PORT", "BAD_HW_ADDR"}},
	{"QUEUE_OP_FAILED", []string{"BAD_PORT", "BAD_QUEUE", "EPERM"}},
}

// Error tells that a message could not be carried out. Data is at least the first 64
// bytes of that message, or a text when ErrType is ErrHelloFailed.
type Error struct {
	ErrType, Code uint16
	Data          []byte
}

// Type returns TypeError.
func (*Error) Type() uint8 { return TypeError }

// String names type and code, such as "BAD_REQUEST/BAD_VENDOR".
func (m *Error) String() string {
	if int(m.ErrType) >= len(errorNames) {
		return fmt.Sprintf("type %d/code %d", m.ErrType, m.Code)
	}
	e := errorNames[m.ErrType]
	if int(m.Code) >= len(e.codes) {
		return fmt.Sprintf("%s/code %d", e.name, m.Code)
	}
	return e.name + "/" + e.codes[m.Code]
}

// Append appends the message.
func (m *Error) Append(dst []byte, xid uint32) []byte {
	n := len(dst)
	dst = be.AppendUint16(begin(dst, TypeError, xid), m.ErrType)
	dst = be.AppendUint16(dst, m.Code)
	return end(append(dst, m.Data...), n)
}

// Decode reads an ERROR.
func (m *Error) Decode(msg []byte) error {
	if err := check(msg, TypeError, 12); err != nil {
		return err
	}
	*m = Error{ErrType: be.Uint16(msg[8:]), Code: be.Uint16(msg[10:]), Data: msg[12:]}
	return nil
}
