package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// step is one command, and a stage of its own in the output.
type step struct {
	name   string
	env    []string // in addition to that of this process, as "NAME=value"
	args   []string // the command
	tests  bool     // it is a run of go test, whose tests are counted
	beside bool     // the next step begins with it
	fills  bool     // the same, and those after that do not wait for it: it takes what they leave of the processors
}

// String is the step as one types it.
func (s step) String() string {
	words := slices.Clone(s.env)
	for _, a := range s.args {
		if strings.ContainsAny(a, " $|()^*{}") {
			a = "'" + a + "'"
		}
		words = append(words, a)
	}
	if s.beside || s.fills {
		words = append(words, "&")
	}
	return strings.Join(words, " ")
}

// part is a group of steps that can be run by its name.
type part struct {
	name, what string
	gate, all  func(t *tree) []step // in `make test` and in `make test-all`; nil: it is not in that
}

// parts are the gate, and what is beyond it. Whatever a part leaves out in the gate it runs in test-all.
var parts = []part{
	{"lint", "format, go.mod, go vet and staticcheck; ruff and mypy for python", lint, lint},
	{"packages", "most packages, side by side", untimed, untimedTwice},
	{"timed", "packages whose tests measure milliseconds, one after the other", timed, timedTwice},
	{"mutants", "tests find each seeded bug", mutants, mutantsAll},
	{"e2e", "controllers, agents and switches as processes: a representative of each matrix, or all of it", e2e,
		e2eAll},
	{"busy", "16 busy loops beside a thousand switches change no leader: for two minutes, or an hour", busy, busyHour},
	{"python", "every application of Ryu, ten thousand inputs, and the seeded bugs of the host", nil, python},
	{"swarm", "two thousand seeds of the simulator", nil, swarm},
	{"shells", "three hundred seeds of the shells around the cores, with the race detector", nil, shells},
	{"graphs", "recovery in a hundred random networks", nil, graphs},
	{"model", "the large configurations of the protocol's model", nil, model},
	{"kills", "a hundred leaders of networks of Open vSwitch are killed", nil, kills},
	{"paths", "a thousand paths over 20 switches while leaders die", nil, thousandPaths},
	{"store", "a million operations of the store while everything fails", nil, storeFaults},
	{"hostile", "hostile peers of all kinds for twenty minutes", nil, hostileSoak},
	{"addresses", "hosts that send from a million addresses", nil, millionAddresses},
	{"install", "releases, installed and upgraded on a bare Debian (make packages, debootstrap)", nil, releases},
	{"fuzz", "ten thousand runs of each fuzz target", nil, fuzz},
}

// plan returns the steps of the parts with these names, or of all parts if there are none.
func plan(t *tree, all bool, names []string) ([]step, error) {
	for _, name := range names {
		if !slices.ContainsFunc(parts, func(p part) bool { return p.name == name }) {
			return nil, fmt.Errorf("there is no part %q", name)
		}
	}
	var steps []step
	for _, p := range parts {
		make := p.gate
		if all || make == nil && slices.Contains(names, p.name) {
			make = p.all
		}
		if make != nil && (len(names) == 0 || slices.Contains(names, p.name)) {
			steps = append(steps, make(t)...)
		}
	}
	yield(steps)
	return steps, nil
}

// yield makes steps that fill run only when nobody else wants a processor, so that they do not hold up tests that
// measure time. Those that have only others of their kind after them have nothing to fill.
func yield(steps []step) {
	others := false
	for i := len(steps) - 1; i >= 0; i-- {
		s := &steps[i]
		switch {
		case !s.fills:
			others = true
		case others:
			s.args = append([]string{"chrt", "--idle", "0"}, s.args...)
		default:
			s.fills = false
		}
	}
}

// tree is what is known of the packages.
type tree struct {
	path     string
	packages []pkg    // those with tests
	tagged   []string // packages with files that need a build tag
	mutated  []pkg    // with seeded bugs, in a file mutants_test.go with the build tag mutants
	targets  []target // fuzz targets
}

type pkg struct {
	path       string   // inside the module
	concurrent bool     // it starts goroutines: its tests look for leaked ones
	shorter    []string // its tests that do less if they are asked to be short, by what follows "Test" in their names
}

// endToEnd is the package whose tests start processes of the program itself.
const endToEnd = "lab/e2e"

// inRealTime are packages whose tests measure milliseconds: of a failover, of the detection of a dead link. Another
// package's load would make them fail. Others wait, too, but with bounds of seconds. Tests of lab/netlab count what
// labs leave on the machine.
var inRealTime = []string{"bfd", "bfd/sentry", "consensus", "internal/command", "lab/bench", "lab/cluster",
	"lab/failover", "lab/load", "lab/netlab", "lab/outage"}

// first are packages whose tests take long: they begin first, so that none is left over at the end.
var first = []string{"python", "lab/sim", "lab/model", "controller", "ryu", "consensus/storage/disk"}

// longTests is the flag that chooses the tests that do less in a short run.
func (p pkg) longTests() string { return "-run=^Test(" + strings.Join(p.shorter, "|") + ")$" }

func (p pkg) timed() bool { return slices.Contains(inRealTime, p.path) }

// asProduction is for tests of what time things take, and of processes of the program itself: they collect garbage as
// in production.
const asProduction = "-exec=env -u GOGC"

// run is a run of go test. vet has seen the packages by then.
func (t *tree) run(name string, packages []pkg, flags ...string) []step {
	if len(packages) == 0 {
		return nil
	}
	args := append([]string{"go", "test", "-json", "-vet=off", "-count=1"}, flags...)
	if !slices.ContainsFunc(flags, func(f string) bool { return strings.HasPrefix(f, "-timeout=") }) {
		args = append(args, "-timeout=15m")
	}
	for _, p := range packages {
		args = append(args, "./"+p.path)
	}
	return []step{{name: name, args: args, tests: true}}
}

// among returns the packages that are so, in the order in which they are to begin.
func (t *tree) among(so func(pkg) bool) (list []pkg) {
	for _, p := range t.packages {
		if p.path != endToEnd && so(p) {
			list = append(list, p)
		}
	}
	rank := func(p pkg) int {
		if i := slices.Index(first, p.path); i >= 0 {
			return i
		}
		return len(first)
	}
	slices.SortStableFunc(list, func(a, b pkg) int { return rank(a) - rank(b) })
	return list
}

// venv is the Python that scripts/install-test-deps makes.
const venv = ".venv/bin/python"

func lint(t *tree) []step {
	tagged := append([]string{"go", "vet", "-tags=crashpoints,mutants"}, t.tagged...)
	return []step{
		{name: "gofmt", args: []string{"gofmt", "-l", "."}},
		{name: "go mod tidy", args: []string{"go", "mod", "tidy", "-diff"}},
		{name: "go vet", args: []string{"go", "vet", "./..."}},
		{name: "go vet, crash points and mutants", args: tagged, fills: true},
		{name: "staticcheck", args: []string{"go", "tool", "staticcheck", "./..."}, fills: true},
		{name: "ruff", args: []string{venv, "-m", "ruff", "check", "-q", "--no-cache", "python"}, fills: true},
		{name: "mypy", args: []string{venv, "-m", "mypy", "--config-file=python/pyproject.toml", "--no-error-summary",
			"--cache-dir=/dev/null", "python/holdfast", "python/holdfast_ryu"}, fills: true},
	}
}

// untimed runs those that start goroutines with the race detector, and so once: it finds no less. Only tests that do
// less in a short run, which one with the race detector is, run both ways.
func untimed(t *tree) []step { return beside(t.all("packages", false, untimedOnes, "-p=2")) }

// untimedTwice runs all of them without the race detector as well: then they are as fast as in production.
func untimedTwice(t *tree) []step { return beside(t.all("packages", true, untimedOnes, "-p=2")) }

func untimedOnes(p pkg) bool { return !p.timed() }

func timed(t *tree) []step {
	return t.all("packages that measure time", false, pkg.timed, "-p=1", asProduction)
}

func timedTwice(t *tree) []step {
	return t.all("packages that measure time", true, pkg.timed, "-p=1", asProduction)
}

// all runs the packages that are so: those that start goroutines with the race detector, and all others, or really all,
// without.
func (t *tree) all(name string, twice bool, so func(pkg) bool, flags ...string) []step {
	steps := t.run(name, t.among(func(p pkg) bool { return so(p) && (twice || !p.concurrent) }), flags...)
	concurrent := t.among(func(p pkg) bool { return so(p) && p.concurrent })
	for _, p := range concurrent {
		if !twice && len(p.shorter) > 0 {
			long := slices.Concat(flags, []string{p.longTests()})
			steps = append(steps, t.run("long tests of "+p.path, []pkg{p}, long...)...)
		}
	}
	race := slices.Concat(flags, []string{"-race", "-short"})
	return append(steps, t.run(name+", race detector", concurrent, race...)...)
}

// beside makes steps run at the same time. One alone leaves a processor idle while its last package runs, or while most
// of its tests wait.
func beside(steps []step) []step {
	for i := range len(steps) - 1 {
		steps[i].beside = true
	}
	return steps
}

func (t *tree) e2e(name string, flags ...string) []step {
	return t.run(name, []pkg{{path: endToEnd}}, slices.Concat(flags, []string{asProduction})...)
}

// long are tests of clusters that wait for timers of half a minute, or run many networks. They run beside the others
// from the start, so that none is left over at the end.
const long = "^Test(Mininet|Ryu|Recovery|Run$)"

// raceRepresentatives are tests in which every kind of process does all that it does side by side. The second part
// chooses modes.
const raceRepresentatives = "^Test(CrashPoint|AddAndRemoveControllers|PowerOff|TLSNewAuthority|GarbageEverywhere)$" +
	"/^(agents|stock_tls)$"

func e2e(t *tree) []step { return t.ends("end to end", nil, nil, "-run="+raceRepresentatives) }

func e2eAll(t *tree) []step {
	return t.ends("end to end, all combinations", []string{matrixAll}, []string{"-timeout=60m"})
}

func (t *tree) ends(name string, env, flags []string, race ...string) []step {
	steps := append(t.e2e(name, append(flags, "-parallel=4", "-skip="+long)...),
		t.e2e(name+", long tests", append(flags, "-parallel=6", "-run="+long)...)...)
	for i := range steps {
		steps[i].env = env
	}
	return append(beside(steps), t.e2e(name+", race detector", append(race, "-race", "-short", "-timeout=30m")...)...)
}

func busy(t *tree) []step { return t.busyLoops(20) }

func busyHour(t *tree) []step { return t.busyLoops(900) }

// busyLoops loads each of four clusters for so long.
func (t *tree) busyLoops(seconds int) []step {
	steps := t.e2e("busy loops", "-run=^TestBusyLoops$", "-timeout=90m")
	steps[0].env = []string{fmt.Sprint("HOLDFAST_BUSY_SECONDS=", seconds)}
	return steps
}

// matrixAll makes tests that run in one of several ways, or a choice of them, run in all.
const matrixAll = "HOLDFAST_MATRIX=all"

// mutants has as long as all else: other steps may leave it nothing.
func mutants(t *tree) []step { return t.seeded("-timeout=30m") }

// mutantsAll has those of the simulator, too, that it takes long to find. It runs beside an hour of other steps.
func mutantsAll(t *tree) []step {
	steps := t.seeded("-timeout=120m")
	for i := range steps {
		steps[i].env = []string{matrixAll}
	}
	return steps
}

// seeded runs more of them at a time than there are processors: some are noticed because nothing happens for long.
func (t *tree) seeded(flags ...string) []step {
	steps := t.run("seeded bugs", t.mutated, append(flags, "-tags=mutants", "-run=^TestMutants", "-parallel=6")...)
	for i := range steps {
		steps[i].fills = true
	}
	return steps
}

func python(t *tree) []step {
	steps := t.run("python", []pkg{{path: "python"}}, "-timeout=60m")
	steps[0].env = []string{matrixAll}
	return steps
}

func swarm(t *tree) []step {
	return []step{{name: "swarm", tests: true, args: []string{"go", "test", "-json", "-vet=off", "-count=1",
		"-timeout=30m", "-run=^TestSwarm$", "./lab/sim", "-seeds=2000"}}}
}

func shells(t *tree) []step {
	return []step{{name: "shells", tests: true, args: []string{"go", "test", "-json", "-vet=off", "-count=1",
		"-timeout=30m", "-race", "-run=^TestSwarm$", "./lab/shells", "-seeds=300"}}}
}

func graphs(t *tree) []step {
	return []step{{name: "graphs", tests: true, args: []string{"go", "test", "-json", "-vet=off", "-count=1",
		"-timeout=60m", "./network/protect", "-graphs=100"}}}
}

func model(t *tree) []step {
	return []step{{name: "model", args: []string{"go", "run", "./lab/model", "-large"}}}
}

func kills(t *tree) []step {
	steps := t.e2e("kills", "-run=^TestThousandKills$", "-timeout=60m")
	steps[0].env = []string{"HOLDFAST_KILLS=100"}
	return steps
}

func thousandPaths(t *tree) []step {
	steps := t.e2e("paths", "-run=^TestPathsUnderKills$", "-timeout=60m")
	steps[0].env = []string{"HOLDFAST_PATHS=1000"}
	return steps
}

func storeFaults(t *tree) []step {
	steps := t.e2e("store", "-run=^TestStoreFaults$", "-timeout=60m")
	steps[0].env = []string{"HOLDFAST_STORE_OPERATIONS=1000000"}
	return steps
}

func hostileSoak(t *tree) []step {
	steps := t.e2e("hostile", "-run=^TestHostilePeers$", "-timeout=60m")
	steps[0].env = []string{"HOLDFAST_HOSTILE_SECONDS=1200"}
	return steps
}

func millionAddresses(t *tree) []step {
	steps := t.run("addresses", []pkg{{path: "apps/learning"}, {path: "apps/devices"}, {path: "network/edge"}},
		"-run=ManyAddresses")
	steps[0].env = []string{matrixAll}
	return steps
}

// releases needs the network: debootstrap downloads Debian.
func releases(t *tree) []step {
	steps := t.e2e("install", "-run=^TestInstall$", "-timeout=60m")
	steps[0].env = []string{"HOLDFAST_BARE_DEBIAN=debootstrap"}
	return steps
}

// target is a fuzz target.
type target struct{ pkg, name string }

// A number of runs, because with a time the go command may end with "context deadline exceeded" (golang/go#75804).
func fuzz(t *tree) (steps []step) {
	for _, t := range t.targets {
		steps = append(steps, step{name: t.name + " of " + t.pkg, args: []string{"go", "test", "-vet=off", "-run=^$",
			"-fuzz=^" + t.name + "$", "-fuzztime=10000x", "./" + t.pkg}})
	}
	return steps
}

// findTree asks the go command for the packages, and reads their tests.
func findTree() (*tree, error) {
	const format = "{{.Module.Path}}\t{{.ImportPath}}\t{{.Dir}}\t{{join .TestGoFiles \" \"}} " +
		"{{join .XTestGoFiles \" \"}}\t{{join .TestImports \" \"}} {{join .XTestImports \" \"}} \t" +
		"{{join .IgnoredGoFiles \" \"}}"
	list, _, err := output(nil, "go", "list", "-f", format, "./...")
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, list)
	}
	t := &tree{}
	for line := range strings.Lines(list) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(f) != 6 {
			return nil, fmt.Errorf("go list says %q", line)
		}
		t.path = f[0]
		p := pkg{path: strings.TrimPrefix(f[1], f[0]+"/"), concurrent: strings.Contains(f[4], "go.uber.org/goleak ")}
		if f[5] != "" {
			t.tagged = append(t.tagged, "./"+p.path)
		}
		if slices.Contains(strings.Fields(f[5]), "mutants_test.go") {
			t.mutated = append(t.mutated, p)
		}
		files := strings.Fields(f[3])
		for _, name := range files {
			code, err := os.ReadFile(filepath.Join(f[2], name))
			if err != nil {
				return nil, err
			}
			p.shorter = append(p.shorter, shorter(string(code))...)
			t.targets = append(t.targets, fuzzTargets(p.path, string(code))...)
		}
		if len(files) > 0 {
			t.packages = append(t.packages, p)
		}
	}
	return t, nil
}

// shorter returns the functions that ask testing.Short, without the "Test" that the names of tests begin with. One that
// is no test would not be found by its name: TestNamedTestsExist says so.
func shorter(code string) (list []string) {
	name := ""
	for line := range strings.Lines(code) {
		if rest, ok := strings.CutPrefix(line, "func "); ok {
			rest, _, _ = strings.Cut(rest, "(t ")
			name = strings.TrimPrefix(rest, "Test")
		} else if strings.Contains(line, "testing.Short()") && !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	return list
}

func fuzzTargets(pkg, code string) (list []target) {
	for line := range strings.Lines(code) {
		if rest, ok := strings.CutPrefix(line, "func Fuzz"); ok {
			name, _, _ := strings.Cut(rest, "(")
			list = append(list, target{pkg, "Fuzz" + name})
		}
	}
	return list
}
