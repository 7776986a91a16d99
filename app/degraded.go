package app

// Degraded marks a handler that also runs without a majority: at the controller that led the group of the switch when
// the majority was lost, until it hears of another leader. PacketIn, PortStatus and FlowRemoved can have it, and only
// switches with an agent are served in this way. So a part of the network that is cut off keeps working.
//
// The handler reads the cells of its group as they were committed, and only its commands to switches of the group that
// are connected to this controller leave, each at most once. Everything else that it does is undone: what it writes is
// seen by no later message, and what it emits, sets, calls or postpones does not happen. The agent keeps the message.
// When there is a majority again, the message is handled as any other: then also its commands are sent, again, exactly
// once. So a handler may be marked if it does no harm that a command is executed twice, and that it is decided by old
// cells. A rate limit does not apply.
func Degraded() Option { return func(h *handling) { h.degraded = true } }

// Degraded reports whether the handler runs without a majority: see the option of that name.
func (tx *Tx) Degraded() bool { return tx.ledger.Degraded() }

// Degraded implements ledger.Degrader.
func (a *App) Degraded(typ uint8) bool { return len(a.degraded[typ]) > 0 }
