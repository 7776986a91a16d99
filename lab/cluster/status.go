package cluster

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
)

// Status is the part of a controller's status that callers need.
type Status struct {
	Role     string          `json:"role"`
	Term     uint64          `json:"term"`
	Applied  uint64          `json:"applied_index"`
	Election ElectionStatus  `json:"election"`
	Groups   []GroupStatus   `json:"groups"` // if there are several
	Switches []SwitchStatus  `json:"switches"`
	Replayed *ReplayedStatus `json:"replayed"` // nil: no applications of Ryu
}

// GroupStatus is what a controller says of one of several groups.
type GroupStatus struct {
	Role string `json:"role"`
	Home string `json:"home"`
}

// ElectionStatus is what a controller says of its election timeout.
type ElectionStatus struct {
	TimeoutMs int64 `json:"timeout_ms"`
	HangMs    int64 `json:"hang_noticed_within_ms"`
}

// ReplayedStatus is what a controller says of its applications of Ryu.
type ReplayedStatus struct {
	State    string `json:"state"`
	Inputs   uint64 `json:"inputs"`
	Executed uint64 `json:"executed"`
	Logged   uint64 `json:"logged"`
	Diverged uint64 `json:"diverged"`
	Restarts uint64 `json:"restarts"`
}

// SwitchStatus is what a controller says of a switch.
type SwitchStatus struct {
	Switch        string `json:"switch"`
	State         string `json:"state"`
	Role          string `json:"role"`
	Via           string `json:"via"`
	Mode          string `json:"mode"`
	Guarantee     string `json:"guarantee"`
	InSync        bool   `json:"in_sync"`
	Epoch         uint64 `json:"epoch"`
	EventsLogged  uint64 `json:"events_logged"`
	CommandsSent  uint64 `json:"commands_issued"`
	CommandsDone  uint64 `json:"commands_done"`
	TotalEvents   uint64 `json:"total_events"`
	TotalCommands uint64 `json:"total_commands"`
}

// Ready reports whether the controller could be the switch's next master, and nothing would be lost.
func (s SwitchStatus) Ready() bool {
	return s.Role == "master" || s.Role == "standby" && s.InSync
}

// Status asks one controller.
func (n *Controller) Status(ctx context.Context) (Status, error) {
	var s Status
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.API+"/v1/status", nil)
	if err != nil {
		return s, err
	}
	resp, err := n.client.Do(req)
	if err != nil {
		return s, err
	}
	defer resp.Body.Close()
	return s, json.NewDecoder(resp.Body).Decode(&s)
}
