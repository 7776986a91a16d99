// Package sim runs a whole network in one goroutine under one seed: controllers, agents, switches,
// hosts and applications, with their production cores, over a simulated network, disk and
// clock that fail in every way the design claims to survive. Checkers compare what is seen from
// outside with what the platform promises. The same seed makes the same run.
//
// It is not a model: the protocol is the code that ships. The goroutines and locks around the cores are not here;
// lab/shells runs them. Sockets and the kernel are left to lab/e2e.
package sim
