// Package store is the consistent data store: tables that controllers, applications in other processes and operators
// share (Botelho et al., "Towards consistent SDN: a case for network state consistency", sections III and IV). Reads
// and writes are linearizable, and what is acknowledged survives every failure that Holdfast tolerates.
//
// A namespace has tables, a table has rows, and a row has columns and a version. A request is for one namespace, and
// has transactions. With a session, a request that a client repeats takes effect once.
//
// A namespace is an actor (package ledger): with several groups, namespaces are spread over them, and can move. The
// package is an application of the ledger, and the messages of store.proto. It is no client and no server: these are
// packages store/client and store/rpc.
//
// docs/design/store.md says how it works.
package store
