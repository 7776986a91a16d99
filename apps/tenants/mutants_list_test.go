package tenants

import (
	"testing"

	"github.com/holdfast-sdn/holdfast/lab/mutation"
)

// mutants are bugs by which frames of a tenant arrive at another one, or go round in circles.
var mutants = []mutation.Bug{
	{Name: "leave what is not wanted any more", File: "apps/tenants/switch.go",
		Before: "encoded(e)); stays {", After: "encoded(e)); stays || true {"},
	{Name: "do not wait for the other switches", File: "apps/tenants/tenants.go",
		Before: "		if m.Waits {\n			return nil\n		}\n		down", After: "		down"},
	{Name: "go on when a switch leaves that has removed nothing", File: "apps/tenants/tenants.go",
		Before: "		p.Broken = true\n", After: ""},
	{Name: "take entries for installed of a change that ended before", File: "apps/tenants/tenants.go",
		Before: "			m.Program = nil\n			t.members", After: "			t.members"},
	{Name: "have a host ready that is not", File: "apps/tenants/http.go",
		Before: "p.Done < max(h.Since, m.Since)", After: "p.Done < m.Since"},
	{Name: "keep the entries of a switch that comes up", File: "apps/tenants/switch.go",
		Before: "	tx.FlowMod(id, of13.FlowMod{Command: of13.FlowDelete, TableID", After: "	_ = (of13.FlowMod{TableID"},
	{Name: "take a port of a host for one between switches", File: "apps/tenants/plan.go",
		Before: "		delete(inside, h.at)\n", After: "		_ = h\n"},
	{Name: "send to many on all links", File: "apps/tenants/plan.go",
		Before: "			break\n", After: ""},
	{Name: "take frames of any source", File: "apps/tenants/plan.go",
		Before: "m.Match = m.Match.WithEthSrc(e.MAC); e.VLAN == 0", After: "e.VLAN == 0"},
}

// Checks that each seeded bug still applies to the code. TestMutants, which builds and runs them, has a build tag.
func TestMutantsApply(t *testing.T) {
	mutation.TestApply(t, "../..", mutants)
}
