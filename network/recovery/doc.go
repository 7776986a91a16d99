// Package recovery is the application that keeps the network protected: it takes what topology finds, computes a plan
// (packages paths and protect), brings the switches from the present plan to the next round by round without losing a
// packet, and sees to it that each switch holds what it should (package reconcile).
//
// What it knows stands in tables, so a new leader goes on in the middle of a round. Plans are compiled from the tables
// again where they are not in memory; there they are kept by an id that is drawn when a plan is made, so what belongs
// to a transaction that was taken back is never found again.
//
// A switch that has lost its controllers still forwards. So its links and hosts stay until somebody says that they are
// gone, or liveness that nothing comes back from it any more.
//
// It detects no failure and reroutes no packet in need: the switches do that by themselves, with what was installed
// before.
package recovery
