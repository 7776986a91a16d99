// Package queue is message queues over HTTP, at any controller. A message is taken from a queue in one of two ways:
//
//   - At least once, by anybody: the message is hidden for the time of a lease. If it is not acknowledged by then, it
//     is taken again, perhaps by another client.
//   - Exactly once, by a client with a name. It says how many messages it has taken, and thereby acknowledges them. A
//     request that is repeated, because its answer was lost, is answered with the same message. Such a message has no
//     lease: it is for no other client until this one is removed.
//
// A client may number what it puts, too. Then a request that is repeated puts one message.
//
// Each queue is an actor, so with several groups the queues are spread over them, and can move. What is answered is
// committed, and survives the controllers. Messages are taken in the order in which they were put, except that one
// whose lease is over comes before those that were put after it. A queue is not a log: a message is for one consumer,
// and forgotten when it is acknowledged. A take does not wait for a message.
//
//	GET    /apps/queue/                       the names of all queues
//	PUT    /apps/queue/{queue}                creates it, if it does not exist. DELETE deletes it with all in it
//	GET    /apps/queue/{queue}                a Status
//	POST   /apps/queue/{queue}/messages       puts the body; ?client=NAME&number=N if it is the Nth of a client
//	POST   /apps/queue/{queue}/take           a Taken, or status 204; ?seconds=30 is the lease. Exactly once with
//	                                          ?client=NAME&after=N: by a client that has taken N
//	DELETE /apps/queue/{queue}/messages/{message}?take=N  acknowledges what was taken with a lease
//	GET    /apps/queue/{queue}/clients/{client}           a Client. DELETE removes it
package queue

import (
	"strconv"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
)

// Name is the name of the application.
const Name = "queue"

// Bounds. What would exceed one is refused with status 507 (413 for a body), and changes nothing.
const (
	MaxQueues   = 4096     // in a cluster
	MaxMessages = 10_000   // in a queue
	MaxBytes    = 16 << 20 // of the messages in a queue
	MaxBody     = 64 << 10 // bytes of a message
	MaxLeases   = 1024     // of a queue, at a time
	MaxClients  = 1024     // of a queue
	MaxLease    = 12 * time.Hour
)

// Status is what is in a queue.
type Status struct {
	Messages int    `json:"messages"` // that are not acknowledged
	Bytes    int    `json:"bytes"`    // of them
	Leases   int    `json:"leases"`   // messages that are taken with a lease
	Clients  int    `json:"clients"`  // with a name
	Put      uint64 `json:"put"`      // messages that were ever put; the newest has this number
	Taken    uint64 `json:"taken"`    // leases that there have been
}

// Taken is a message that was taken.
type Taken struct {
	Message uint64 `json:"message"` // its number in the queue
	Take    uint64 `json:"take"`    // the number of the lease, or how many messages the client has taken
	Body    string `json:"body"`
}

// Client is what a queue knows of a client with a name.
type Client struct {
	Put   uint64 `json:"put"`   // messages that it has put with a number
	Last  uint64 `json:"last"`  // the last of them, by its number in the queue
	Taken uint64 `json:"taken"` // messages that it has taken
	Holds uint64 `json:"holds"` // the last of them, which it has not acknowledged; 0: none
}

// open asks for room for a queue. opened says that the queue uses it, gone that it does not.
type (
	open   struct{ Queue string }
	opened struct{ Queue string }
	gone   struct{ Queue string }
)

// all is the key of the names.
const all = "all"

type queues struct {
	names   app.Map[string, string, bool] // of all queues, in an actor of their own
	queues  app.Table[string, Status]     // by queue, as all the others
	bodies  app.Map[string, uint64, string]
	ready   app.Map[string, uint64, bool]   // messages that can be taken
	leases  app.Map[string, uint64, uint64] // messages that are taken: the number of the lease
	clients app.Map[string, string, Client]
}

// New returns the application.
func New() *app.App {
	a := app.New(Name)
	q := &queues{
		names:   app.NewMap[string, string, bool](a, "names"),
		queues:  app.NewTable[string, Status](a, "queues", app.Sharded),
		bodies:  app.NewMap[string, uint64, string](a, "bodies", app.Sharded),
		ready:   app.NewMap[string, uint64, bool](a, "ready", app.Sharded),
		leases:  app.NewMap[string, uint64, uint64](a, "leases", app.Sharded),
		clients: app.NewMap[string, string, Client](a, "clients", app.Sharded),
	}
	app.HandleCall(a, func(open) app.Cells { return app.Need(q.names.Cell(all)) }, q.open)
	app.HandleEmitted(a, func(opened) app.Cells { return app.Need(q.names.Cell(all)) }, q.opened)
	app.HandleEmitted(a, func(gone) app.Cells { return app.Need(q.names.Cell(all)) }, q.gone)
	app.Handle(a, func(t app.Timer) app.Cells { return q.of(string(t.Data)) }, q.expire)
	q.routes(a)
	return a
}

// of returns the cells of a queue.
func (q *queues) of(name string) app.Cells {
	return app.Need(q.queues.Cell(name), q.bodies.Cell(name), q.ready.Cell(name), q.leases.Cell(name),
		q.clients.Cell(name))
}

func (q *queues) open(tx *app.Tx, m open) (bool, error) {
	n := 0
	for name := range q.names.All(tx, all) {
		if n++; name == m.Queue {
			return true, nil
		}
	}
	if n >= MaxQueues {
		return false, full("there are %d queues: delete one", n)
	}
	q.names.Put(tx, all, m.Queue, true)
	return true, nil
}

// opened keeps the name of a queue whose room another request has given back, which got it too late.
func (q *queues) opened(tx *app.Tx, m opened) error {
	q.names.Put(tx, all, m.Queue, true)
	return nil
}

func (q *queues) gone(tx *app.Tx, m gone) error {
	q.names.Delete(tx, all, m.Queue)
	return nil
}

// put adds a message. The caller writes s.
func (q *queues) put(tx *app.Tx, name string, s *Status, body string) error {
	switch {
	case s.Messages >= MaxMessages:
		return full("queue %s has %d messages: take and acknowledge some", name, s.Messages)
	case s.Bytes+len(body) > MaxBytes:
		return full("queue %s has %d bytes of messages: take and acknowledge some", name, s.Bytes)
	}
	s.Put++
	s.Messages++
	s.Bytes += len(body)
	q.bodies.Put(tx, name, s.Put, body)
	q.ready.Put(tx, name, s.Put, true)
	return nil
}

// next takes the first message that can be taken.
func (q *queues) next(tx *app.Tx, name string) (message uint64, there bool) {
	for message = range q.ready.All(tx, name) {
		q.ready.Delete(tx, name, message)
		return message, true
	}
	return 0, false
}

// forget removes a message that is acknowledged. The caller writes s.
func (q *queues) forget(tx *app.Tx, name string, s *Status, message uint64) {
	body, _ := q.bodies.Get(tx, name, message)
	s.Messages--
	s.Bytes -= len(body)
	q.bodies.Delete(tx, name, message)
}

// lease takes a message at least once; 0: there is none.
func (q *queues) lease(tx *app.Tx, name string, s *Status, d time.Duration) (t Taken, err error) {
	if s.Leases >= MaxLeases {
		return t, full("queue %s has %d leases: acknowledge some, or wait until they are over", name, s.Leases)
	}
	message, there := q.next(tx, name)
	if !there {
		return t, nil
	}
	s.Leases++
	s.Taken++
	q.leases.Put(tx, name, message, s.Taken)
	t = Taken{Message: message, Take: s.Taken}
	return t, tx.SetTimer(strconv.FormatUint(message, 10), d, []byte(name))
}

// expire makes a message ready whose lease is over.
func (q *queues) expire(tx *app.Tx, t app.Timer) error {
	name := string(t.Data)
	message, err := strconv.ParseUint(t.Name, 10, 64)
	if err != nil {
		return err
	}
	s, _ := q.queues.Get(tx, name)
	s.Leases--
	q.queues.Put(tx, name, s)
	q.leases.Delete(tx, name, message)
	q.ready.Put(tx, name, message, true)
	return nil
}

// acknowledge ends a lease. A message that is not there was acknowledged before.
func (q *queues) acknowledge(tx *app.Tx, name string, s *Status, message, take uint64) error {
	if _, there := q.bodies.Get(tx, name, message); !there && message > 0 && message <= s.Put {
		return nil
	}
	if now, leased := q.leases.Get(tx, name, message); !leased || now != take {
		return conflict("message %d is not leased by take %d: its lease is over, so it is taken again", message, take)
	}
	q.leases.Delete(tx, name, message)
	tx.CancelTimer(strconv.FormatUint(message, 10))
	s.Leases--
	q.forget(tx, name, s, message)
	return nil
}

// client returns what is known of a client.
func (q *queues) client(tx *app.Tx, name string, s *Status, client string) (Client, error) {
	c, known := q.clients.Get(tx, name, client)
	if !known {
		if s.Clients >= MaxClients {
			return c, full("queue %s has %d clients: remove those that do not come back", name, s.Clients)
		}
		s.Clients++
	}
	return c, nil
}

// putOnce adds the message with a number of a client, unless that was done before. It returns the number in the queue.
func (q *queues) putOnce(tx *app.Tx, name string, s *Status, client string, number uint64, body string,
) (uint64, error) {
	c, err := q.client(tx, name, s, client)
	switch {
	case err != nil:
		return 0, err
	case number == c.Put && number > 0:
		return c.Last, nil
	case number != c.Put+1:
		return 0, conflict("client %s has put %d messages: the next one has number %d", client, c.Put, c.Put+1)
	}
	if err := q.put(tx, name, s, body); err != nil {
		return 0, err
	}
	c.Put, c.Last = number, s.Put
	q.clients.Put(tx, name, client, c)
	return s.Put, nil
}

// takeOnce takes a message for a client that has taken some before: the same one until the client says that it has it.
func (q *queues) takeOnce(tx *app.Tx, name string, s *Status, client string, after uint64) (t Taken, err error) {
	c, err := q.client(tx, name, s, client)
	switch {
	case err != nil:
		return t, err
	case after+1 == c.Taken && c.Holds > 0:
		return Taken{Message: c.Holds, Take: c.Taken}, nil
	case after != c.Taken:
		return t, conflict("client %s has taken %d messages, not %d: ask for what comes after %d", client, c.Taken,
			after, c.Taken)
	}
	if c.Holds > 0 {
		q.forget(tx, name, s, c.Holds)
	}
	message, there := q.next(tx, name)
	if c.Holds = message; there {
		c.Taken++
		t = Taken{Message: message, Take: c.Taken}
	}
	q.clients.Put(tx, name, client, c)
	return t, nil
}

// remove forgets a client. Others take what it has not acknowledged.
func (q *queues) remove(tx *app.Tx, name string, s *Status, client string) {
	c, known := q.clients.Get(tx, name, client)
	if !known {
		return
	}
	if c.Holds > 0 {
		q.ready.Put(tx, name, c.Holds, true)
	}
	s.Clients--
	q.clients.Delete(tx, name, client)
}

// clear deletes all that is in a queue.
func (q *queues) clear(tx *app.Tx, name string) {
	for message := range q.bodies.All(tx, name) {
		q.bodies.Delete(tx, name, message)
	}
	for message := range q.ready.All(tx, name) {
		q.ready.Delete(tx, name, message)
	}
	for message := range q.leases.All(tx, name) {
		q.leases.Delete(tx, name, message)
		tx.CancelTimer(strconv.FormatUint(message, 10))
	}
	for client := range q.clients.All(tx, name) {
		q.clients.Delete(tx, name, client)
	}
}
