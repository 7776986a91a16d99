package command

import "testing"

func TestVnetMistakes(t *testing.T) {
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"--controller", "here"}, `holdfast: controller address "here": write it like 127.0.0.1:6653`},
		{[]string{"--controller", "127.0.0.1:1", "--topology", "tree,2"}, `holdfast: topology "tree,2": use single,N ` +
			`or linear,N, with N from 1, or ring,N, from 3; at most 250`},
	} {
		code, _, stderr := invoke(t.Context(), append([]string{"vnet"}, tc.args...)...)
		if code != 1 || stderr != tc.want+"\n" {
			t.Errorf("%v: exit code %d, stderr\n got %swant %s", tc.args, code, stderr, tc.want)
		}
	}
}
