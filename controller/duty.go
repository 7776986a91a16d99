package controller

import "context"

// Duty is work outside the control path that only the leader does.
type Duty struct {
	// Run is called when the controller becomes leader. Its context ends when the controller is no longer the leader,
	// or stops. Run must return soon after that, and is not called again before it has returned.
	Run func(ctx context.Context, c *Controller)
	// Report returns what the duty has found out about links, with the fields of api.LinkReport. It is safe for
	// concurrent use.
	Report func() any
}

// tellDuty tells the duty whether this controller leads the first group. It does not wait: only the last call matters.
// Only the loop of that group calls it.
func (c *Controller) tellDuty(leads bool) {
	select {
	case <-c.leads:
	default:
	}
	c.leads <- leads // does not block: it has room for one, and this is the only sender
}

// tend runs the duty while this controller leads, until endDuty.
func (c *Controller) tend() {
	defer close(c.tended)
	for leads := range c.leads {
		if !leads || c.cfg.Duty == nil {
			continue
		}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan struct{})
		go func() { // ends with ctx
			defer close(ended)
			c.cfg.Duty.Run(ctx, c)
		}()
		for leads {
			leads = <-c.leads // false when it is closed
		}
		cancel()
		<-ended
	}
}

// endDuty is called when the loop has ended.
func (c *Controller) endDuty() {
	close(c.leads)
	<-c.tended
}
