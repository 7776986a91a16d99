// Package liveness is an application that decides how each link between switches is monitored: it knows the two ports
// of the link, measures its round-trip time, and computes from that how often BFD should send. The links come from the
// application topology.
//
// It measures the round-trip time from time to time with pairs of frames that leave a switch together. The switch sends
// one of them to the controller at once. The other crosses the link, the far switch returns it by the port where it
// arrived, and the first switch then sends it to the controller too. The difference between the two arrivals is a
// sample. The delay of the control channel varies, so differences below Resolution are noise.
//
// A link that is down is still monitored, because otherwise nothing would notice that it is back. It is forgotten when
// one of its ports is removed, or leads to another switch.
//
// A switch that has lost its controllers still returns such frames if it is alive. So frames are still sent over links
// to a switch that is down, at a lower rate, and Echo reports the result.
//
// The only flow entries that it installs are the two that return its frames, and one that drops the frames of sentries
// (package bfd/sentry). It does not configure BFD: package setup does that, through the databases of the switches.
package liveness

import (
	"crypto/rand"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/bfd"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/network/topology"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// Name is that of the application, and of the tables' owner.
const Name = "liveness"

// Cookie is that of all flow entries of this package, and of no other.
const Cookie uint64 = 0x68666c697665 // "hflive"

// priority is above that of any forwarding entry.
const priority = 65535

// maxEnds bounds the recorded ports. Further links are not monitored.
const maxEnds = 1 << 15

// all is the one cell of each table.
const all = 0

// New returns the application. It works only beside topology.
func New() *app.App {
	a := app.New(Name)
	l := tablesOf(a)
	up := app.Need(l.up.Cell(all))
	cells := app.Need(l.up.Cell(all), l.echoes.Cell(all), l.links.Cell(all), l.peers.Cell(all), l.totals.Cell(all),
		l.queue.Cell(all), l.secret.Cell(all))
	app.Handle(a, func(app.SwitchUp) app.Cells { return up }, l.switchUp)
	app.Handle(a, func(app.SwitchDown) app.Cells { return up }, l.switchDown)
	app.HandleEmitted(a, func(topology.LinkUp) app.Cells { return cells }, l.linkUp)
	app.HandleEmitted(a, func(topology.LinkDown) app.Cells { return cells }, l.linkDown)
	app.Handle(a, func(app.PortStatus) app.Cells { return cells }, l.portStatus)
	app.Handle(a, func(app.SwitchForgotten) app.Cells { return cells }, l.switchForgotten)
	app.Handle(a, func(app.Timer) app.Cells { return cells }, l.tick)
	app.Handle(a, func(in app.PacketIn) app.Cells {
		if !ours(in.Data) {
			return app.Cells{} // so that it stays in the group of the switch
		}
		return cells
	}, l.packetIn)
	return a
}

// tablesOf declares the tables of the application.
func tablesOf(a *app.App) *liveness {
	return &liveness{
		links:  app.NewMap[uint32, app.PortOf, linkRow](a, "links"),
		peers:  app.NewMap[uint32, app.PortOf, app.PortOf](a, "peers"),
		totals: app.NewTable[uint32, totals](a, "totals"), queue: app.NewMap[uint32, uint64, app.PortOf](a, "queue"),
		secret: app.NewTable[uint32, []byte](a, ledger.SecretTable),
		up:     app.NewMap[uint32, app.Switch, uint16](a, "up"),
		echoes: app.NewMap[uint32, app.PortOf, echoRow](a, "echoes"),
	}
}

type liveness struct {
	links app.Map[uint32, app.PortOf, linkRow] // by the lower end
	// where a port leads; the zero PortOf if it led to a switch and no longer does
	peers  app.Map[uint32, app.PortOf, app.PortOf]
	totals app.Table[uint32, totals]
	queue  app.Map[uint32, uint64, app.PortOf] // links to be looked at, by when
	secret app.Table[uint32, []byte]
	up     app.Map[uint32, app.Switch, uint16]
	echoes app.Map[uint32, app.PortOf, echoRow] // by the lower end
}

// linkRow is a link that is or was up in both directions.
type linkRow struct {
	_       struct{} `cbor:",toarray"`
	To      app.PortOf
	Up      bool // in both directions
	Changed int64
	Reason  topology.Reason // of its being down

	RTT      int64 // ns
	Measured int64 // when; 0: never

	Due     uint64  // in the queue; 0: it is not there
	Sent    uint8   // pairs of the present measurement
	Seq     uint64  // of the last pair
	Direct  int64   // when the frame of it that stays came back; 0: not yet
	Over    int64   // when the one that crosses the link came back; 0: not yet
	Samples []int64 // ns
}

type totals struct {
	_       struct{} `cbor:",toarray"`
	Ends    uint32
	Refused uint64 // links for which there was no room
}

// switchUp installs entries that return frames which came over a link, and that send returned ones to the controller.
// They have two addresses that no bridge forwards, and the entry turns one into the other, so that a frame is returned
// only once, whoever sent it. Frames of sentries are dropped and reach no application.
func (l *liveness) switchUp(tx *app.Tx, up app.SwitchUp) error {
	l.up.Put(tx, all, up.Switch, 1)
	entry := func(match of13.Match, does of13.Instructions) {
		tx.FlowMod(up.Switch, of13.FlowMod{Command: of13.FlowAdd, Cookie: Cookie, Priority: priority,
			BufferID: of13.NoBuffer,
			OutPort:  of13.PortAny, OutGroup: of13.GroupAny, Match: match, Instructions: does})
	}
	pair := func(dst app.MAC, does of13.Actions) {
		entry(of13.Match(nil).WithEthDst(dst).WithEthType(etherType), of13.Instructions(nil).Apply(does))
	}
	pair(outward, of13.Actions(nil).SetField(of13.Exact(of13.FieldEthDst, homeward[:])).Output(of13.PortInPort, 0))
	pair(homeward, of13.Actions(nil).Output(of13.PortController, of13.MaxLenNoBuffer))
	entry(of13.Match(nil).WithEthType(bfd.EtherTypeSentry), nil)
	return nil
}

func (l *liveness) switchDown(tx *app.Tx, down app.SwitchDown) error {
	l.up.Delete(tx, all, down.Switch)
	return nil
}

// switchForgotten removes the ports of a switch that does not come back, and their links.
func (l *liveness) switchForgotten(tx *app.Tx, m app.SwitchForgotten) error {
	for at := range l.peers.All(tx, all) {
		if at.Switch == m.Switch {
			l.part(tx, at, app.PortOf{})
			l.peers.Delete(tx, all, at)
			sum, _ := l.totals.Get(tx, all)
			sum.Ends--
			l.totals.Put(tx, all, sum)
		}
	}
	return nil
}

// order returns the lower end first.
func order(a, b app.PortOf) (lower, upper app.PortOf) {
	if a.Compare(b) > 0 {
		return b, a
	}
	return a, b
}

func (l *liveness) linkUp(tx *app.Tx, m topology.LinkUp) error {
	l.part(tx, m.From, m.To)
	l.part(tx, m.To, m.From)
	if !m.Bidirectional {
		return nil
	}
	if _, ok := l.secret.Get(tx, all); !ok {
		key := make([]byte, 32)
		rand.Read(key) // never fails
		l.secret.Put(tx, all, key)
	}
	lower, upper := order(m.From, m.To)
	row, known := l.links.Get(tx, all, lower)
	if !known && !l.room(tx, lower, upper) {
		return nil
	}
	row.To, row.Up, row.Changed, row.Reason = upper, true, tx.Now().UnixNano(), 0
	l.peers.Put(tx, all, lower, upper)
	l.peers.Put(tx, all, upper, lower)
	err := l.enqueue(tx, lower, &row, tickGap)
	l.links.Put(tx, all, lower, row)
	return err
}

// room counts two ends, if they are new, unless there are too many.
func (l *liveness) room(tx *app.Tx, ends ...app.PortOf) bool {
	sum, _ := l.totals.Get(tx, all)
	defer func() { l.totals.Put(tx, all, sum) }()
	var fresh uint32
	for _, e := range ends {
		if _, known := l.peers.Get(tx, all, e); !known {
			fresh++
		}
	}
	if sum.Ends+fresh > maxEnds {
		sum.Refused++
		return false
	}
	sum.Ends += fresh
	return true
}

// part removes the link that a port belonged to, unless it is the link to other.
func (l *liveness) part(tx *app.Tx, at, other app.PortOf) {
	peer, known := l.peers.Get(tx, all, at)
	if !known || peer == other || peer == (app.PortOf{}) {
		return
	}
	lower, _ := order(at, peer)
	if row, ok := l.links.Get(tx, all, lower); ok && row.Due != 0 {
		l.queue.Delete(tx, all, row.Due)
	}
	l.links.Delete(tx, all, lower)
	l.echoes.Delete(tx, all, lower)
	l.peers.Put(tx, all, at, app.PortOf{})
	l.peers.Put(tx, all, peer, app.PortOf{})
}

func (l *liveness) linkDown(tx *app.Tx, m topology.LinkDown) error {
	for _, d := range m.Links {
		lower, upper := order(d.From, d.To)
		row, known := l.links.Get(tx, all, lower)
		if !known || row.To != upper || !row.Up {
			continue
		}
		row.Up, row.Changed, row.Reason = false, tx.Now().UnixNano(), m.Reason
		if m.Reason == topology.SwitchIsDown {
			if err := l.enqueue(tx, lower, &row, askEvery); err != nil {
				return err
			}
		}
		l.links.Put(tx, all, lower, row)
	}
	return nil
}

// portStatus removes a port that the switch has removed.
func (l *liveness) portStatus(tx *app.Tx, s app.PortStatus) error {
	at := app.PortOf{Switch: s.Switch, Port: s.Port.Port}
	if _, known := l.peers.Get(tx, all, at); !known || s.Reason != of13.PortDelete {
		return nil
	}
	l.part(tx, at, app.PortOf{})
	l.peers.Delete(tx, all, at)
	sum, _ := l.totals.Get(tx, all)
	sum.Ends--
	l.totals.Put(tx, all, sum)
	return nil
}

// enqueue schedules a link to be handled after a while, or sooner if it is queued already. The caller writes row.
func (l *liveness) enqueue(tx *app.Tx, at app.PortOf, row *linkRow, after time.Duration) (err error) {
	now := uint64(tx.Now().UnixNano())
	due := now + uint64(after)
	if row.Due != 0 {
		if row.Due <= due {
			return nil
		}
		l.queue.Delete(tx, all, row.Due)
	}
	// else the timer comes soon enough
	if first, any := l.first(tx); !any || first > now+uint64(tickGap) || first+uint64(overdue) < now {
		err = tx.SetTimer(timer, min(after, tickGap), nil)
	}
	row.Due = l.place(tx, at, due)
	return err
}
