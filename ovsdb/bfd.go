package ovsdb

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
)

// markKey is the key of an interface's external_ids that holds what SetBFD has set there, for example "enable=true
// min_rx=5 min_tx=5". It outlives the process, so that ClearBFD knows what SetBFD has set.
const markKey = "holdfast"

// maxTries bounds how often a change is retried because others changed the same interface meanwhile.
const maxTries = 5

// ErrForeign is wrapped by the error if somebody else has set up or changed BFD on an interface.
var ErrForeign = errors.New("BFD was set up by another program or operator")

// BFD is how an interface should be monitored. Open vSwitch uses whole milliseconds: fractions are rounded up.
type BFD struct {
	MinTx, MinRx time.Duration
	Multiplier   int // 1 to 255; 0: the switch's default, which is 3 and cannot be changed in old versions

	LocalDst  net.HardwareAddr // the destination of packets; none: 00:23:20:00:00:01
	RemoteDst net.HardwareAddr // the destination that received packets must have; none: any
}

// config returns the keys and values of the column bfd.
func (b BFD) config() (textMap, error) {
	if b.Multiplier < 0 || b.Multiplier > 255 {
		return nil, fmt.Errorf("multiplier %d is not in 1 to 255", b.Multiplier)
	}
	m := textMap{"enable": "true"}
	for key, d := range map[string]time.Duration{"min_tx": b.MinTx, "min_rx": b.MinRx} {
		if d <= 0 || d > time.Hour {
			return nil, fmt.Errorf("%s %v is not above 0 and up to an hour", key, d)
		}
		m[key] = strconv.FormatInt(int64((d+time.Millisecond-1)/time.Millisecond), 10)
	}
	if b.Multiplier > 0 {
		m["mult"] = strconv.Itoa(b.Multiplier)
	}
	for key, a := range map[string]net.HardwareAddr{"bfd_local_dst_mac": b.LocalDst,
		"bfd_remote_dst_mac": b.RemoteDst} {
		if len(a) > 0 {
			m[key] = a.String()
		}
	}
	return m, nil
}

// SetBFD sets up BFD on an interface of a View, or changes what it has set up. If nothing differs it does nothing. If
// somebody else has set up BFD there, or changed what SetBFD has set, nothing is changed and the error is ErrForeign.
func (c *Client) SetBFD(ctx context.Context, i Interface, b BFD) error {
	want, err := b.config()
	if err == nil {
		err = c.change(ctx, i, func(bfd, ours textMap) (textMap, error) { return want, foreign(bfd, ours, want) })
	}
	if err != nil {
		return fmt.Errorf("set up BFD on %s: %w", i.Name, err)
	}
	return nil
}

// Interval returns the interval at which BFD is configured to send on an interface; 0 if it is not set.
func (i Interface) Interval() time.Duration {
	ms, err := strconv.Atoi(i.bfd["min_tx"])
	if err != nil {
		return 0
	}
	return time.Duration(ms) * time.Millisecond
}

// Check reports whether SetBFD has nothing to do on an interface. The error is the one that SetBFD would return.
func (i Interface) Check(b BFD) (done bool, err error) {
	want, err := b.config()
	if err == nil {
		err = foreign(i.bfd, i.mark, want)
	}
	return err == nil && i.Ours && upToDate(i.bfd, i.mark, want), err
}

// foreign returns an error if a change would overwrite what SetBFD has not set.
func foreign(bfd, ours, want textMap) error {
	for _, key := range slices.Sorted(maps.Keys(bfd)) {
		if ours[key] == bfd[key] {
			continue
		}
		if _, wanted := want[key]; wanted || len(ours) == 0 {
			return fmt.Errorf("%w: %s=%s is not ours: clear it, or leave this link to its owner", ErrForeign, key,
				bfd[key])
		}
	}
	return nil
}

// ClearBFD removes what SetBFD has set on an interface, and leaves what others have set or changed since.
func (c *Client) ClearBFD(ctx context.Context, i Interface) error {
	err := c.change(ctx, i, func(_, _ textMap) (textMap, error) { return nil, nil })
	if err != nil {
		return fmt.Errorf("clear BFD on %s: %w", i.Name, err)
	}
	return nil
}

// change replaces what SetBFD has set on an interface by what decide returns, in a transaction that fails if somebody
// else changes the interface meanwhile; then it retries.
func (c *Client) change(ctx context.Context, i Interface, decide func(bfd, ours textMap) (textMap, error)) error {
	for range maxTries {
		found, err := c.transact(ctx, operation{Op: "select", Table: "Interface", Where: is(i.id),
			Columns: []string{"bfd", "external_ids"}})
		if err != nil {
			return err
		}
		if len(found) != 1 {
			return errors.New("the interface is gone")
		}
		now := found[0]
		ours := parseMark(now.ExternalIDs[markKey])
		want, err := decide(now.BFD, ours)
		if err != nil {
			return err
		}
		if _, marked := now.ExternalIDs[markKey]; marked == (len(want) > 0) && upToDate(now.BFD, ours, want) {
			return nil
		}
		_, err = c.transact(ctx, replace(i.id, now, ours, want)...)
		if e := (*DatabaseError)(nil); !errors.As(err, &e) || e.Reason != "timed out" { // of the operation "wait"
			return err
		}
	}
	return fmt.Errorf("others changed the interface meanwhile, %d times", maxTries)
}

func upToDate(bfd, ours, want textMap) bool {
	if !maps.Equal(ours, want) {
		return false
	}
	for key, v := range want {
		if bfd[key] != v {
			return false
		}
	}
	return true
}

// replace returns a transaction that, if the row is unchanged, replaces our pairs by want. A pair that somebody has
// changed is not deleted, since a pair to delete must match as a whole (5.1).
func replace(id uuid, now interfaceRow, ours, want textMap) []operation {
	immediately := 0
	mutations := []mutation{{"bfd", "delete", ours}, {"external_ids", "delete", textSet{markKey}}}
	if len(want) > 0 {
		mutations = append(mutations, mutation{"bfd", "insert", want},
			mutation{"external_ids", "insert", textMap{markKey: mark(want)}})
	}
	return []operation{
		{Op: "wait", Table: "Interface", Where: is(id), Columns: []string{"bfd", "external_ids"}, Until: "==",
			Timeout: &immediately,
			Rows:    []any{map[string]textMap{"bfd": now.BFD, "external_ids": now.ExternalIDs}}},
		{Op: "mutate", Table: "Interface", Where: is(id), Mutations: mutations},
		{Op: "comment", Comment: "holdfast: BFD"}, // for the server's log
	}
}

func is(id uuid) []condition { return []condition{{"_uuid", "==", id}} }

func mark(m textMap) string {
	var pairs []string
	for _, key := range slices.Sorted(maps.Keys(m)) {
		pairs = append(pairs, key+"="+m[key])
	}
	return strings.Join(pairs, " ")
}

// parseMark reads what mark wrote. Anything else there gives pairs that match nothing.
func parseMark(s string) textMap {
	m := textMap{}
	for _, pair := range strings.Fields(s) {
		key, value, _ := strings.Cut(pair, "=")
		m[key] = value
	}
	return m
}

// transact runs operations, all or none, and returns the rows that the first selects.
func (c *Client) transact(ctx context.Context, ops ...operation) ([]interfaceRow, error) {
	params := []any{database}
	for _, op := range ops {
		params = append(params, op)
	}
	var result json.RawMessage
	result, err := c.call(ctx, "transact", params)
	if err != nil {
		return nil, err
	}
	return rows(result)
}
