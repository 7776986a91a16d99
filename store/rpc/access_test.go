package rpc

import (
	"testing"

	"github.com/holdfast-sdn/holdfast/internal/access"
	"github.com/holdfast-sdn/holdfast/internal/pki"
	"github.com/holdfast-sdn/holdfast/store"
)

// Every procedure has a role.
func TestEveryProcedureHasARole(t *testing.T) {
	for _, path := range []string{do, stream, frames, watch} {
		if !access.Known(path) {
			t.Errorf("%s has no role: give it one in internal/access/roles.go", path)
		}
	}
}

// A viewer may read everything and change nothing, with rules of access and without; an operator may do both.
func TestViewerReads(t *testing.T) {
	viewer, operator := pki.Identity{Role: pki.Viewer, Name: "v"}, pki.Identity{Role: pki.Operator, Name: "o"}
	for _, g := range []grants{nil, {{Client: "*", Namespaces: []string{"*"}, Allow: []Right{Read, Write, Upload}}}} {
		for kind, reads := range map[store.Kind]bool{store.Get: true, store.List: true, store.Put: false,
			store.Delete: false, store.CreateTable: false, store.Upload: false, store.Run: false,
			store.OpenSession: false} {
			q := &store.Request{Transactions: [][]store.Op{{{Kind: kind, Table: "t", Key: "k"}}}}
			if refused := g.check(viewer, "default", needs(q)...); (refused == nil) != reads {
				t.Errorf("a viewer's %v: %v", kind, refused)
			}
			if refused := g.check(operator, "default", needs(q)...); refused != nil {
				t.Errorf("an operator's %v: %v", kind, refused)
			}
		}
	}
}
