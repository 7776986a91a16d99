package api

import (
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

// SizeIn is the number of bytes of the message as protobuf, or as JSON.
func (e *Encoded) SizeIn(json bool) int {
	if !json {
		return e.Size()
	}
	b, _ := e.json() // an error comes when it is sent
	return len(b)
}

// EncodedOnce is a message that goes to one client, and is encoded before it is sent. A handler may have it as an
// answer. It must not be sent twice.
type EncodedOnce struct {
	json  bool
	bytes []byte
}

// EncodeOnce encodes a message, as protobuf or as JSON.
func EncodeOnce(m proto.Message, json bool) (*EncodedOnce, error) {
	encode := binary.marshal
	if json {
		encode = text.marshal
	}
	b, err := encode(m)
	return &EncodedOnce{json, b}, err
}

// Size is the number of bytes of the message.
func (a *EncodedOnce) Size() int { return len(a.bytes) }

// jsonOptions name fields as the files of the interface do, and do not leave out those that are 0, false or empty.
var jsonOptions = protojson.MarshalOptions{UseProtoNames: true, EmitDefaultValues: true}

// codec is a format of messages.
type codec struct {
	name      string
	encoded   func(*Encoded) ([]byte, error)
	marshal   func(proto.Message) ([]byte, error)
	appends   func([]byte, proto.Message) ([]byte, error)
	unmarshal func([]byte, proto.Message) error
}

var (
	binary = codec{"proto", func(e *Encoded) ([]byte, error) { return e.protobuf() }, proto.Marshal,
		proto.MarshalOptions{}.MarshalAppend, proto.Unmarshal}
	text = codec{"json", func(e *Encoded) ([]byte, error) { return e.json() }, jsonOptions.Marshal,
		jsonOptions.MarshalAppend, unmarshalJSON}
	// textUTF8 is text under the name that clients of some languages use.
	textUTF8 = codec{"json; charset=utf-8", text.encoded, text.marshal, text.appends, text.unmarshal}
)

// unmarshalJSON refuses fields that are not known: a mistake in the name of one would otherwise have no effect.
func unmarshalJSON(b []byte, m proto.Message) error {
	if len(b) == 0 {
		return nil // as a request without fields
	}
	return protojson.Unmarshal(b, m)
}

// Name implements connect.Codec, as do the following.
func (c codec) Name() string { return c.name }

func (c codec) Marshal(message any) ([]byte, error) { return c.MarshalAppend(nil, message) }

// MarshalAppend is called by connect with a buffer without content that it uses again and again. So what is encoded
// already is copied, and a message to a thousand watchers makes no garbage.
func (c codec) MarshalAppend(dst []byte, message any) ([]byte, error) {
	switch m := message.(type) {
	case *Encoded:
		b, err := c.encoded(m)
		return append(dst, b...), err
	case *EncodedOnce:
		if m.json != (c.name != binary.name) {
			return nil, fmt.Errorf("an answer has another format than %s", c.name)
		}
		if len(dst) == 0 {
			return m.bytes, nil
		}
		return append(dst, m.bytes...), nil
	case proto.Message:
		return c.appends(dst, m)
	}
	return nil, fmt.Errorf("%T is no message", message)
}

func (c codec) Unmarshal(b []byte, message any) error {
	if m, is := message.(proto.Message); is {
		return c.unmarshal(b, m)
	}
	return fmt.Errorf("%T is no message", message)
}

// MaxRequest bounds a request, in bytes.
const MaxRequest = 64 << 10

// HandlerOptions are those of handlers of the interface. Nothing is compressed: most clients are near.
func HandlerOptions() []connect.HandlerOption {
	return []connect.HandlerOption{connect.WithCodec(binary), connect.WithCodec(text),
		connect.WithCodec(textUTF8), connect.WithReadMaxBytes(MaxRequest), connect.WithCompressMinBytes(math.MaxInt)}
}
