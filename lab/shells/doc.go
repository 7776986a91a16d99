// Package shells runs the code around the cores in networks that fail: agent.Agent, southbound.Serve, consensus.Node
// and its transport, controller.Controller and vswitch.Runner, with their goroutines, locks, timers and queues. They
// run in a bubble of testing/synctest, so that time costs nothing, over connections and disks in memory. A seed draws
// the network and its faults: kills, restarts, partitions, pauses, resets. What is seen from outside goes to
// lab/history, as in lab/sim.
//
// It does not promise that a seed runs twice in the same way: the Go scheduler takes part. lab/sim has the cores alone,
// repeats a run exactly, and has more kinds of faults. Neither has sockets, files or processes of the kernel; lab/e2e
// has.
package shells
