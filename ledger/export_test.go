package ledger

// These exports are used by the tests in package ledger_test. Those tests are in a package of their own because
// they also test package replay, which imports this one.
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
