// Package component executes micro components: small functions that clients upload to a namespace of the store, and
// that run beside its data (Botelho et al., section IV-D). They are written in a subset of Starlark, a dialect of
// Python (https://github.com/bazelbuild/starlark).
//
// It uses the parser of Starlark's implementation in Go, and has an interpreter of its own, because that one bounds
// steps only, and one step may repeat a string a billion times. Here every step, and every byte of every value that is
// made, is counted. So a run is bounded in time and memory, ends at the same place on every machine, and changes
// nothing but by its Host.
//
// docs/design/store.md lists what the language has.
package component
