package api

import (
	"bytes"
	"fmt"
	"math"
	"sync"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// Encoded is a message that goes to many: it is encoded once in each format. It must not be changed any more. A handler
// has it as the type of its answers.
type Encoded struct {
	message  proto.Message
	protobuf func() ([]byte, error)
	json     func() ([]byte, error)
}

// NewEncoded returns a message that is encoded when somebody needs it.
func NewEncoded(m proto.Message) *Encoded {
	return &Encoded{m, sync.OnceValues(func() ([]byte, error) { return proto.Marshal(m) }),
		sync.OnceValues(func() ([]byte, error) { return jsonOptions.Marshal(m) })}
}

// Size is the number of bytes of the message as protobuf.
func (e *Encoded) Size() int {
	b, _ := e.protobuf() // an error comes when it is sent
	return len(b)
}

// Message is what is encoded.
func (e *Encoded) Message() proto.Message { return e.message }

// jsonOptions name fields as the files of the interface do, and do not leave out those that are 0, false or empty.
var jsonOptions = protojson.MarshalOptions{UseProtoNames: true, EmitDefaultValues: true}

// binary is the codec of protobuf.
type binary struct{}

func (binary) Name() string { return "proto" }

// Marshal copies what is encoded already, because connect uses what it gets for other messages later.
func (binary) Marshal(message any) ([]byte, error) {
	switch m := message.(type) {
	case *Encoded:
		b, err := m.protobuf()
		return bytes.Clone(b), err
	case proto.Message:
		return proto.Marshal(m)
	}
	return nil, fmt.Errorf("%T is no message", message)
}

func (binary) Unmarshal(b []byte, message any) error {
	if m, is := message.(proto.Message); is {
		return proto.Unmarshal(b, m)
	}
	return fmt.Errorf("%T is no message", message)
}

// text is the codec of JSON.
type text struct{}

func (text) Name() string { return "json" }

func (text) Marshal(message any) ([]byte, error) {
	switch m := message.(type) {
	case *Encoded:
		b, err := m.json()
		return bytes.Clone(b), err
	case proto.Message:
		return jsonOptions.Marshal(m)
	}
	return nil, fmt.Errorf("%T is no message", message)
}

// Unmarshal refuses fields that are not known: a mistake in the name of one would otherwise have no effect.
func (text) Unmarshal(b []byte, message any) error {
	m, is := message.(proto.Message)
	if !is {
		return fmt.Errorf("%T is no message", message)
	}
	if len(b) == 0 {
		return nil // as a request without fields
	}
	return protojson.Unmarshal(b, m)
}

// textUTF8 is text under the name that clients of some languages use.
type textUTF8 struct{ text }

func (textUTF8) Name() string { return "json; charset=utf-8" }

// MaxRequest bounds a request, in bytes.
const MaxRequest = 64 << 10

// HandlerOptions are those of handlers of the interface. Nothing is compressed: most clients are near.
func HandlerOptions() []connect.HandlerOption {
	return []connect.HandlerOption{connect.WithCodec(binary{}), connect.WithCodec(text{}),
		connect.WithCodec(textUTF8{}), connect.WithReadMaxBytes(MaxRequest), connect.WithCompressMinBytes(math.MaxInt)}
}
