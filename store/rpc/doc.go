// Package rpc serves the interface of the store (store.proto) over HTTP, with gRPC, gRPC-Web and Connect
// (connectrpc.com), and calls it. Messages stay encoded: the controller that has a client passes a request on as it is,
// and the leader of the namespace decodes it. Sessions and repeats are those of package store/client.
package rpc
