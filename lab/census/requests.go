package census

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/internal/httpcall"
	"github.com/holdfast-sdn/holdfast/ledger"
)

// requestRoute is where clients call the actors with a key.
const requestRoute = "POST /requests/{key}/{number}"

// requestTable has the requests that a key has executed, by number. Field 0 is how many.
const requestTable = "requests"

// heard is what an actor with a key emits to the next one.
type heard struct{ Key uint64 }

// Request is the call of a client to the actor with a key. Each has another number, from 1 on.
func Request(key, number uint64) ledger.Call {
	q := app.Request{Method: "POST", Values: map[string]string{"key": strconv.FormatUint(key, 10),
		"number": strconv.FormatUint(number, 10)}}
	return ledger.Call{Actor: ledger.Actor{App: Name, Shard: ledger.Shard{Key: ledger.Key{A: key}}}, Name: requestRoute,
		Message: httpcall.Encode(q)}
}

// Requested decodes the reply to a Request: how many requests the key has executed.
func Requested(reply []byte) (count uint64, err error) {
	r, err := httpcall.Decode[app.Response](reply)
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(string(r.Body), 10, 64)
}

// Executed returns the numbers of the requests that were executed, according to the rows of the application in one
// group.
func Executed(rows []ledger.Row) (numbers []uint64) {
	for _, r := range rows {
		if r.Table == requestTable && r.Field.A > 0 {
			numbers = append(numbers, r.Field.A)
		}
	}
	return numbers
}

// requests adds a handler over HTTP, which counts requests. Some emit something to another actor, and some fail.
func requests(a *app.App, wrong func(text string)) {
	executed := app.NewMap[uint64, uint64, uint64](a, requestTable, app.Sharded)
	heards := app.NewTable[uint64, uint64](a, "heard", app.Sharded)
	number := func(r app.Request, name string) uint64 {
		n, _ := strconv.ParseUint(r.Values[name], 10, 64) // made by Request
		return n
	}
	app.HandleHTTP(a, requestRoute, func(r app.Request) app.Cells { return app.Need(executed.Cell(number(r, "key"))) },
		func(tx *app.Tx, r app.Request) (app.Response, error) {
			k, n := number(r, "key"), number(r, "number")
			if _, twice := executed.Get(tx, k, n); twice {
				wrong(fmt.Sprintf("request %d is executed twice by key %d", n, k))
			}
			count, _ := executed.Get(tx, k, 0)
			count++
			executed.Put(tx, k, n, 1)
			executed.Put(tx, k, 0, count)
			switch n % 8 {
			case 3:
				if err := app.Emit(tx, heard{1 + k%Keys}); err != nil {
					return app.Response{}, err
				}
			case 6:
				return app.Response{}, errors.New("every eighth request fails")
			}
			return app.Response{Body: strconv.AppendUint(nil, count, 10)}, nil
		})
	app.HandleEmitted(a, func(h heard) app.Cells { return app.Need(heards.Cell(h.Key)) },
		func(tx *app.Tx, h heard) error {
			n, _ := heards.Get(tx, h.Key)
			heards.Put(tx, h.Key, n+1)
			return nil
		})
}
