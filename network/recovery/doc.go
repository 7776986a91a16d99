// Package recovery is the application that keeps the network protected. It computes a plan for the topology (packages
// paths and protect), moves the switches from the installed plan to the next one, round by round and without losing a
// packet, and checks that each switch holds its part of the plan (package reconcile).
//
// Its state is in tables, so a new leader continues in the middle of a round. A controller that does not have a plan in
// memory compiles it again from the tables. In memory a plan is stored under a random id that is drawn when the plan is
// made, so a plan of a transaction that was rolled back is never found again.
//
// A switch that has lost its controllers still forwards packets. So its links and hosts stay in the plan until topology
// reports that they are gone, or liveness that the switch returns no frames any more.
//
// It detects no failures and reroutes no packets: the switches do that themselves, with the entries installed before.
package recovery
