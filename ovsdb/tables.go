package ovsdb

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
)

// database is the only database that this package uses.
const database = "Open_vSwitch"

// maxRows bounds the copy of each table.
const maxRows = 1 << 16

// monitored is the monitor request (4.1.5): for each table the columns that the rows below have.
var monitored = map[string]any{
	"Bridge":    columns{[]string{"name", "datapath_id", "ports"}},
	"Port":      columns{[]string{"interfaces"}},
	"Interface": columns{[]string{"name", "ofport", "link_state", "bfd", "bfd_status", "external_ids"}},
}

type columns struct {
	Columns []string `json:"columns"`
}

type bridgeRow struct {
	Name       string      `json:"name"`
	DatapathID set[string] `json:"datapath_id"`
	Ports      set[uuid]   `json:"ports"`
}

type portRow struct {
	Interfaces set[uuid] `json:"interfaces"`
}

type interfaceRow struct {
	Name        string      `json:"name"`
	OFPort      set[int64]  `json:"ofport"`
	LinkState   set[string] `json:"link_state"`
	BFD         textMap     `json:"bfd"`
	BFDStatus   textMap     `json:"bfd_status"`
	ExternalIDs textMap     `json:"external_ids"`
}

// tables is the copy of the database.
type tables struct {
	bridges    map[uuid]bridgeRow
	ports      map[uuid]portRow
	interfaces map[uuid]interfaceRow
}

// tableUpdates is the content of a reply to a monitor request, or of an update (4.1.6): rows by table and identity,
// complete, or without "new" if they were deleted.
type tableUpdates struct {
	Bridge    map[uuid]rowUpdate[bridgeRow]
	Port      map[uuid]rowUpdate[portRow]
	Interface map[uuid]rowUpdate[interfaceRow]
}

type rowUpdate[R any] struct {
	New *R `json:"new"`
}

// apply applies the updates.
func (t *tables) apply(update json.RawMessage) error {
	var u tableUpdates
	if err := json.Unmarshal(update, &u); err != nil {
		return fmt.Errorf("read an update: %w", err)
	}
	merge(&t.bridges, u.Bridge)
	merge(&t.ports, u.Port)
	merge(&t.interfaces, u.Interface)
	if n := max(len(t.bridges), len(t.ports), len(t.interfaces)); n > maxRows {
		return fmt.Errorf("a table of %d rows: at most %d are copied", n, maxRows)
	}
	return nil
}

func merge[R any](table *map[uuid]R, updates map[uuid]rowUpdate[R]) {
	if *table == nil {
		*table = make(map[uuid]R)
	}
	for id, u := range updates {
		if u.New == nil {
			delete(*table, id)
		} else {
			(*table)[id] = *u.New
		}
	}
}

// view joins the tables. A referenced row that is not there (yet) is left out.
func (t *tables) view() View {
	view := make(View, 0, len(t.bridges))
	seen := make(map[uuid]bool, len(t.interfaces)) // and ports: an interface is of one port, and that of one bridge
	for _, b := range t.bridges {
		id, _ := strconv.ParseUint(b.DatapathID.first(), 16, 64) // none before the switch has started: 0
		bridge := Bridge{Name: b.Name, DatapathID: id}
		for _, p := range b.Ports {
			if seen[p] {
				continue
			}
			seen[p] = true
			for _, i := range t.ports[p].Interfaces {
				if row, ok := t.interfaces[i]; ok && !seen[i] {
					seen[i] = true
					bridge.Interfaces = append(bridge.Interfaces, row.export(i))
				}
			}
		}
		slices.SortFunc(bridge.Interfaces, func(a, b Interface) int {
			return cmp.Or(cmp.Compare(a.Port, b.Port), cmp.Compare(a.Name, b.Name))
		})
		view = append(view, bridge)
	}
	slices.SortFunc(view, func(a, b Bridge) int { return cmp.Compare(a.Name, b.Name) })
	return view
}

func (r interfaceRow) export(id uuid) Interface {
	i := Interface{Name: r.Name, LinkUp: r.LinkState.first() == "up", BFD: status(r.BFDStatus), id: id}
	if no := r.OFPort.first(); no > 0 && no < 1<<32 { // -1: the switch could not open it
		i.Port = uint32(no)
	}
	var mark string
	if mark, i.Ours = r.ExternalIDs[markKey]; i.Ours {
		i.mark = parseMark(mark)
	}
	i.bfd = r.BFD
	return i
}

func status(m textMap) BFDStatus {
	flaps, _ := strconv.Atoi(m["flap_count"])
	return BFDStatus{
		State: m["state"], RemoteState: m["remote_state"], Forwarding: m["forwarding"] == "true",
		Diagnostic: m["diagnostic"], RemoteDiagnostic: m["remote_diagnostic"], Flaps: flaps,
	}
}
