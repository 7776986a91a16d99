package ledger

import "github.com/holdfast-sdn/holdfast/openflow"

// Change is a value that a transaction has put into a table of its application, or deleted.
type Change struct {
	Table       string
	Cell, Field Key
	Value       []byte // shared with the table, so it must not be modified; nil: it was deleted
}

// ObserveTables sets a function that is called with each change of an application's tables once it is committed, in the
// order of the log, at every replica. Not with what an actor brings or takes along when it moves, and not with what a
// snapshot contains. f must not call the ledger. All replicas observe the same applications: of a row that several
// transactions of an entry write, and nobody observes, the entry may have the last value only.
func (c *Core) ObserveTables(app string, f func(Change)) {
	if c.observers == nil {
		c.observers = map[string]func(Change){}
	}
	c.observers[app] = f
}

// observer returns who is told of a change that another leader has logged; nil if nobody is.
func (c *Core) observer(r *Record) func(Change) {
	if r.Op != OpPut && r.Op != OpDelete {
		return nil
	}
	return c.observers[r.Table.App]
}

// Read has a Reader answer a message. It reports false while this replica leads.
func (c *Core) Read(a Actor, message []byte) (answer []byte, ok bool) {
	i := c.appOf(a.App)
	if i < 0 || c.leading {
		return nil, false
	}
	r, ok := c.apps[i].(Reader)
	if !ok {
		return nil, false
	}
	return r.Read(&Tx{c: c, app: a.App, at: a.Shard, reads: true}, message), true
}

// observed is a change in a batch of this leader.
type observed struct {
	app int
	Change
}

// observeCommitted tells the changes of a committed batch of this leader.
func (c *Core) observeCommitted(b *batch) {
	for _, o := range b.observed {
		c.observers[c.apps[o.app].Name()](o.Change)
	}
	clear(b.observed)
}

// Observe sets a function that is called with every event whose message is in an entry of another leader, in the order
// of the log, after it is applied. msg is valid during the call. f must not call the ledger. nil removes it.
func (c *Core) Observe(f func(id openflow.DatapathID, epoch, seq uint64, msg []byte)) { c.observe = f }

// ObserveSkipped is Observe for events whose messages are not in the log: the events of an epoch up to seq that were
// not reported yet. asynchronous counts the PACKET_IN, FLOW_REMOVED and PORT_STATUS among them.
func (c *Core) ObserveSkipped(f func(id openflow.DatapathID, epoch, seq, asynchronous uint64)) {
	c.observeSkipped = f
}
