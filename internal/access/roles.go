package access

import (
	"net/http"

	"github.com/holdfast-sdn/holdfast/internal/pki"
)

// need says who may use a path of the API, or of the applications over HTTP.
type need struct {
	read   pki.Role // the least role to read, by GET or HEAD; "": nobody
	change pki.Role // the least role for everything else
	// clients may do both. The application may restrict them further, as the store does by its rules of access.
	clients bool
	anybody bool // may read it, and need not say who one is: it is the same for every cluster
	record  recording
}

// recording says which requests that change something are in the audit log.
type recording int

const (
	always  recording = iota
	ifKnown           // if one has to say who one is
	never             // it is data, of which there is too much, or it only reads: who polls does not fill the log
	inside            // whoever serves it records what it changes, by Guard.Record; what is refused is recorded before
)

// Applications is the path for everything that applications serve over HTTP and that has no path of its own in needs:
// handlers of applications in Go, and applications of Ryu.
const Applications = "/"

// viewing is for what only reads, also where a request to read is a POST.
var viewing = need{read: pki.Viewer, change: pki.Viewer, record: never}

// needs has each path that controllers serve, as a pattern of http.ServeMux. A path that is missing is for nobody.
var needs = map[string]need{
	"GET /metrics":      {read: pki.Viewer},
	"GET /openapi.json": {read: pki.Viewer},

	"/holdfast.v1.Cluster/GetStatus":     viewing,
	"/holdfast.v1.Cluster/GetController": viewing,
	"/holdfast.v1.Cluster/ListMembers":   viewing,
	"/holdfast.v1.Cluster/ListActors":    viewing,
	"/holdfast.v1.Cluster/GetMatrix":     viewing,
	"/holdfast.v1.Cluster/GetAdvice":     viewing,
	"/holdfast.v1.Cluster/GetPlacement":  viewing,
	"/holdfast.v1.Cluster/GetTally":      viewing,
	"/holdfast.v1.Cluster/GetTopology":   viewing,
	"/holdfast.v1.Cluster/ListLinks":     viewing,
	"/holdfast.v1.Cluster/GetProtection": viewing,
	"/holdfast.v1.Cluster/GetPaths":      viewing,
	"/holdfast.v1.Cluster/ListTables":    viewing,
	"/holdfast.v1.Cluster/ListRows":      viewing,
	"/holdfast.v1.Cluster/ListStoreRows": viewing,
	"/holdfast.v1.Cluster/ListEvents":    viewing,
	"/holdfast.v1.Cluster/Watch":         viewing,

	"/holdfast.v1.Operations/Move":          {change: pki.Operator, record: inside},
	"/holdfast.v1.Operations/Pin":           {change: pki.Operator, record: inside},
	"/holdfast.v1.Operations/Resume":        {change: pki.Operator, record: inside},
	"/holdfast.v1.Operations/Forget":        {change: pki.Operator, record: inside},
	"/holdfast.v1.Operations/Drain":         {change: pki.Operator, record: inside},
	"/holdfast.v1.Operations/SetCounting":   {change: pki.Operator, record: inside},
	"/holdfast.v1.Operations/ChangeMembers": {change: pki.Admin, record: inside},

	"/grpc.health.v1.Health/":                    viewing,
	"/grpc.reflection.v1.ServerReflection/":      viewing,
	"/grpc.reflection.v1alpha.ServerReflection/": viewing,

	// The page asks for a token, and with it for what it shows.
	"GET /{$}":        {anybody: true},
	"GET /dashboard/": {anybody: true},

	Applications: {read: pki.Viewer, change: pki.Operator, clients: true, record: ifKnown},

	// The store looks at each request itself: viewers may read.
	"/holdfast.store.v1.Store/Do":     {read: pki.Viewer, change: pki.Viewer, clients: true, record: never},
	"/holdfast.store.v1.Store/Stream": {read: pki.Viewer, change: pki.Viewer, clients: true, record: never},
	"/holdfast.store.v1.Store/Frames": {read: pki.Viewer, change: pki.Viewer, clients: true, record: never},
	"/holdfast.store.v1.Store/Watch":  {read: pki.Viewer, change: pki.Viewer, clients: true, record: never},
}

// rank orders the roles: each may do what those before it may. 0: the role is not one of them.
var rank = map[pki.Role]int{pki.Viewer: 1, pki.Operator: 2, pki.Admin: 3, pki.Controller: 3}

// permits reports whether the holder of a role may do this.
func (n need) permits(role pki.Role, reads bool) bool {
	least := n.change
	if reads {
		least = n.read
	}
	return least != "" && (role == pki.Client && n.clients || rank[role] >= rank[least])
}

// reads reports whether a request only reads. One that upgrades its connection does not: what follows is not known.
func reads(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) && r.Header.Get("Upgrade") == ""
}

// Known reports whether a path has a role.
func Known(pattern string) bool {
	_, known := needs[pattern]
	return known
}

// Patterns returns the paths that have a role.
func Patterns() (list []string) {
	for pattern := range needs {
		list = append(list, pattern)
	}
	return list
}
