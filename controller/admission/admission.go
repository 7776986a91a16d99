// Package admission remembers in the log who has first spoken for each switch, so that nobody else does until an
// operator forgets that: trust on first use, for certificates that do not say which switches are theirs. Application is
// what the ledger runs. Claim and Forget are its messages.
//
// It does not read certificates (package access does), and closes no connections (package southbound does).
package admission

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow"
)

// Name is the name of the application, in the log and in the API.
const Name = "admission"

// Bounds of what is remembered. A holder who claims one datapath id after the other ends at MaxOfHolder, so that others
// find room.
const (
	MaxSwitches = 1 << 16
	MaxOfHolder = 1024
	maxName     = 1 << 10 // bytes of a holder
)

// Actor is the actor that executes the messages.
var Actor = ledger.Actor{App: Name}

// The tables. The fields of holders are datapath ids, and the values say who holds them. The fields of counts are
// holders, and the values are how many datapath ids they hold.
const (
	holderTable = "holders"
	countTable  = "counts"
)

type kind uint8

const (
	claim kind = iota
	forget
)

// Claim is the message of a holder who speaks for a switch. The reply says who holds it from then on.
func Claim(id openflow.DatapathID, holder string) []byte { return encode(claim, id, holder) }

// Forget is the message to forget who holds a switch. The reply says who that was.
func Forget(id openflow.DatapathID) []byte { return encode(forget, id, "") }

func encode(k kind, id openflow.DatapathID, holder string) []byte {
	return append(binary.BigEndian.AppendUint64([]byte{byte(k)}, uint64(id)), holder...)
}

var errMessage = errors.New("admission: a message that another release has written")

func parse(b []byte) (k kind, id openflow.DatapathID, holder string, err error) {
	if len(b) < 9 || kind(b[0]) > forget || len(b) > 9+maxName || (kind(b[0]) == claim) != (len(b) > 9) {
		return 0, 0, "", errMessage
	}
	return kind(b[0]), openflow.DatapathID(binary.BigEndian.Uint64(b[1:])), string(b[9:]), nil
}

// A reply begins with one of these.
const (
	held    = 0 // the holder, or "" if there was none to forget
	refused = 1 // why nobody is remembered
	unknown = 2 // of a replica: nobody holds the switch
)

// Holder returns the holder in a reply; false if the replica that was asked knows of none.
func Holder(reply []byte) (holder string, known bool, err error) {
	switch {
	case len(reply) == 0 || reply[0] > unknown:
		return "", false, errMessage
	case reply[0] == refused:
		return "", false, errors.New(string(reply[1:]))
	}
	return string(reply[1:]), reply[0] == held, nil
}

// Application is the record as an application. The zero Application is ready to use.
type Application struct{}

// Name implements ledger.Application.
func (*Application) Name() string { return Name }

// Handle implements ledger.Application.
func (*Application) Handle(tx *ledger.Tx, in *ledger.Input) error {
	if in.Kind != ledger.Called || !tx.Enter(ledger.Shard{}) {
		return nil
	}
	k, id, holder, err := parse(in.Message)
	if err != nil {
		return err
	}
	t, at := tx.Table(holderTable), ledger.Key{A: uint64(id)}
	was, taken := tx.Get(t, ledger.Key{}, at)
	switch {
	case taken && k == forget:
		tx.Delete(t, ledger.Key{}, at)
		count(tx, string(was), -1)
	case !taken && k == claim:
		if why := full(tx, t, holder); why != "" {
			return tx.Reply(append([]byte{refused}, why...))
		}
		tx.Put(t, ledger.Key{}, at, []byte(holder))
		count(tx, holder, 1)
		was = []byte(holder)
	}
	return tx.Reply(append([]byte{held}, was...))
}

// full returns why a holder can hold no more switches; "" if it can.
func full(tx *ledger.Tx, t *ledger.Table, holder string) string {
	switch {
	case holds(tx, holder) >= MaxOfHolder:
		return fmt.Sprintf("%s already speaks for %d switches, the most that are possible without datapath ids in its "+
			"certificate: forget some with `holdfast switch forget`", holder, MaxOfHolder)
	case tx.Count(t, ledger.Key{}) >= MaxSwitches:
		return fmt.Sprintf("certificates are remembered for %d switches, the most that are possible: forget some with "+
			"`holdfast switch forget`", MaxSwitches)
	}
	return ""
}

func holds(tx *ledger.Tx, holder string) int {
	b, _ := tx.Get(tx.Table(countTable), ledger.Key{}, ledger.Key{S: holder})
	n, _ := binary.Uvarint(b)
	return int(n)
}

// count adds to the number of switches of a holder.
func count(tx *ledger.Tx, holder string, more int) {
	t, at := tx.Table(countTable), ledger.Key{S: holder}
	if n := holds(tx, holder) + more; n > 0 {
		tx.Put(t, ledger.Key{}, at, binary.AppendUvarint(nil, uint64(n)))
	} else {
		tx.Delete(t, ledger.Key{}, at)
	}
}

// Read answers a Claim from what a replica has applied. It implements ledger.Reader.
func (*Application) Read(tx *ledger.Tx, message []byte) []byte {
	_, id, _, err := parse(message)
	if err != nil {
		return append([]byte{refused}, err.Error()...)
	}
	holder, known := tx.Get(tx.Table(holderTable), ledger.Key{}, ledger.Key{A: uint64(id)})
	if !known {
		return []byte{unknown}
	}
	return append([]byte{held}, holder...)
}

// Holding is a switch, and who holds it.
type Holding struct {
	Switch openflow.DatapathID `json:"switch"`
	Holder string              `json:"holder"`
}

// Of reads the rows of the application, in the order of the switches.
func Of(rows iter.Seq[ledger.Row]) ([]Holding, error) {
	list := []Holding{}
	for row := range rows {
		if row.Table == holderTable {
			list = append(list, Holding{openflow.DatapathID(row.Field.A), string(row.Value)})
		}
	}
	slices.SortFunc(list, func(a, b Holding) int { return cmp.Compare(a.Switch, b.Switch) })
	return list, nil
}
