package bfd

import "time"

// Multiplier is how many packets in a row must be lost before a link is down. This is the usual choice, of the paper
// (Fast Recovery in Software-Defined Networks, section II-A) and of Open vSwitch.
const Multiplier = 3

// Interval returns how often to send over a link with this round-trip time, by the paper's equation 3: 1.25 · β · RTT,
// where 1.25 compensates for the jitter, and β = 2 allows for round trips that take longer than usual. It is at least
// floor, which is the limit of the two ends: where they are software on a shared machine, the round-trip time does not
// show it.
func Interval(rtt, floor time.Duration) time.Duration {
	const beta = 2
	const longest = MaxInterval * 4 / (5 * beta)
	return max(min(rtt, longest)*5*beta/4, floor)
}

// MultiplierFor returns a multiplier, Multiplier or more, with which a link is not reported as down because a process
// at its end had to wait this long before it could send: packets then come an interval plus that wait apart.
func MultiplierFor(interval, wait time.Duration) int {
	return max(Multiplier, min(1+int((wait+interval-1)/interval), 255))
}
