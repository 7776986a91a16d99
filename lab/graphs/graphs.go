// Package graphs has example networks: those of van Adrichem et al., Fast Recovery in Software-Defined Networks, figure
// 3, and random ones.
//
// Switches are numbered from 1. The links of a switch are at its ports from 1, in the order in which they are listed.
package graphs

import (
	"fmt"
	"math/rand/v2"

	"github.com/holdfast-sdn/holdfast/network/paths"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// cable joins two switches.
type cable struct {
	a, b openflow.DatapathID
	cost uint32
}

func build(n int, cables []cable) *paths.Graph {
	var switches []openflow.DatapathID
	for i := range n {
		switches = append(switches, openflow.DatapathID(i+1))
	}
	used := map[openflow.DatapathID]of13.Port{}
	plug := func(s openflow.DatapathID) paths.End {
		used[s]++
		return paths.End{Switch: s, Port: used[s]}
	}
	var links []paths.Link
	for _, c := range cables {
		links = append(links, paths.Both(plug(c.a), plug(c.b), c.cost)...)
	}
	g, err := paths.NewGraph(switches, links)
	if err != nil {
		panic(fmt.Sprintf("sample: %v", err)) // the cables of this package join different switches
	}
	return g
}

// Triangle is figure 3a: A, B and C are 1, 2 and 3. The path from A to C by B is cheaper than the direct one.
func Triangle() *paths.Graph { return build(3, []cable{{1, 2, 1}, {2, 3, 1}, {1, 3, 3}}) }

// Ring is figure 3b: A to E are 1 to 5. The path from A to E by B, C and D is cheaper than the direct one.
func Ring() *paths.Graph {
	return build(5, []cable{{1, 2, 1}, {2, 3, 1}, {3, 4, 1}, {4, 5, 1}, {5, 1, 5}})
}

// usnet lists the cables of USNET, as drawn in most papers that use it.
var usnet = [43][2]openflow.DatapathID{
	{1, 2}, {1, 6}, {2, 3}, {2, 6}, {3, 4}, {3, 5}, {3, 7}, {4, 5}, {4, 7}, {5, 8}, {6, 7}, {6, 9}, {6, 11}, {7, 8},
	{7, 9},
	{8, 10}, {9, 10}, {9, 11}, {9, 12}, {10, 13}, {10, 14}, {11, 12}, {11, 15}, {11, 19}, {12, 13}, {12, 16}, {13, 14},
	{13, 17},
	{14, 18}, {15, 16}, {15, 20}, {16, 17}, {16, 21}, {16, 22}, {17, 18}, {17, 22}, {17, 23}, {18, 24}, {19, 20},
	{20, 21},
	{21, 22}, {22, 23}, {23, 24},
}

// USNET is figure 3c: 24 switches and 43 links of equal cost.
func USNET() *paths.Graph {
	var cables []cable
	for _, c := range usnet {
		cables = append(cables, cable{c[0], c[1], 1})
	}
	return build(24, cables)
}

// Random is a connected network of n switches and, if that is no less than a tree has, the given number of links, with
// costs from 1 to maxCost. Two switches may have several links. Equal arguments give equal networks.
func Random(seed uint64, n, links int, maxCost uint32) *paths.Graph {
	r := rand.New(rand.NewPCG(seed, uint64(n)))
	var cables []cable
	join := func(a, b int) {
		cables = append(cables, cable{openflow.DatapathID(a + 1), openflow.DatapathID(b + 1), 1 + r.Uint32N(maxCost)})
	}
	for i := 1; i < n; i++ {
		join(i, r.IntN(i))
	}
	for len(cables) < links && n > 1 {
		a, b := r.IntN(n), r.IntN(n-1)
		if b >= a {
			b++
		}
		join(a, b)
	}
	return build(n, cables)
}
