package client

import (
	"strings"
	"testing"

	"github.com/holdfast-sdn/holdfast/controller"
	"github.com/holdfast-sdn/holdfast/internal/config"
)

func TestMemberID(t *testing.T) {
	now := controller.Members{Members: []controller.Member{{Name: "c1", ID: 1}, {Name: "c2", ID: 2},
		{Name: "c3", ID: 3},
		{Name: "c3", ID: 33}}, Former: []uint64{7, 9, config.DefaultID("c5")}}
	for _, c := range []struct {
		who  string
		by   uint64
		want uint64
		says string
	}{
		{"c1", 0, 1, ""},
		{"33", 0, 33, ""},
		{"c3", 33, 3, ""},
		{"c3", 0, 0, "several members"},
		{"c0", 33, 0, ""}, // 33 has replaced it before: the cluster file has its id, 7
		{"9", 33, 0, ""},
		{"c5", 33, 0, ""},
		{"c0", 0, 0, "no member"},
		{"c9", 33, 0, `no member is called "c9"; there are [c1 c2 c3 c3]`},
	} {
		got, err := MemberID(now, c.who, map[string]uint64{"c0": 7}[c.who], c.by)
		if got != c.want || (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s, replaced by %d: %d, %v", c.who, c.by, got, err)
		}
	}
}
