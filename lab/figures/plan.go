package main

import (
	"math"
	"slices"
	"strings"
)

// run is a benchmark: what `holdfast bench` is called with. quick takes part of the time.
type run struct {
	name        string // of its report
	args, quick string
	root        bool // it needs root
}

// reports are figures by the name of their run and their own, as in "failover:failover_ms_median".
type reports map[string]float64

// figure is a figure or table of a paper.
type figure struct {
	paper  string // key of papers
	number string
	title  string
	says   string // what the paper says
	note   string // what is different here, or cannot be seen here
	runs   []string
	plots  func(r reports) []plot
}

// paper is one of the four.
type paper struct{ key, title, machine string }

var papers = []paper{
	{"ravana", "Ravana: Controller Fault-Tolerance in Software-Defined Networking (SOSR 2015)",
		"three machines, 1 Gb/s, Xeon 2.4 GHz, 12 GB; ZooKeeper 3.4.6, Ryu 3.8"},
	{"beehive", "Beehive: Simple Distributed Programming in Software-Defined Networks (SOSR 2016)",
		"clusters of virtual machines, up to 16 processors each"},
	{"store", "A consistent and fault-tolerant data store for software-defined networks (Botelho et al.)",
		"machines with two quad-core Xeon 2.27 GHz each; replicas and clients apart"},
	{"recovery", "Fast Recovery in Software-Defined Networks (EWSDN 2014)",
		"a machine of 4 cores for each switch; Open vSwitch"},
}

// unmeasured are figures that have nothing to measure, and where their matter is here.
var unmeasured = []struct{ paper, number, what, here string }{
	{"ravana", "Table 1", "solutions that lose or repeat something",
		"docs/guarantees.md says what Holdfast does, by fault"},
	{"ravana", "Figures 1, 4 to 7, table 2", "the model and the protocol", "docs/design/control-path.md"},
	{"ravana", "Figures 2 and 3", "three examples of what a failover breaks", "lab/e2e: " +
		"TestFlowAllocationStaysConsistent, TestLinkDownSurvivesFailover, TestNoLeakWhenRulesAreReplaced"},
	{"beehive", "Figures 1 to 4 and 6", "the programming model, and how cells get their owner",
		"docs/applications.md, docs/design/groups.md"},
	{"beehive", "Figure 11", "the applications of the suite", "docs/suite.md, with the lines of each"},
	{"store", "Figure 1", "packets loop with an eventually consistent store", "lab/e2e: TestConsistencyLoop"},
	{"store", "Figures 2 to 6", "the architecture and the data model", "docs/design/store.md"},
	{"recovery", "Figures 1 to 3", "groups, backups, and the networks", "docs/design/recovery.md"},
	{"recovery", "Table I", "other proposals: 42 to 48 ms, 101.5 ms, 32.7 ms and more", "figure 7, above"},
}

// values returns the values of figures, NaN for what is not there.
func (r reports) values(names ...string) []float64 {
	list := make([]float64, len(names))
	for i, name := range names {
		v, there := r[name]
		if !there {
			v = math.NaN()
		}
		list[i] = v
	}
	return list
}

// each returns the values of figures whose names differ in one part.
func (r reports) each(name string, of ...string) []float64 { return r.values(each(name, of...)...) }

// said are values of a paper; there is none for a label where it is 0.
func said(values ...float64) []float64 {
	list := slices.Clone(values)
	for i, v := range list {
		if v == 0 {
			list[i] = math.NaN()
		}
	}
	return list
}

// each returns the names with a number in the place of "%".
func each(name string, of ...string) (list []string) {
	for _, n := range of {
		list = append(list, strings.ReplaceAll(name, "%", n))
	}
	return list
}

// times returns the values, each times a factor.
func times(factor float64, values []float64) []float64 {
	list := slices.Clone(values)
	for i := range list {
		list[i] *= factor
	}
	return list
}
