// Package sentry monitors the links of an Open vSwitch from a process beside it. It runs its own BFD session on each
// link that has a sentry at both ends, and tells the switch at once when a link is dead, so that its fast-failover
// groups stop using it.
//
// It is for links whose failure must be detected within milliseconds. The switch's own BFD counts every pause of its
// machine as silence of its peers, and reports all its links as dead when it resumes. A sentry knows that it was paused
// (Session.Excuse of package bfd). Its peers do not, unless the same sentry monitors both ends: a machine may pause for
// at most (multiplier − 1) intervals.
//
// The switch's BFD stays configured, at an interval that its machine can sustain, and has the last word: a sentry's
// report stays in force for Hold, or until the session is up again. So a sentry that ends, or that is missing at the
// other end, leaves the switch with its own BFD. If a sentry is killed while it reports a link as dead, that stays so
// until the next sentry starts; and its peers report its links as dead for Hold.
//
// Package bfd has the protocol. The frames have another EtherType than BFD, so that a switch does not take them for its
// own.
//
// It does not configure BFD, and monitors no port that the switch does not monitor by BFD: package
// network/liveness/setup configures that.
package sentry
