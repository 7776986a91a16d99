package rpc

import (
	"slices"
	"strings"

	"github.com/holdfast-sdn/holdfast/internal/pki"
	"github.com/holdfast-sdn/holdfast/store"
)

// Right is what a client may do in a namespace.
type Right string

// The rights. Who may only write learns something of rows too: from conditions, and from the sums of counters. A
// component does both, so running one needs both.
const (
	Read   Right = "read"   // rows, definitions and components, and watches
	Write  Right = "write"  // rows, and creating and dropping tables
	Upload Right = "upload" // components: make, replace and remove them
)

// Grant gives a client rights in some namespaces.
type Grant struct {
	Client     string // its name in the certificate, a beginning and *, or * for all
	Namespaces []string
	Allow      []Right
}

// matches reports whether a name is that of a pattern, which may end with * for all that begin so.
func matches(pattern, name string) bool {
	beginning, many := strings.CutSuffix(pattern, "*")
	return name == pattern || many && strings.HasPrefix(name, beginning)
}

// grants decide what clients may do. Without any, and if nobody has to say who he is, clients may do everything.
// Operators, admins and controllers always may, and viewers may always read.
type grants []Grant

// limit reports whether somebody may not do everything; the zero Identity is somebody whom nobody knows.
func (g grants) limit(who pki.Identity) bool {
	switch who.Role {
	case pki.Operator, pki.Admin, pki.Controller:
		return false
	case pki.Viewer:
		return true
	}
	return len(g) > 0
}

// check returns an error unless a client has all rights that are needed, one for each of needed. Any of the
// alternatives of one is enough.
func (g grants) check(who pki.Identity, namespace string, needed ...[]Right) *store.Error {
	if !g.limit(who) {
		return nil
	}
	for _, alternatives := range needed {
		if who.Role == pki.Viewer {
			if !slices.Contains(alternatives, Read) {
				return store.Fail(store.Denied, "%s may not %s: it needs the role operator, or client", who,
					alternatives[0])
			}
			continue
		}
		if who.Role != pki.Client || !slices.ContainsFunc(g, func(grant Grant) bool {
			return matches(grant.Client, who.Name) &&
				slices.ContainsFunc(grant.Namespaces, func(n string) bool { return matches(n, namespace) }) &&
				slices.ContainsFunc(alternatives, func(r Right) bool { return slices.Contains(grant.Allow, r) })
		}) {
			return store.Fail(store.Denied, "client %s may not %s in namespace %s: allow it in `store.access` of the "+
				"cluster file, at each controller", who.Name, alternatives[0], namespace)
		}
	}
	return nil
}

// checkRequest is check for an encoded request.
func (g grants) checkRequest(who pki.Identity, namespace string, encoded []byte) *store.Error {
	if !g.limit(who) {
		return nil // without a look at the request
	}
	var r store.Request
	if err := r.Decode(encoded); err != nil {
		return store.Fail(store.Invalid, "the request cannot be decoded: %v", err)
	}
	return g.check(who, namespace, needs(&r)...)
}

// needs returns the rights for a request. Requests with sessions are for those who change something, since they replace
// the answers that the session has kept.
func needs(r *store.Request) (needed [][]Right) {
	add := func(alternatives ...Right) {
		if !slices.ContainsFunc(needed, func(n []Right) bool { return slices.Equal(n, alternatives) }) {
			needed = append(needed, alternatives)
		}
	}
	if r.Session != 0 {
		add(Write, Upload)
	}
	for _, ops := range r.Transactions {
		for i := range ops {
			switch k := ops[i].Kind; {
			case k == store.Upload || k == store.RemoveComponent:
				add(Upload)
			case k == store.OpenSession || k == store.CloseSession:
				add(Write, Upload)
			case k == store.Run:
				add(Read)
				add(Write)
			case k.Writes():
				add(Write)
			default:
				add(Read)
			}
		}
	}
	return needed
}
