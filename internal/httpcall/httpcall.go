// Package httpcall encodes requests of HTTP clients to applications, and the answers. That is what passes between the
// controller that serves a client and the one that executes the request. It is neither an HTTP server nor a client, and
// does not know where applications are.
package httpcall

import (
	"fmt"
	"net/url"

	"github.com/fxamacker/cbor/v2"
)

// Request is a request of an HTTP client to an application.
type Request struct {
	Method string
	Values map[string]string // what the wildcards of the route have matched, by name
	Query  url.Values
	Body   []byte
}

// Response is the answer of an application.
type Response struct {
	Status int    // from 200 to 599; 0 is 200
	Type   string // of the body, as a media type; "" is text/plain
	Body   []byte
}

// Encode returns the encoding of a Request or a Response.
func Encode[M Request | Response](m M) []byte {
	b, err := cbor.Marshal(m)
	if err != nil {
		panic(fmt.Sprintf("%T cannot be encoded: %v", m, err)) // it has only text, numbers and bytes
	}
	return b
}

// Decode is the inverse of Encode, for any input.
func Decode[M Request | Response](b []byte) (m M, err error) {
	if err = cbor.Unmarshal(b, &m); err != nil {
		err = fmt.Errorf("%T of another controller: %w: run the same release at all controllers", m, err)
	}
	return m, err
}
