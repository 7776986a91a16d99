package cluster

import (
	"context"
	"fmt"
	"slices"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/holdfast-sdn/holdfast/api"
	"github.com/holdfast-sdn/holdfast/internal/mirror"
)

// Status is the part of a controller's status that callers need.
type Status struct {
	Role     string          `json:"role"`
	Term     uint64          `json:"term"`
	Applied  uint64          `json:"applied_index"`
	Election ElectionStatus  `json:"election"`
	Groups   []GroupStatus   `json:"groups"`
	Switches []SwitchStatus  `json:"switches"`
	Replayed *ReplayedStatus `json:"replayed"` // nil: no applications of Ryu
}

// GroupStatus is what a controller says of a group.
type GroupStatus struct {
	Group  uint64 `json:"group"`
	Role   string `json:"role"`
	Leader string `json:"leader"`
	Home   string `json:"home"`
	// names of the controllers with a replica
	Replicas []string `json:"replicas"`
	Applied  uint64   `json:"applied_index"`
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
	Group         uint64 `json:"group"`
	Assignment    uint64 `json:"assignment_version"`
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

// Reached reports whether a controller has applied as much of each group as target says.
func (s Status) Reached(target Status) bool {
	applied := map[uint64]uint64{}
	for _, g := range s.Groups {
		applied[g.Group] = g.Applied
	}
	return !slices.ContainsFunc(target.Groups, func(g GroupStatus) bool { return applied[g.Group] < g.Applied })
}

// Status asks one controller for its own status.
func (n *Controller) Status(ctx context.Context) (s Status, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	err = Ask(ctx, n, api.ClusterClient.GetController, &s)
	return s, err
}

// cluster asks one controller for the groups and the switches of the cluster, each as its leader knows it.
func (n *Controller) cluster(ctx context.Context) ([]GroupStatus, []SwitchStatus, error) {
	var s Status
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second) // it waits 1.5 s for the others
	defer cancel()
	err := Ask(ctx, n, api.ClusterClient.GetStatus, &s)
	return s.Groups, s.Switches, err
}

// Ask asks a controller over its API, and copies the answer to a structure with the same fields.
func Ask[M proto.Message](ctx context.Context, n *Controller,
	method func(api.ClusterClient, context.Context, *emptypb.Empty) (M, error), to any) error {
	m, err := method(n.Client(), ctx, &emptypb.Empty{})
	if err != nil {
		return fmt.Errorf("ask %s: %w", n.Name, err)
	}
	mirror.Copy(to, m)
	return nil
}

// Client is a client of the API of the controller.
func (n *Controller) Client() api.ClusterClient {
	return api.NewClusterClient(n.client, "http://"+n.API, connect.WithAcceptCompression("gzip", nil, nil))
}
