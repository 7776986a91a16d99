package rpc

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"net/http"
	"sync"

	"connectrpc.com/connect"
	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/holdfast-sdn/holdfast/store"
)

// Encoded messages of store.proto, of that name.
type (
	Request       struct{ Encoded []byte }
	Response      struct{ Encoded []byte }
	WatchRequest  struct{ Encoded []byte }
	WatchResponse struct{ Encoded []byte }
)

// encoded returns where a message is encoded, and its name; nil if it is none of store.proto.
func encoded(message any) (b *[]byte, name protoreflect.Name) {
	switch m := message.(type) {
	case *Request:
		return &m.Encoded, "Request"
	case *Response:
		return &m.Encoded, "Response"
	case *WatchRequest:
		return &m.Encoded, "WatchRequest"
	case *WatchResponse:
		return &m.Encoded, "WatchResponse"
	}
	return nil, ""
}

// protobuf is the codec of Protocol Buffers. It encodes nothing, but the messages of gRPC itself.
type protobuf struct{}

func (protobuf) Name() string { return "proto" }

func (c protobuf) Marshal(message any) ([]byte, error) { return c.MarshalAppend(nil, message) }

// MarshalAppend copies what is encoded, because connect uses what it gets for other messages later.
func (protobuf) MarshalAppend(to []byte, message any) ([]byte, error) {
	if b, _ := encoded(message); b != nil {
		return append(to, *b...), nil
	}
	if m, is := message.(proto.Message); is {
		return proto.MarshalOptions{}.MarshalAppend(to, m)
	}
	return nil, fmt.Errorf("%T is no message", message)
}

func (protobuf) Unmarshal(data []byte, message any) error {
	if b, _ := encoded(message); b != nil {
		*b = bytes.Clone(data) // it is reused
		return nil
	}
	if m, is := message.(proto.Message); is {
		return proto.Unmarshal(data, m)
	}
	return fmt.Errorf("%T is no message", message)
}

// text is the codec of JSON, as protobuf defines it.
type text struct{}

func (text) Name() string { return "json" }

func (text) Marshal(message any) ([]byte, error) {
	b, name := encoded(message)
	if b == nil {
		return nil, fmt.Errorf("%T is no message", message)
	}
	m := newMessage(name)
	if err := proto.Unmarshal(*b, m); err != nil {
		return nil, err
	}
	return protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
}

func (text) Unmarshal(data []byte, message any) error {
	b, name := encoded(message)
	if b == nil {
		return fmt.Errorf("%T is no message", message)
	}
	m := newMessage(name)
	err := protojson.Unmarshal(data, m)
	if err == nil {
		*b, err = proto.Marshal(m)
	}
	return err
}

// textUTF8 is text under the name that clients of some languages use.
type textUTF8 struct{ text }

func (textUTF8) Name() string { return "json; charset=utf-8" }

func newMessage(name protoreflect.Name) *dynamicpb.Message {
	return dynamicpb.NewMessage(File().Messages().ByName(name))
}

// File is the description of store.proto.
var File = sync.OnceValue(func() protoreflect.FileDescriptor {
	const name = "store.proto"
	c := protocompile.Compiler{Resolver: &protocompile.SourceResolver{
		Accessor: protocompile.SourceAccessorFromMap(map[string]string{name: store.Proto})}}
	files, err := c.Compile(context.Background(), name)
	if err != nil {
		panic(err) // it is part of this program
	}
	return files[0]
})

// handlerOptions are those of the server. It compresses nothing: that would cost more than everything else.
func handlerOptions() []connect.HandlerOption {
	return []connect.HandlerOption{connect.WithCodec(protobuf{}), connect.WithCodec(text{}),
		connect.WithCodec(textUTF8{}), connect.WithReadMaxBytes(store.MaxRequest),
		connect.WithCompressMinBytes(math.MaxInt)}
}

// newClient returns a client of a procedure at HOST:PORT.
func newClient[Q, A any](via *http.Transport, address, procedure string) *connect.Client[Q, A] {
	return connect.NewClient[Q, A](&http.Client{Transport: via}, "http://"+address+procedure,
		connect.WithCodec(protobuf{}), connect.WithReadMaxBytes(store.MaxResponse),
		connect.WithAcceptCompression("gzip", nil, nil))
}
