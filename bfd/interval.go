package bfd

import "time"

// Multiplier is how many packets in a row must be lost before a link counts as broken: the usual choice, of the paper
// (Fast Recovery in Software-Defined Networks, section II-A) and of Open vSwitch.
const Multiplier = 3

// Interval returns how often to send over a link with this round-trip time, by the paper's equation 3: 1.25 · β · RTT,
// where 1.25 makes up for the jitter, and β = 2 for round trips that take longer than usual. It is at least floor,
// which is what the two ends can do: where they are software on a shared machine, the round-trip time says little of
// that.
func Interval(rtt, floor time.Duration) time.Duration {
	const beta = 2
	const longest = MaxInterval * 4 / (5 * beta)
	return max(min(rtt, longest)*5*beta/4, floor)
}

// MultiplierFor returns the multiplier, Multiplier or more, with which nobody takes a link for dead because a process
// at its end had to wait so long before it could send: packets then come an interval and the wait apart.
func MultiplierFor(interval, wait time.Duration) int {
	return max(Multiplier, min(1+int((wait+interval-1)/interval), 255))
}
