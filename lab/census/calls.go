package census

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/ledger"
)

// question is what an actor with a key asks another one: by app.Call with a number of its own from 1 on, else by
// app.Ask.
type question struct {
	From, To, Number uint64
	Until            int64 // until when the other one postpones it; 0 is not at all
}

// answer is the answer to a question.
type answer struct{ Number uint64 }

// callLimit is how long an answer may take.
const callLimit = 2 * time.Second

// The fields of table asked: how many calls there were, how many questions are due and how many have ended. The numbers
// of calls that have not ended follow.
const (
	askedCalls = iota
	askedDue
	askedEnded
	askedOpen
)

const askedTable = "asked"

// calls adds calls between the actors with a key. Each call ends once, and a request that is answered was executed
// once.
func calls(a *app.App, key func(app.PacketIn) uint64, wrong func(text string)) {
	asked := app.NewMap[uint64, uint64, uint64](a, askedTable, app.Sharded)
	executed := app.NewMap[uint64, uint64, uint64](a, "executed", app.Sharded)
	cells := func(in app.PacketIn) app.Cells { return app.Need(asked.Cell(key(in))) }
	other := func(key, number uint64) uint64 { return 1 + (key+number)%Keys }
	asks := func(in app.PacketIn) bool { return frameNumber(in.Data)%16 == 3 }
	count := func(tx *app.Tx, key, field uint64) uint64 {
		n, _ := asked.Get(tx, key, field)
		asked.Put(tx, key, field, n+1)
		return n + 1
	}

	app.Handle(a, cells, func(tx *app.Tx, in app.PacketIn) error {
		k := key(in)
		if asks(in) {
			count(tx, k, askedDue)
			return nil
		}
		if frameNumber(in.Data)%8 != 5 {
			return nil
		}
		n := count(tx, k, askedCalls)
		asked.Put(tx, k, askedOpen+n, 1)
		q := question{From: k, To: other(k, n), Number: n}
		if n%3 == 0 {
			q.Until = tx.Now().Add(callLimit / 8).UnixNano()
		}
		return app.Call(tx, q, callLimit)
	})
	app.Handle(a, cells, func(tx *app.Tx, in app.PacketIn) error {
		if !asks(in) {
			return nil
		}
		k := key(in)
		_, err := app.Ask[answer](tx, question{From: k, To: other(k, frameNumber(in.Data))}, callLimit)
		if err != nil && !errors.Is(err, app.ErrLate) && !errors.As(err, new(app.CallError)) {
			return err
		}
		due, _ := asked.Get(tx, k, askedDue)
		if ended := count(tx, k, askedEnded); ended > due {
			wrong(fmt.Sprintf("%d questions of key %d have ended, and it had %d", ended, k, due))
		}
		return nil
	})
	app.HandleCall(a, func(q question) app.Cells { return app.Need(executed.Cell(q.To)) },
		func(tx *app.Tx, q question) (answer, error) {
			if wait := time.Duration(q.Until - tx.Now().UnixNano()); q.Until != 0 && wait > 0 {
				return answer{}, app.Later(wait)
			}
			if q.Number > 0 {
				field := q.From<<32 | q.Number%64
				if last, _ := executed.Get(tx, q.To, field); last == q.Number {
					wrong(fmt.Sprintf("call %d of key %d is executed twice by key %d", q.Number, q.From, q.To))
				}
				executed.Put(tx, q.To, field, q.Number)
			}
			if q.Number%7 == 2 {
				return answer{}, errors.New("every seventh call fails")
			}
			return answer{q.Number}, nil
		})
	app.HandleAnswer(a, func(q question) app.Cells { return app.Need(asked.Cell(q.From)) },
		func(tx *app.Tx, m app.Answer[question, answer]) error {
			q := m.Request
			switch open, _ := asked.Get(tx, q.From, askedOpen+q.Number); {
			case open == 0:
				wrong(fmt.Sprintf("call %d of key %d ends twice: %v", q.Number, q.From, m.Err))
			case m.Err == nil && (m.Value.Number != q.Number || q.Number%7 == 2):
				wrong(fmt.Sprintf("call %d of key %d is answered with %d", q.Number, q.From, m.Value.Number))
			}
			asked.Delete(tx, q.From, askedOpen+q.Number)
			return nil
		})
}

// OpenCalls says which call has not ended, according to the rows of the application in one group; "" is none.
func OpenCalls(rows []ledger.Row) string {
	due := map[uint64]uint64{} // and not ended
	for _, r := range rows {
		if r.Table != askedTable {
			continue
		}
		n, _ := binary.Uvarint(r.Value)
		switch r.Field.A {
		case askedCalls:
		case askedDue:
			due[r.Cell.A] += n
		case askedEnded:
			due[r.Cell.A] -= n
		default:
			return fmt.Sprintf("call %d of key %d has not ended", r.Field.A-askedOpen, r.Cell.A)
		}
	}
	for k, n := range due {
		if n != 0 {
			return fmt.Sprintf("%d questions of key %d have not ended", n, k)
		}
	}
	return ""
}
