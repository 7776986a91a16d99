package ledger

// Repeat executes a transaction of a move as a log has it: its input, which is OpLeave or OpDepart, and the pieces of
// the actor that it sends. It is for a checker that executes the inputs of a log once more. Which pieces a leader makes
// depends on what it has copied before, and the log does not say that.
func (c *Core) Repeat(input *Record, sends []Record) {
	if input.Op == OpDepart {
		var pieces [][]byte
		for i := range sends {
			pieces = append(pieces, sends[i].Bytes)
		}
		k := Link{theGroup(c.group), theGroup(input.Assignment.Group)}
		c.departs(input.Actor, input.Assignment, k, c.partsOf(input.Actor), pieces)
		return
	}
	c.logLeave(input.Actor, input.Assignment.Group)
	for i := range sends {
		c.push(c.outgoing(sends[i].Link), sends[i].Bytes, 0)
	}
	c.finish()
}
