package tally

// Exchanged counts the messages of an actor with another one.
type Exchanged struct {
	Sent     uint64 // to the other
	Received uint64 // from the other
}

func (e *Exchanged) add(o Exchanged) {
	e.Sent += o.Sent
	e.Received += o.Received
}

// peers counts what an actor exchanges with the most active of the others, and with all the rest.
type peers[ID comparable] struct {
	who    []*Actor[ID]
	counts []peer // likewise
	last   int    // index of the one that was found last
	rest   Exchanged
	misses uint64
}

type peer struct {
	Exchanged
	score uint32 // how active it was lately
}

// with returns the counts of a peer, for n more messages. If it is not among the most active ones, they are those of
// the rest.
func (p *peers[ID]) with(who *Actor[ID], n uint64) *Exchanged {
	who.score += scoreOfMessage * n
	if p.last < len(p.who) && p.who[p.last] == who {
		return p.found(p.last, n)
	}
	if who.gone {
		return &p.rest
	}
	for i, w := range p.who {
		if w == who {
			return p.found(i, n)
		}
	}
	if len(p.who) < MaxPeers {
		p.who, p.counts = append(p.who, who), append(p.counts, peer{})
		return p.found(len(p.who)-1, n)
	}
	if p.misses += n; p.misses%admitEvery >= n {
		return &p.rest
	}
	least := 0
	for i := range p.counts {
		if p.counts[i].score < p.counts[least].score {
			least = i
		}
	}
	for i := range p.counts {
		p.counts[i].score /= 2
	}
	p.rest.add(p.counts[least].Exchanged)
	p.who[least], p.counts[least] = who, peer{}
	return p.found(least, n)
}

// scoreOfMessage is more than 1, so that a score can be halved some times.
const scoreOfMessage = 16

func (p *peers[ID]) found(i int, n uint64) *Exchanged {
	p.last = i
	c := &p.counts[i]
	c.score = uint32(min(uint64(c.score)+scoreOfMessage*n, 1<<31))
	return &c.Exchanged
}

// sum returns what was exchanged with all peers.
func (p *peers[ID]) sum() Exchanged {
	all := p.rest
	for i := range p.counts {
		all.add(p.counts[i].Exchanged)
	}
	return all
}

// forgetGone moves peers that are not in detail any more to the rest.
func (p *peers[ID]) forgetGone() {
	n := 0
	for i, w := range p.who {
		if w.gone {
			p.rest.add(p.counts[i].Exchanged)
			continue
		}
		p.who[n], p.counts[n] = w, p.counts[i]
		n++
	}
	clear(p.who[n:])
	p.who, p.counts = p.who[:n], p.counts[:n]
}
