// Package protect compiles routes into flow entries and fast-failover groups with which the network survives the loss
// of a link, or of a switch, without a controller. It has plans, the program of each switch, the rounds of changes that
// lead from one plan to the next, and an interpreter that follows packets through programs. All of it is pure.
//
// It has no connections and no clock: the caller installs the rounds, and waits between them. docs/design/recovery.md
// explains why no packet is lost on the way.
package protect
