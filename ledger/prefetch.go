package ledger

import (
	"github.com/holdfast-sdn/holdfast/internal/message"
	"github.com/holdfast-sdn/holdfast/ledger/cells"
	"github.com/holdfast-sdn/holdfast/openflow"
)

// Prefetcher is an Application that knows which rows it will probably use for a message, before it handles it.
type Prefetcher interface {
	Application
	// Prefetch passes the names of these rows to row. Nothing depends on them but how long Handle takes. It must not
	// panic, or take long. Of in, Kind, Switch and Message are set.
	Prefetch(in *Input, row func(table string, cell, field Key))
}

// prefetcher is what a Core needs to prefetch rows.
type prefetcher struct {
	apps  []Prefetcher
	row   func(table string, cell, field Key) // adds a row
	app   string                              // whose rows are added
	rows  cells.Prefetch
	input Input
	none  int // messages since the last row of a large table
	rest  int // calls of Core.Prefetch that do nothing, because there was no such row for maxPrefetch messages
}

const (
	// maxPrefetch is how many messages are looked at together.
	maxPrefetch = 32
	// prefetchRest is how many calls of Core.Prefetch do nothing when there was nothing for maxPrefetch messages.
	prefetchRest = 31
	// largeTable is how many rows are more than what the cache of a processor keeps beside other things.
	largeTable = 1 << 15
)

// Prefetch has the processor load, side by side, the rows that applications will probably use for the next messages of
// a switch. It returns for how many messages it need not be called again, at least one. Like the other methods it is
// for the goroutine of the Core. A panic in an application ends prefetching, and nothing else.
func (c *Core) Prefetch(id openflow.DatapathID, messages []byte) (n int) {
	p := &c.prefetch
	if len(p.apps) == 0 {
		return maxPrefetch
	}
	if p.rest > 0 {
		p.rest--
		return maxPrefetch
	}
	defer func() {
		if recover() != nil {
			p.apps, p.rows, n = nil, cells.Prefetch{}, 1
		}
	}()
	p.input.Kind, p.input.Switch = Message, id
	for ; n < maxPrefetch && len(messages) > 0 && p.rows.Room(); n++ {
		msg, rest, err := openflow.Next(messages)
		if err != nil || msg == nil {
			break
		}
		messages, p.input.Message = rest, msg
		if message.KindOf(msg) != message.Ordinary {
			continue
		}
		for _, app := range p.apps {
			p.app = app.Name()
			app.Prefetch(&p.input, p.row)
		}
	}
	if p.none += n; p.rows.Len() > 0 {
		p.none = 0
	} else if p.none >= maxPrefetch {
		p.none, p.rest = 0, prefetchRest
	}
	p.rows.Do()
	p.input.Message = nil
	return max(n, 1)
}

// prefetchRow adds a row of a table of an application. If the table is small, nothing would be gained, and it is left
// out.
func (c *Core) prefetchRow(table string, cell, field Key) {
	if t := c.state.known(TableName{c.prefetch.app, table}); t != nil && t.cells.Rows() > largeTable {
		c.prefetch.rows.Add(t.cells, cell, field)
	}
}

func newPrefetcher(c *Core) prefetcher {
	p := prefetcher{row: c.prefetchRow}
	for _, a := range c.apps {
		if a, is := a.(Prefetcher); is {
			p.apps = append(p.apps, a)
		}
	}
	return p
}
