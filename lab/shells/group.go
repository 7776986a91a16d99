package shells

import (
	"github.com/holdfast-sdn/holdfast/apps/hub"
	"github.com/holdfast-sdn/holdfast/apps/learning"
	"github.com/holdfast-sdn/holdfast/consensus"
	"github.com/holdfast-sdn/holdfast/controller"
	"github.com/holdfast-sdn/holdfast/controller/directory"
	"github.com/holdfast-sdn/holdfast/lab/census"
	"github.com/holdfast-sdn/holdfast/lab/history"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow"
)

// homes is how many home groups there are; 0 if there is only one group.
func (s *simulation) homes() uint64 {
	if s.sc.PerController {
		return uint64(s.sc.Controllers)
	}
	return 0
}

// addGroups makes the histories of the groups.
func (s *simulation) addGroups() {
	var lives ledger.Directory
	if s.homes() > 0 {
		lives = func(a ledger.Actor) (ledger.Assignment, bool) {
			return controller.Lives(a, int(s.homes()), s.assigned.Of)
		}
	}
	for number := range s.homes() + 1 {
		s.groups = append(s.groups, s.h.Group(history.GroupConfig{Limits: s.limits(), Number: number,
			Applications: s.applications(number, s.wrongly(s.failed)), Directory: lives}))
	}
}

// configs are the groups as a controller needs to know them. Each has a replica at every controller.
func (s *simulation) configs(members map[uint64]string) (list []controller.GroupConfig) {
	for number := range s.homes() + 1 {
		list = append(list, controller.GroupConfig{Applications: s.applications(number, s.wrongly(s.fail)),
			Consensus: consensus.GroupConfig{Group: number, Members: members}})
	}
	return list
}

// wrongly returns what census is to call when something is wrong.
func (*simulation) wrongly(fail func(format string, args ...any)) func(text string) {
	return func(text string) { fail("census: %s", text) }
}

// applications are those of a group. The system group of several has the directory.
func (s *simulation) applications(group uint64, wrong func(text string)) []ledger.Application {
	if group == 0 && s.homes() > 0 {
		return []ledger.Application{new(directory.Application)}
	}
	apps := []ledger.Application{hub.New(), census.New(census.Config{Errs: s.sc.StockEvery > 0,
		Sharded: s.homes() > 0, Keyed: s.sc.MoveEvery > 0, Wrong: wrong})}
	if s.sc.Learning {
		apps[0] = learning.New()
	}
	return apps
}

// commits tells the history of an entry that a controller has. s.mu is held.
func (s *simulation) commits(node, group, index, term uint64, entry []byte) {
	if group == 0 && s.homes() > 0 && index > s.learned {
		s.learned = index
		if _, _, err := s.assigned.Commit(entry); err != nil {
			s.failed("entry %d of the system group: %v", index, err)
		}
	}
	s.groups[group].Committed(node, index, term, entry)
}

// leaders returns the status of the leader of each group, by group, among those of all controllers; nil for a group
// that has none.
func (s *simulation) leaders(all []controller.Status) []*controller.Status {
	leaders, terms := make([]*controller.Status, len(s.groups)), make([]uint64, len(s.groups))
	for i := range all {
		for _, g := range all[i].Groups {
			if g.Role == "leader" && g.Term > terms[g.Group] {
				leaders[g.Group], terms[g.Group] = &all[i], g.Term
			}
		}
	}
	return leaders
}

// statusOf returns the status of a switch at a controller.
func statusOf(id openflow.DatapathID, st *controller.Status) controller.SwitchStatus {
	for _, sw := range st.Switches {
		if sw.Switch == id.String() {
			return sw
		}
	}
	return controller.SwitchStatus{State: "unknown"}
}
