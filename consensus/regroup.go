package consensus

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/holdfast-sdn/holdfast/consensus/storage"
	"github.com/holdfast-sdn/holdfast/consensus/storage/disk"
	"github.com/holdfast-sdn/holdfast/consensus/wire"
	"github.com/holdfast-sdn/holdfast/internal/durable"
)

// ErrSeveral says that a controller takes part in several groups already.
var ErrSeveral = errors.New("the log has several groups already")

// Regroup makes the only group of a controller group 1 of several, and begins another group 0. The controller does not
// run. Its log keeps every entry, term, vote and member, and only the number of the group changes. So group 1 is the
// same Raft group. Controllers that are regrouped and those that are not refuse each other (HostConfig.Several), which
// is a partition of that group. So they may be regrouped one after the other, while the others run.
//
// system is the configuration of group 0. It must be the same at all controllers, and its members must be the
// controllers of the log. If Regroup was interrupted, it is called again. It returns ErrSeveral if nothing is left to
// do.
func Regroup(cfg HostConfig, system GroupConfig) error {
	cfg = cfg.withDefaults()
	cfg.Several = false // so far
	begun, old := cfg.Dir+".regrouped", cfg.Dir+".before"
	if !disk.Exists(cfg.Dir) && disk.Exists(old) { // it was interrupted between the two renames
		return replaceDir(cfg.Dir, begun, old)
	}
	saved, err := loadOnly(cfg)
	if errors.Is(err, ErrSeveral) {
		err = errors.Join(err, os.RemoveAll(old))
	}
	if err != nil {
		return fmt.Errorf("consensus: %w", err)
	}
	members, err := membersOf(cfg, saved)
	if err != nil {
		return fmt.Errorf("consensus: %w", err)
	}
	if !slices.Equal(slices.Sorted(maps.Keys(members)), slices.Sorted(maps.Keys(system.Members))) {
		return fmt.Errorf("consensus: the controllers of the log are %v, and those of the cluster file are %v: "+
			"use a file with the former; if somebody was added or removed just now, start this controller again "+
			"first, so that it learns of that", named(members), named(system.Members))
	}
	if err := os.RemoveAll(begun); err != nil {
		return fmt.Errorf("consensus: %w", err)
	}
	next := cfg
	next.Dir, next.Several = begun, true
	if err := saveFirst(next, []storage.Batch{
		{Group: 1, Hard: saved.Hard, Entries: saved.Entries, Snapshot: &saved.Snapshot}, system.boot(),
	}); err != nil {
		return fmt.Errorf("consensus: %w", err)
	}
	return replaceDir(cfg.Dir, begun, old)
}

// replaceDir puts the new folder in the place of the old one, which is removed: its votes must not be used again.
func replaceDir(dir, begun, old string) error {
	if disk.Exists(dir) {
		if err := os.RemoveAll(old); err != nil {
			return fmt.Errorf("consensus: %w", err)
		}
		if err := os.Rename(dir, old); err != nil {
			return fmt.Errorf("consensus: %w", err)
		}
	}
	err := os.Rename(begun, dir)
	if err == nil {
		err = durable.Names(filepath.Dir(dir))
	}
	if err == nil {
		err = os.RemoveAll(old)
	}
	if err != nil {
		return fmt.Errorf("consensus: %w", err)
	}
	return nil
}

// loadOnly returns the log of the only group.
func loadOnly(cfg HostConfig) (only storage.Saved, err error) {
	if !disk.Exists(cfg.Dir) {
		return only, fmt.Errorf("%s: %w", cfg.Dir, ErrNoLog)
	}
	d, err := disk.Open(cfg.Dir, cfg.owner(), cfg.Fsync, cfg.Logger)
	if err != nil {
		return only, err
	}
	saved, err := d.Load()
	if err = errors.Join(grouping(cfg, err), d.Close()); errors.Is(err, ErrGrouping) {
		err = fmt.Errorf("%s: %w", cfg.Dir, ErrSeveral)
	}
	if only = saved[0]; err == nil && only.Snapshot.Raft == nil {
		err = fmt.Errorf("%s: %w", cfg.Dir, ErrNoLog)
	}
	return only, err
}

// saveFirst creates a log.
func saveFirst(cfg HostConfig, first []storage.Batch) error {
	d, err := disk.Open(cfg.Dir, cfg.owner(), cfg.Fsync, cfg.Logger)
	if err != nil {
		return err
	}
	if _, err = d.Load(); err == nil {
		err = d.Save(first)
	}
	return errors.Join(err, d.Close())
}

// membersOf returns the members according to what is committed in a log.
func membersOf(cfg HostConfig, saved storage.Saved) (map[uint64]string, error) {
	c, err := NewCore(CoreConfig{ID: cfg.ID, HeartbeatTicks: 1, ElectionTicks: 10, Stagger: Stagger, Saved: saved,
		Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	for c.HasReady() { // ends with the log: nobody answers
		rd := c.Ready()
		for _, u := range rd.Updates {
			if n := len(u.Entries); n > 0 {
				c.Delivered(u.Entries[n-1].Index)
			}
		}
		if rd.Stop != nil {
			return nil, rd.Stop
		}
	}
	if c.members.joint() {
		return nil, ErrChanging
	}
	members := map[uint64]string{}
	for id, address := range c.members.addresses() {
		members[wire.ControllerOf(id)] = address
	}
	return members, nil
}

// named returns the names of members, or their ids.
func named(members map[uint64]string) (list []string) {
	for _, id := range slices.Sorted(maps.Keys(members)) {
		name, _ := SplitAddress(members[id])
		if name == "" {
			name = fmt.Sprint(id)
		}
		list = append(list, name)
	}
	return list
}
