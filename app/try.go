package app

// Try runs part of a handler as a transaction within the transaction. If f returns an error, everything that f did is
// undone: writes, timers, commands and messages. Try returns that error, and the handler may go on. If f returns nil,
// what it did takes effect with the rest of the handler. To abort, f returns an error.
//
// Go variables keep what f assigned to them. A panic in f fails the handler.
func (tx *Tx) Try(f func() error) error {
	m := tx.ledger.Mark()
	err := f()
	if err == nil {
		return nil
	}
	if broken := tx.ledger.Rewind(m); broken != nil {
		panic(broken)
	}
	return err
}
