// Package sentry watches the links of an Open vSwitch from beside it: by BFD sessions of its own, at both ends of a
// link where a sentry runs, and tells the switch at once when a link is dead, so that its fast-failover groups leave
// it.
//
// It is for links that must be left within milliseconds. The switch's own BFD counts every standstill of its machine as
// the silence of its peers, and takes all its links for dead when it wakes: a sentry knows that it slept (package doc
// of bfd: Session.Excuse). Its neighbours do not know, unless one sentry watches for both: a machine may stand still
// for the multiplier less one times the interval.
//
// The switch's BFD stays, at an interval that its machine can bear, and has the last word: what a sentry says holds for
// Hold, or until its session is up again. So a sentry that ends, or was never there at the other end, takes nothing
// from what the switch does by itself. One that is killed while it holds a link for dead leaves it so until the next
// one begins; and its peers take its links for dead, for Hold.
//
// Package bfd has the protocol. A frame here is of another ethertype than BFD's, so that a switch does not take it for
// its own.
//
// It sets up no BFD, and watches no port that the switch does not watch by BFD: that is for who configures the switch
// (network/liveness/setup).
package sentry
