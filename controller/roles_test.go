package controller

import (
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-sdn/holdfast/internal/access"
)

// Every path of the API has a role, and no role is for a path that is gone.
func TestEveryPathHasARole(t *testing.T) {
	c := &Controller{cfg: Config{Duty: &Duty{Path: "/v1/links"}}}
	mux, _ := c.apiRoutes()
	for _, pattern := range mux.patterns {
		if !access.Known(pattern) {
			t.Errorf("%s has no role: give it one in internal/access/roles.go", pattern)
		}
	}
	for _, pattern := range access.Patterns() {
		if strings.Contains(pattern, "/v1/") && !slices.Contains(mux.patterns, pattern) {
			t.Errorf("%s has a role, and is not served", pattern)
		}
	}
}
