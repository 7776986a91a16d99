// Package pause waits for a time that a context may cut short. It is not exact: see package realtime for that.
package pause

import (
	"context"
	"time"
)

// For waits for d. If ctx ends first, it returns why (context.Cause), and otherwise nil. It does not wait if d is not
// positive.
func For(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
