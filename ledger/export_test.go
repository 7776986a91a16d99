package ledger

// What the tests in package ledger_test use. They are there since package replay, which they test along, imports this
// one.
type (
	SimCommand = simCommand
	Relaxed    = relaxed
	Panics     = panics
)

var (
	NewMessage = newMessage
	SwitchUpOf = switchUp
	Dump       = dump
	HeaderLen  = headerLen
)

func (tx *Tx) Level() Level { return tx.level }
func (tx *Tx) Tag() uint32  { return tx.tag >> tagShift }
