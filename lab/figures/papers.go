package main

import (
	"fmt"
	"strings"
)

var runs = append([]run{
	{name: "ryu", args: "ryu --seconds 8", quick: "ryu --seconds 3"},
	{name: "switches", args: "throughput --workload steady --switches 1,16,256,1024 --rounds 3",
		quick: "throughput --workload steady --switches 1,16,256,1024 --seconds 2"},
	{name: "latency", args: "latency --seconds 5", quick: "latency --seconds 2"},
	{name: "failover", args: "failover --kills 30", quick: "failover --kills 6"},
	{name: "failover-stock", args: "failover --kills 30 --stock", quick: "failover --kills 6 --stock"},
	{name: "failover-groups", args: "failover --kills 30 --groups per-controller",
		quick: "failover --kills 6 --groups per-controller"},
	{name: "levels", args: "levels", quick: "levels --rounds 1 --seconds 2"},
	{name: "actors", args: "actors", quick: "actors --batches 1,64,1024,8192"},
	{name: "kv", args: "kv", quick: "kv --seconds 1"},
	{name: "instrumentation", args: "instrumentation", quick: "instrumentation --rounds 6 --measure 2s"},
	{name: "placement", args: "placement", quick: "placement --controllers 10 --switches 100"},
	{name: "forwarding", args: "forwarding --samples 5", quick: "forwarding --samples 1", root: true},
	{name: "groups", args: "groups", quick: "groups --seconds 2"},
}, append(append(windowRuns(), workloadRuns()...), recoveryRuns()...)...)

// windows are packet-ins outstanding for each of 16 switches. The batches of Holdfast form by themselves: an entry has
// what has come while the one before was on its way.
var windows = []string{"1", "4", "16", "64", "256"}

func windowRuns() (list []run) {
	for _, w := range windows {
		args := "throughput --workload steady --window " + w
		list = append(list, run{name: "window-" + w, args: args + " --rounds 3", quick: args + " --seconds 2"})
	}
	return list
}

// workloads are those of the store's paper, with the variants that its figures 7 to 9 compare.
var workloads = []struct {
	figure, app string
	workload    []string
	variants    []string
}{
	{"Figure 7", "learning switch", []string{"ls-bcast", "ls-ucast"}, []string{"init", "micro", "cache"}},
	{"Figure 8", "load balancer", []string{"lb-arp", "lb-vip"},
		[]string{"init", "cref", "vers", "cols", "micro", "cache"}},
	{"Figure 9", "device manager", []string{"dm-known", "dm-unknown"},
		[]string{"init", "cref", "vers", "cols", "micro", "cache"}},
}

func workloadRuns() (list []run) {
	for _, w := range workloads {
		for _, name := range w.workload {
			for _, v := range w.variants {
				args := fmt.Sprintf("store --workload %s --variant %s", name, v)
				quick := args + " --seconds 1"
				if v != "init" && v != "micro" && v != "cache" {
					quick = "" // they differ from init by less than a short measurement shows
				}
				list = append(list, run{name: name + "-" + v, args: args, quick: quick})
			}
		}
	}
	return list
}

// recoveries are the networks and the intervals of BFD in ms of figure 7 there.
var recoveries = []struct {
	network string
	ms      []string
}{{"triangle", []string{"15", "5", "1"}}, {"ring", []string{"15", "5", "1"}}, {"usnet", []string{"5"}}}

func recoveryRuns() (list []run) {
	add := func(name, args string, few string) {
		list = append(list, run{name: name, args: "recovery " + args, quick: "recovery " + args + " --samples " + few,
			root: true})
	}
	add("carrier", "--topology triangle --cut carrier", "8")
	for _, r := range recoveries {
		for _, ms := range r.ms {
			add(r.network+"-"+ms, "--topology "+r.network+" --bfd-interval-ms "+ms, "8")
		}
	}
	return list
}

// names are those of runs that begin with one of prefixes.
func names(prefixes ...string) (list []string) {
	for _, r := range runs {
		for _, p := range prefixes {
			if strings.HasPrefix(r.name, p) {
				list = append(list, r.name)
			}
		}
	}
	return list
}

func figures() []figure {
	return append(append(append(ravana(), beehive()...), store()...), recovery()...)
}

func ravana() []figure {
	const what = "ravana"
	return []figure{
		{what, "Figure 8a", "Throughput of a Ryu application",
			"Ravana answers 16 to 31 % less than Ryu alone, with Python 11,000 and 9,200 a second.",
			"Both run the same unmodified application under the same load. os-ken is the maintained Ryu.",
			[]string{"ryu"},
			func(r reports) []plot {
				return []plot{{title: "answers a second", unit: "answers/s",
					labels: []string{"Ryu alone", "fault tolerant, three controllers", "Holdfast, one controller"},
					series: []series{
						{name: "Ravana, Python", paper: true, values: said(11_000, 9_200, 0)},
						{name: "Holdfast", values: r.values("ryu:plain_per_s", "ryu:three_per_s", "ryu:one_per_s")}}}}
			}},
		{what, "Figure 8b", "Throughput by the number of switches",
			"It saturates, and does not fall with a thousand switches.", "", []string{"switches"},
			func(r reports) []plot {
				of := []string{"1", "16", "256", "1024"}
				return []plot{{title: "answers a second, three controllers", unit: "answers/s", x: "switches",
					lines:  true,
					labels: of, series: []series{{name: "Holdfast",
						values: r.each("switches:answers_per_s_steady_sw%_r3_memory", of...)}}}}
			}},
		{what, "Figure 8c", "Latency of an event", "Most events take less than 12 ms.",
			"One event outstanding. The paper draws a distribution of averages.", []string{"latency"},
			func(r reports) []plot {
				return []plot{{title: "from packet-in to flow-mod", unit: "ms",
					labels: []string{"half of the events", "99 %"}, series: []series{
						{name: "Ravana, most", paper: true, values: said(0, 12)},
						{name: "three controllers", values: times(1e-3, r.values("latency:p50_us_r3_memory",
							"latency:p99_us_r3_memory"))},
						{name: "one controller", values: times(1e-3, r.values("latency:p50_us_r1_memory",
							"latency:p99_us_r1_memory"))}}}}
			}},
		{what, "Figures 9a and 9b", "Batches: throughput and latency",
			"Throughput grows with the batch up to a bound, and latency grows with it: a batch waits until it is full.",
			"Holdfast has no size of batches to choose: an entry has what came while the one before was on its way.",
			names("window-"), func(r reports) []plot {
				perSecond := r.each("window-%:answers_per_s_steady_sw16_r3_memory", windows...)
				latency := make([]float64, len(windows))
				for i, w := range windows {
					var n float64
					fmt.Sscan(w, &n)
					latency[i] = 16 * n / perSecond[i] * 1e3 // Little's law
				}
				return []plot{
					{title: "answers a second", unit: "answers/s", x: "events outstanding for each of 16 switches",
						lines: true, labels: windows, series: []series{{name: "Holdfast", values: perSecond}}},
					{title: "events of an entry of the log", unit: "events",
						x:     "events outstanding for each of 16 switches",
						lines: true, log: true, labels: windows, series: []series{{name: "Holdfast",
							values: r.each("window-%:events_per_entry_steady_sw16_r3_memory", windows...)}}},
					{title: "mean latency", unit: "ms", x: "events outstanding for each of 16 switches", lines: true,
						log: true, labels: windows, series: []series{{name: "Holdfast", values: latency}}}}
			}},
		{what, "Figure 9c", "Failover time",
			"75 ms on average: 40 to notice and elect, 25 to catch up, 10 for the role.",
			"The leader is killed. Hosts send a packet a millisecond, and each one is a packet-in.",
			names("failover"), func(r reports) []plot {
				of := []string{"failover", "failover-stock", "failover-groups"}
				return []plot{{title: "time without answers at the hosts", unit: "ms",
					labels: []string{"agents", "stock switches", "agents, a group for each controller"},
					series: []series{
						{name: "Ravana, average", paper: true, values: said(75, 0, 0)},
						{name: "hosts, median", values: r.each("%:host_silence_ms_median", of...)},
						{name: "first command, median", values: r.each("%:failover_ms_median", of...)}}}}
			}},
		{what, "Figure 10", "What each guarantee costs",
			"All of them cost 31 % of the throughput, and total order 11 instead of 0.8 ms.",
			"Ratios are to a controller that replicates nothing.", []string{"levels"}, func(r reports) []plot {
				of := []string{"unordered", "reliable", "ordered", "exactly_once"}
				return []plot{
					{title: "throughput, of that without guarantees", unit: "ratio",
						labels: []string{"replicated later", "each event once", "in one order", "exactly once"},
						series: []series{
							{name: "Ravana", paper: true, values: said(0.916, 0.838, 0.785, 0.69)},
							{name: "Holdfast", values: r.each("levels:throughput_ratio_%", of...)}}},
					{title: "latency", unit: "ms", log: true,
						labels: []string{"replicated later", "each event once", "in one order", "exactly once"},
						series: []series{
							{name: "Ravana, average", paper: true, values: said(0.8, 0.8, 11, 11)},
							{name: "Holdfast, median", values: times(1e-3, r.each("levels:latency_us_median_%",
								of...))}}}}
			}},
	}
}

func beehive() []figure {
	const what = "beehive"
	batches := []string{"1", "64", "1024", "8192"}
	return []figure{
		{what, "Figure 5", "New actors a second, by batch", "140 µs for each of 8,192 on 11 controllers.",
			"A bee of the paper is an actor here.", []string{"actors"}, func(r reports) []plot {
				return []plot{{title: "time for an actor", unit: "µs", x: "messages that are sent at once", lines: true,
					log: true, labels: batches, series: []series{
						{name: "Beehive", paper: true, values: said(0, 0, 0, 140)},
						{name: "one group", values: r.each("actors:us_per_actor_b%_one_group", batches...)},
						{name: "three groups", values: r.each("actors:us_per_actor_b%_across",
							batches...)}}}}
			}},
		{what, "Figure 7a", "Key-value store: throughput by batch and replicas",
			"Larger batches help much; no numbers.", "",
			[]string{"kv"}, func(r reports) []plot {
				of := []string{"128", "1024", "8192"}
				p := plot{title: "values a second", unit: "puts/s", x: "messages that are sent at once", lines: true,
					labels: of}
				for _, replicas := range []string{"1", "3", "5"} {
					p.series = append(p.series, series{name: replicas + " replicas",
						values: r.each("kv:puts_per_s_r"+replicas+"_b%", of...)})
				}
				return []plot{p}
			}},
		{what, "Figure 7b", "Key-value store: latency over HTTP",
			"Most GETs take less than 1 ms here and 7 ms elsewhere, and most PUTs less than 20 ms.",
			"80 clients that pause 100 ms on average. Each request is replicated, a GET too.", []string{"kv"},
			func(r reports) []plot {
				of := []string{"get_local", "get_remote", "put_local", "put_remote"}
				return []plot{{title: "latency that 95 % are below", unit: "ms",
					labels: []string{"GET, local", "GET, remote", "PUT, local", "PUT, remote"}, series: []series{
						{name: "Beehive, most", paper: true, values: said(1, 7, 20, 20)},
						{name: "Holdfast", values: r.each("kv:%_ms_p95_paced", of...)}}}}
			}},
		{what, "Figure 8", "Failover by election timeout",
			"198, 451 and 753 ms with election timeouts of 100, 300 and 500 ms.",
			"A closed connection tells the others of a death, and no timeout has to pass.", []string{"failover"},
			func(r reports) []plot {
				return []plot{{title: "failover time", unit: "ms", log: true, labels: []string{"timeout of 100 ms",
					"timeout of 300 ms", "timeout of 500 ms", "Holdfast"}, series: []series{
					{name: "Beehive", paper: true, values: said(198, 451, 753, 0)},
					{name: "median", values: append(said(0, 0, 0), r.values("failover:failover_ms_median")...)},
					{name: "99 %", values: append(said(0, 0, 0), r.values("failover:failover_ms_p99")...)}}}}
			}},
		{what, "Figure 9", "Cost of the instrumentation", "Very low; no numbers.", "By turns, in the same processes.",
			[]string{"instrumentation"}, func(r reports) []plot {
				return []plot{{title: "answers a second", unit: "answers/s", labels: []string{"without", "with"},
					series: []series{{name: "Holdfast", values: r.values("instrumentation:answers_per_s_without",
						"instrumentation:answers_per_s_with")}}}}
			}},
		{what, "Figure 10", "Messages that cross controllers, while the placement is optimised",
			"The placement becomes similar to the ideal one. The paper draws matrices, without numbers.",
			"Simulated, as in the paper: traffic engineering, and all actors in the first group at first.",
			[]string{"placement"}, func(r reports) []plot {
				return []plot{{title: "messages that cross", unit: "%", labels: []string{"before",
					"while it is optimised",
					"after", "ideal"}, series: []series{{name: "Holdfast",
					values: r.each("placement:crossing_percent_%", "before", "while", "after", "ideal")}}}}
			}},
		{what, "Figures 12 and 13", "Reactive forwarding through a failure",
			"An outage of an election timeout of 300 ms; 1 ms before, 8 ms after it, and 1 ms when optimised.",
			"One Open vSwitch with two hosts; each frame goes to the controllers twice.", []string{"forwarding"},
			func(r reports) []plot {
				return []plot{
					{title: "outage", unit: "ms", log: true, labels: []string{"kill, masters together",
						"kill, masters apart",
						"channel cut"}, series: []series{
						{name: "Beehive", paper: true, values: said(300, 300, 0)},
						{name: "Holdfast, median", values: r.values("forwarding:outage_ms_together",
							"forwarding:outage_ms_apart", "forwarding:outage_ms_cut")}}},
					{title: "round trip", unit: "ms", labels: []string{"before", "after", "optimised"},
						series: []series{
							{name: "Beehive", paper: true, values: said(1, 8, 1)},
							{name: "Holdfast, median", values: r.each("forwarding:latency_ms_%", "before",
								"after",
								"optimised")}}}}
			}},
		{what, "Figure 14", "Learning switch: throughput by controllers and replicas",
			"More controllers answer more, the less the more replicas there are. About 1,000,000 a second at best.",
			"All controllers share the processors of one machine here, so more of them cannot answer more.",
			[]string{"groups"}, func(r reports) []plot {
				of := []string{"1", "3", "5"}
				p := plot{title: "answers a second", unit: "answers/s", labels: each("% controllers", of...)}
				for _, replicas := range of {
					p.series = append(p.series, series{name: replicas + " replicas",
						values: r.each("groups:answers_per_s_c%_r"+replicas, of...)})
				}
				return []plot{p}
			}},
	}
}

func store() (list []figure) {
	for _, w := range workloads {
		f := figure{paper: "store", number: w.figure, title: "Flows a second of the " + w.app + ", by variant",
			says: "Each step, from a plain store to columns, functions beside the data and a cache, answers more.",
			note: "All replicas and the client share one machine here. The load is the one with the most flows whose " +
				"p90 is below a millisecond, if there is one.", runs: names(w.workload...)}
		f.plots = func(r reports) (plots []plot) {
			for _, name := range w.workload {
				of := func(figure string) []float64 { return r.each(name+"-%:"+figure, w.variants...) }
				plots = append(plots,
					plot{title: name + ": flows a second", unit: "flows/s", log: true, labels: w.variants,
						series: []series{
							{name: "the paper", paper: true, values: of("paper_flows_per_s")},
							{name: "Holdfast", values: of("flows_per_s")}}},
					plot{title: name + ": latency that 90 % are below", unit: "ms", labels: w.variants,
						series: []series{
							{name: "Holdfast", values: of("p90_ms")}}})
			}
			return plots
		}
		list = append(list, f)
	}
	all := names("ls-", "lb-", "dm-")
	return append(list, figure{paper: "store", number: "Tables I and II", title: "What a flow asks the store for",
		says: "Operations and bytes of each workload and variant.",
		note: "Counted by running the applications. The operations themselves are in the reports, beside the paper's.",
		runs: all, plots: func(r reports) []plot {
			labels := make([]string, len(all))
			for i, name := range all {
				labels[i] = strings.Replace(name, "-", " ", 1)
			}
			return []plot{
				{title: "operations of a flow", unit: "operations", labels: all, series: []series{{name: "Holdfast",
					values: r.each("%:ops_per_flow", all...)}}},
				{title: "bytes of a flow", unit: "bytes", labels: all, series: []series{{name: "Holdfast",
					values: r.each("%:bytes_per_flow", all...)}}}}
		}})
}

func recovery() []figure {
	const what = "recovery"
	note := "Open vSwitch in network namespaces of one machine."
	return []figure{
		{what, "Figure 4", "Recovery when the port goes down",
			"The paper draws what loss of signal takes; no numbers.", note,
			[]string{"carrier"}, func(r reports) []plot {
				return []plot{{title: "recovery", unit: "ms", labels: []string{"mean", "95 %", "longest"},
					series: []series{
						{name: "Holdfast", values: r.each("carrier:recovery_ms_%", "mean", "p95", "max")}}}}
			}},
		{what, "Figures 5 to 7", "Recovery by BFD interval and network",
			"3.4 ms at 1 ms, 15 at 5 ms, 42 to 46 at 15 ms.",
			note + " At 1 ms a sentry of Holdfast watches links, because the BFD of Open vSwitch cannot.",
			names("triangle-", "ring-", "usnet-"), func(r reports) []plot {
				of := names("triangle-", "ring-", "usnet-")
				labels := make([]string, len(of))
				for i, name := range of {
					network, ms, _ := strings.Cut(name, "-")
					labels[i] = fmt.Sprintf("%s, %s ms", network, ms)
				}
				return []plot{{title: "recovery", unit: "ms", labels: labels, series: []series{
					{name: "the paper, mean", paper: true, values: r.each("%:paper_recovery_ms_mean",
						of...)},
					{name: "mean", values: r.each("%:recovery_ms_mean", of...)},
					{name: "95 %", values: r.each("%:recovery_ms_p95", of...)}}}}
			}},
	}
}
