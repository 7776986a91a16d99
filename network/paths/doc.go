// Package paths computes routes through a network of switches: shortest paths, alternatives, disjoint pairs, and for
// every destination a tree of next hops with a backup at every switch, which works without a controller (van Adrichem
// et al., Fast Recovery in Software-Defined Networks, section III).
//
// Everything is a pure function of a Graph: equal graphs give equal results, whatever the order they were built in.
//
// It is no topology discovery, and it knows no flow entry: that is package protect.
package paths
