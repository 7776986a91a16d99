package history

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"time"

	"github.com/holdfast-sdn/holdfast/lab/census"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
	replaying "github.com/holdfast-sdn/holdfast/ryu/replay"
	"github.com/holdfast-sdn/holdfast/ryu/wire"
)

// programRound is how long a Program sleeps at most.
const programRound = 700 * time.Millisecond

// Program is a hosted application: its behaviour depends on its inputs only, and each input affects everything after
// it.
type Program struct {
	generation uint64 // of a replay
	Number     uint64 // of the last input that it has executed
	sum        uint64
	up         map[openflow.DatapathID]bool
	wake       int64
}

// NewProgram makes a Program that has executed nothing.
func NewProgram(seed uint64, began int64) Program {
	return Program{sum: seed ^ uint64(began), up: map[openflow.DatapathID]bool{}, wake: wire.NoWake}
}

// Do executes an input. It remembers switches, so it may send commands to switches that are down.
func (p *Program) Do(in wire.Input, raw []byte) wire.Result {
	sum := fnv.New64a()
	_, _ = sum.Write(binary.BigEndian.AppendUint64(nil, p.sum))
	_, _ = sum.Write(raw)
	p.Number, p.sum = in.Number, sum.Sum64()
	r := wire.Result{Number: in.Number, Digest: uint32(p.sum)}
	if p.wake >= 0 && p.wake <= in.Time {
		p.noteAll(&r)
		p.wake = in.Time + int64(p.sum%uint64(programRound))
	}
	switch in.Kind {
	case wire.Up:
		p.up[in.Switch] = true
		if p.wake < 0 {
			p.wake = in.Time // at once
		}
	case wire.Down:
		delete(p.up, in.Switch)
	case wire.Message:
		switch p.sum % 8 {
		case 0:
			p.noteAll(&r)
		case 1, 2:
			p.note(&r, in.Switch)
		case 3:
			r.Commands = append(r.Commands, wire.Command{Switch: in.Switch,
				Message: (&of13.BarrierRequest{}).Append(nil, uint32(p.sum))})
		}
	case wire.Request:
		r.Answers = []wire.Answer{{Request: in.Number, Status: 200}}
	}
	r.Wake = p.wake
	return r
}

func (p *Program) noteAll(r *wire.Result) {
	for _, id := range slices.Sorted(maps.Keys(p.up)) {
		p.note(r, id)
	}
}

// notedType is the EtherType of frames that contain the number of the input for which they were sent.
const notedType = 0x88b6

// note sends the number of the input to the host at a switch.
func (p *Program) note(r *wire.Result, to openflow.DatapathID) {
	data := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint16(make([]byte, 12), notedType), p.Number)
	m := of13.PacketOut{BufferID: of13.NoBuffer, InPort: of13.PortController,
		Actions: of13.Actions(nil).Output(census.HostPort, 0), Data: data}
	r.Commands = append(r.Commands, wire.Command{Switch: to, Message: m.Append(nil, uint32(p.sum))})
}

// noted reads the number from a command.
func noted(msg []byte) (number uint64, ok bool) {
	const tail = 2 + 8
	if len(msg) < openflow.HeaderLen+tail || msg[1] != of13.TypePacketOut ||
		binary.BigEndian.Uint16(msg[len(msg)-tail:]) != notedType {
		return 0, false
	}
	return binary.BigEndian.Uint64(msg[len(msg)-8:]), true
}

// follow executes everything committed up to an input, and returns the result of that input.
func (p *Program) follow(log *replaying.Log, number uint64) (*wire.Result, error) {
	if h := log.Hosting(); p.generation != h.Generation {
		*p = NewProgram(h.Seed, h.Began)
		p.generation = h.Generation
	}
	raw, n, err := log.Inputs(p.Number+1, 1, 0)
	if err != nil {
		return nil, err
	}
	if n == 0 || number != p.Number+1 {
		return nil, fmt.Errorf("the last that was executed is %d; %d are committed", p.Number, log.Committed().Input)
	}
	in, _, err := wire.ParseInput(raw)
	if err != nil {
		return nil, err
	}
	r := p.Do(in, raw)
	return &r, nil
}
