package controller

import (
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-sdn/holdfast/api"
	"github.com/holdfast-sdn/holdfast/internal/access"
	"github.com/holdfast-sdn/holdfast/internal/mirror"
)

// Every path of the API has a role, and no role is for a path that is gone.
func TestEveryPathHasARole(t *testing.T) {
	mux := newAPI(&Controller{}).routes()
	for _, pattern := range mux.patterns {
		if !access.Known(pattern) {
			t.Errorf("%s has no role: give it one in internal/access/roles.go", pattern)
		}
	}
	for _, pattern := range access.Patterns() {
		if strings.Contains(pattern, "/holdfast.v1.") && !slices.Contains(mux.patterns, pattern) {
			t.Errorf("%s has a role, and is not served", pattern)
		}
	}
}

// Messages have the fields of what they are made from.
func TestMessagesMirror(t *testing.T) {
	for _, c := range []struct{ message, structure any }{
		{&api.ClusterStatus{}, ClusterStatus{}}, {&api.ControllerStatus{}, Status{}}, {&api.Members{}, Members{}},
		{&api.MemberChange{}, MemberChange{}}, {&api.Move{}, Move{}}, {&api.Moved{}, Moved{}}, {&api.Pin{}, Pin{}},
		{&api.Pinned{}, Pinned{}}, {&api.Resume{}, Resume{}}, {&api.Resumed{}, Resumed{}}, {&api.Forget{}, Forget{}},
		{&api.Tally{}, Tally{}}, {&api.Actors{}, Actors{}}, {&api.Matrix{}, Matrix{}}, {&api.Advice{}, Advice{}},
		{&api.Placement{}, Placement{}}, {&api.Tables{}, Tables{}}, {&api.Counting{}, Counting{}},
	} {
		if missing := mirror.Check(c.message, c.structure); len(missing) > 0 {
			t.Errorf("%T lacks %v of %T: add them to its file in api/holdfast/v1", c.message, missing, c.structure)
		}
	}
}
