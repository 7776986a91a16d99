// Package protect compiles routes into what switches hold: flow entries and fast-failover groups with which the network
// survives the loss of a link, or of a switch, without a controller. Everything here is pure: plans, programs, what to
// change from one to the next and in which order, and an interpreter that follows packets through programs.
//
// It knows no connection and decides nothing about time: whoever installs the rounds waits between them.
// docs/design/recovery.md says why it works.
package protect
