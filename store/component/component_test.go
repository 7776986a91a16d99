package component

import (
	"errors"
	"fmt"
	"math"
	"runtime/metrics"
	"strings"
	"testing"
	"time"
)

// counting is a Host that counts its calls.
type counting struct{ calls int }

var errRefused = errors.New("refused")

func (c *counting) Call(name string, args []Value, named *Dict) (Value, error) {
	c.calls++
	if name == "refuse" {
		return nil, errRefused
	}
	d := NewDict(0)
	d.Set("name", name)
	d.Set("args", int64(len(args)))
	d.Set("named", int64(named.Len()))
	return d, nil
}

// memory is that of all runs, one after the other, as in a controller.
var memory Memory

// run runs the body of a function and returns the text of what it returns.
func run(t testing.TB, source string, limits *Limits) (string, error) {
	t.Helper()
	p, err := Parse(source)
	if err != nil {
		return "", err
	}
	memory.Reset()
	args := memory.Dict(0)
	memory.SetText(args, "x", "7")
	v, err := p.Run(&counting{}, args, limits, &memory)
	if err != nil {
		return "", err
	}
	m := &machine{limits: &Limits{1 << 20, 1 << 20}, memory: new(Memory)}
	return m.text(v), nil
}

func enough() *Limits { return &Limits{100_000, 1 << 20} }

func TestExpressions(t *testing.T) {
	for _, c := range []struct{ expression, want string }{
		{`1 + 2 * 3 - -4`, "11"},
		{`[7 // 2, -7 // 2, 7 // -2, 7 % 3, -7 % 3, 7 % -3, 6 % 3]`, "[3, -4, -4, 1, 2, -2, 0]"},
		{`[6 & 3, 6 | 3, 6 ^ 3, ~6, 1 << 62, -8 >> 1]`, "[2, 7, 5, -7, 4611686018427387904, -4]"},
		{`"a" + "b" * 3 + str(5)`, "abbb5"},
		{`[1] + [2] * 2 + 2 * [3]`, "[1, 2, 2, 3, 3]"},
		{`(1, "a") + (None,) * 2`, `(1, "a", None, None)`},
		{`{"a": 1} | {"b": 2, "a": 3}`, `{"a": 3, "b": 2}`},
		{`[1 < 2, "a" >= "b", (1, 2) < (1, 3), [2] > [1, 5], 1 == True, [1, {2: 3}] == [1, {2: 3}]]`,
			"[True, False, True, True, False, True]"},
		{`[1 in [1], "b" in "abc", "x" in {"x": 1}, 3 not in range(3), 2 in (1, 2)]`,
			"[True, True, True, True, True]"},
		{`[0 or "a", 1 and 2, not 0, 1 if [] else 2]`, `["a", 2, True, 2]`},
		{`"%s is %d%%: %s" % ("x", 5, [None])`, "x is 5%: [None]"},
		{`"abcd"[1:3] + "abcd"[-1] + "abcd"[:1] + "abcd"[3:1]`, "bcda"},
		{`[[1, 2, 3][1:], (1, 2)[-1], {"a": 4}["a"]]`, "[[2, 3], 2, 4]"},
		{`[i * j for i in range(3) if i > 0 for j in (1, 10)]`, "[1, 10, 2, 20]"},
		{`{k: v for k, v in {"a": 1, "b": 2}.items()}`, `{"a": 1, "b": 2}`},
		{`[len("ab"), len([1]), len({}), len(range(0, 10, 3)), len(range(5, 0, -2))]`, "[2, 1, 0, 4, 3]"},
		{`[int("12"), int("ff", 16), int(True), bool(""), type(None), abs(-4)]`, `[12, 255, 1, False, "NoneType", 4]`},
		{`[min(3, 1, 2), max([1, 3]), sorted([3, 1, 2]), reversed((1, 2))]`, "[1, 3, [1, 2, 3], [2, 1]]"},
		{`[list(range(3)), tuple([1]), dict([("a", 1)]), enumerate(["x"]), zip([1, 2], "a b".split())]`,
			`[[0, 1, 2], (1,), {"a": 1}, [(0, "x")], [(1, "a"), (2, "b")]]`},
		{`[any([0, 1]), all([0, 1]), any([])]`, "[True, False, False]"},
		{`["a,b".split(","), " a ".strip(), "-".join(["a", "b"]), "aba".replace("a", "xy"), "Ab".upper(), "Ab".lower()]`,
			`[["a", "b"], "a", "a-b", "xybxy", "AB", "ab"]`},
		{`["abc".startswith("ab"), "abc".endswith("bc"), "abc".find("c"), "abc".find("d")]`, "[True, True, 2, -1]"},
		{`store.thing(1, 2, a=3)`, `{"name": "thing", "args": 2, "named": 1}`},
		{`args["x"]`, "7"},
	} {
		got, err := run(t, "def run(args):\n  return "+c.expression+"\n", enough())
		if got != c.want || err != nil {
			t.Errorf("%s = %s (%v), want %s", c.expression, got, err, c.want)
		}
	}
}

func TestStatements(t *testing.T) {
	const source = `
LIMIT = 3

def count(items, by = 1, name = "n"):
    """Counts."""
    total = 0
    for item in items:
        if item == "skip":
            continue
        elif item == "end":
            break
        total += by
    return [name, total]

def run(args):
    a, (b, c) = 1, [2, 3]
    l = [a, b]
    l += [c]
    l[0] += 10
    l.append(4)
    l.insert(0, 0)
    l.insert(len(l), 9)
    l.extend((5,))
    popped = [l.pop(), l.pop(0)]
    l.remove(9)
    d = {"a": 1}
    d["b"] = 2
    d["a"] += 5
    d.update({"c": 3})
    d.setdefault("d", 4)
    gone = d.pop("b")
    for k in d:
        if k == "c":
            pass
    for i in range(LIMIT):
        for j in range(10):
            if j == 1:
                break
    return [l, popped, d, d.keys(), d.values(), gone, d.get("x", 9), d.get("x"), l.index(4), i,
        count(["x", "skip", "y", "end", "z"], by=2), count([], 1, name="m")]
`
	const want = `[[11, 2, 3, 4], [5, 0], {"a": 6, "c": 3, "d": 4}, ["a", "c", "d"], [6, 3, 4], 2, 9, None, 3, 2, ` +
		`["n", 4], ["m", 0]]`
	if got, err := run(t, source, enough()); got != want || err != nil {
		t.Errorf("%s (%v), want %s", got, err, want)
	}
}

// What is wrong is refused when it is parsed, or ends the run, with its line.
func TestErrors(t *testing.T) {
	body := func(s string) string { return "def run(args):\n  " + s + "\n" }
	for _, c := range []struct{ source, want string }{
		{"", "no function run"},
		{"def run(a, b): pass", "no function run"},
		{"def run(args", "line 1: "},
		{"def run(args): return y", "line 1: undefined: y"},
		{"load('x', 'y')\n" + body("pass"), "only functions and assignments"},
		{body("return lambda: 1"), "line 2: a component cannot have lambda"},
		{body("while True: pass"), "while"},
		{body("return 1.5"), "whole numbers"},
		{body("return 9223372036854775808"), "whole numbers"},
		{body("return 1 / 2"), "use //"},
		{body("return b'a'"), "use a string"},
		{body("x = 1\n  if x:\n    return z\n  return w"), "line 4: undefined: z"},
		{body("return len(*args)"), "* and **"},
		{body("def f(): pass"), "functions in functions"},
		{"def f(*a): pass\n" + body("pass"), "a parameter is a name"},
		{strings.Repeat("#", MaxSource+1), "bytes"},
		{body("return " + strings.Repeat("(", 2000)), "line 2"},
		{body("return fail('no ' + args['x'])"), "line 2: no 7"},
		{body("return run(args)"), "calls itself"},
		{body("return f()") + "def f(): return g()\ndef g(): return f()\n", "calls itself"},
		{body("return x + (1 if [x for x in []] else 0)"), "undefined: x"},
		{body("return y\n  y = 1"), "y has no value yet"},
		{body("return 9223372036854775807 + 1"), "64 bits"},
		{body("return -9223372036854775807 - 2"), "64 bits"},
		{body("return 4294967296 * 4294967296"), "64 bits"},
		{body("return (-9223372036854775807 - 1) * -1"), "64 bits"},
		{body("return (-9223372036854775807 - 1) // -1"), "64 bits"},
		{body("return 3 << 62"), "64 bits"},
		{body("return 1 << 64"), "0 to 63"},
		{body("return 1 % 0"), "division by zero"},
		{body("return 1 + 'a'"), "+ is not for a int and a string"},
		{body("return 1 < 'a'"), "have no order"},
		{body("return [1][1]"), "index 1 is not one of 1"},
		{body("return {}[1]"), "no key"},
		{body("return {[]: 1}"), "a key of a dictionary"},
		{body("a, b = [1]"), "1 values for 2 names"},
		{body("l = [1]\n  for x in l: l.append(x)"), "while a loop is over it"},
		{body("d = {1: 1}\n  for x in d: d[2] = 3"), "while a loop is over it"},
		{body("return 'a'.nothing()"), "no method nothing"},
		{body("return 'a'.upper"), "is a method"},
		{body("return (1)()"), "cannot be called"},
		{body("return len(1)"), "has no length"},
		{body("return len()"), "arguments"},
		{body("return '%d' % 'a'"), "is for a number"},
		{body("return '%s' % (1, 2)"), "too many"},
		{body("l = [0]\n  l[0] = l\n  return str(l)"), "nested too deeply"},
		{body("l = [0]\n  l[0] = l\n  k = [0]\n  k[0] = k\n  return l == k"), "nested too deeply"},
		{body("return int('x')"), "not a number"},
		{body("return store.refuse()"), "refused"},
		{"def f(a): pass\n" + body("f()"), "parameter a of function f is not given"},
		{"def f(a): pass\n" + body("f(1, a=2)"), "given twice"},
		{"def f(a): pass\n" + body("f(1, b=2)"), "no parameter of one of these names"},
	} {
		if got, err := run(t, c.source, enough()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.80q: %s, %v, want %q", c.source, got, err, c.want)
		}
	}
	if _, err := run(t, body("return store.refuse()"), enough()); !errors.Is(err, errRefused) {
		t.Errorf("the error of the host: %v", err)
	}
}

// What takes long, or needs much memory, ends at the limits.
func TestLimits(t *testing.T) {
	loop := func(s string) string {
		return "def run(args):\n  l, t, s, d, n = [], (), 'x', {}, 3\n  for i in range(1 << 40):\n    " + s + "\n"
	}
	for _, source := range []string{
		loop("pass"),
		loop("l.append(i)"),
		loop("l = [l, l]\n    str(l) if i == 50 else 0"),
		loop("t = (t, t)\n    t < (t, t)"),
		loop("l = l + l + [1]"),
		loop("l += l + [1]"),
		loop("s = s + s"),
		loop("s += s"),
		loop("s = '%s%s' % (s, s)"),
		loop("s = s.replace('x', 'xx')"),
		loop("s = s.join([s, s])"),
		loop("d[i] = i"),
		loop("d = d | {i: i}"),
		loop("s.find('y'); s = s + 'x' * 100"),
		loop("sorted(range(10000))"),
		loop("[j for j in range(1 << 40)]"),
		loop("{j: j for j in range(1 << 40)}"),
		loop("max(range(1 << 40))"),
		loop("any([0] * 100000)"),
		loop("-1 in range(1 << 40)"),
		loop("list(range(1 << 40))"),
		loop("zip(range(1 << 40), range(1 << 40))"),
		loop("enumerate(range(1 << 40))"),
		loop("l[0:0] + l; l.append(1); l.insert(0, 1); l.pop(0)"),
		"def run(args): return 'x' * (1 << 29)",
		"def run(args): return [0] * (1 << 62)",
		"def run(args): return (0,) * 9223372036854775807",
		"def run(args): return ('x' * 1000).split('x') * 1000",
		"def run(args):\n  s = 'a b ' * 10000\n  return [s.split() for i in range(1000)]",
		"X = [0] * (1 << 29)\ndef run(args): pass",
		loop("x, y = {'x' * 100000: i}, {'x' * 100000: i}\n    [x] * 300 == [y] * 300"),
		loop("store.thing('x' * 10000)"),
		loop("t = (t, t)\n    store.thing(t)"),
	} {
		limits := enough()
		if got, err := run(t, source, limits); !errors.Is(err, ErrLimit) {
			t.Errorf("%s: %.80s, %v", source, got, err)
		}
		if limits.Steps < 0 || limits.Bytes < 0 {
			t.Errorf("%s: %+v are left", source, *limits)
		}
	}
}

// Statements that contain long expressions are not looked at again and again, and names that nobody has defined are not
// compared with all others: these took seconds.
func TestParseAndRunAreFast(t *testing.T) {
	long := "1" + strings.Repeat("+1", 7000)
	limits := enough()
	if _, err := run(t, "def run(args):\n  for i in range(100000):\n    if 0:\n      "+long, limits); !errors.Is(err,
		ErrLimit) {
		t.Error(err)
	}
	var b strings.Builder
	for i := range 900 {
		fmt.Fprintf(&b, "n%03d=0\n", i)
	}
	b.WriteString("def run(args): return [")
	for i := range 900 {
		fmt.Fprintf(&b, "m%03d,", i)
	}
	b.WriteString("]\n")
	began := time.Now()
	for range 20 {
		if _, err := Parse(b.String()); err == nil || !strings.Contains(err.Error(), "line 901: undefined: m000") {
			t.Fatal(err)
		}
	}
	if took := time.Since(began); took > 20*time.Second { // each took 2 seconds
		t.Errorf("20 programs were refused in %v", took)
	}
}

// A run takes as many steps on every machine, and less of what is left each time.
func TestDeterministic(t *testing.T) {
	p, err := Parse("def run(args): return [str(i) for i in range(100)]")
	if err != nil {
		t.Fatal(err)
	}
	left := *enough()
	first, was := Limits{}, left
	for i := range 3 {
		if _, err := p.Run(&counting{}, NewDict(0), &left, new(Memory)); err != nil {
			t.Fatal(err)
		}
		used := Limits{was.Steps - left.Steps, was.Bytes - left.Bytes}
		if i > 0 && used != first || used.Steps < 300 || used.Bytes < 100*stringSize {
			t.Errorf("it uses %+v, and %+v before", used, first)
		}
		first, was = used, left
	}
}

func TestArithmetic(t *testing.T) {
	values := []int64{math.MinInt64, math.MinInt64 + 1, -3, -1, 0, 1, 2, 1 << 31, math.MaxInt64 - 1, math.MaxInt64}
	for _, a := range values {
		for _, b := range values {
			for _, op := range []string{"+", "-", "*", "//", "%"} {
				literal := func(v int64) string {
					if v == math.MinInt64 {
						return fmt.Sprintf("(%d - 1)", v+1)
					}
					return fmt.Sprintf("(%d)", v)
				}
				source := fmt.Sprintf("def run(args): return %s %s %s", literal(a), op, literal(b))
				got, err := run(t, source, enough())
				want, fits := exact(op, a, b)
				if fits != (err == nil) || fits && got != want {
					t.Errorf("%s: %s, %v, want %s", source, got, err, want)
				}
			}
		}
	}
}

// mostMemory bounds all that a program allocates from parsing it to its end, with what is garbage.
const mostMemory = 48 << 20

// allocated returns how many bytes this process has allocated.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

func FuzzComponent(f *testing.F) {
	f.Add("def run(args): return [x * 2 for x in range(9)] + ['a' * 5, {1: (2, 3)} | {}]")
	f.Add("def run(args):\n  for i in range(1 << 40):\n    s = 'x' * i\n    if s == str(i): return s\n")
	f.Fuzz(func(t *testing.T, source string) {
		limits := enough()
		before := allocated()
		_, err := run(t, source, limits)
		if bytes := allocated() - before; bytes > mostMemory {
			t.Errorf("%q allocates %d bytes", source, bytes)
		}
		if err != nil {
			if _, is := errors.AsType[*Error](err); !is && !errors.Is(err, ErrLimit) && !errors.Is(err, errRefused) {
				t.Errorf("%q: %v", source, err)
			}
		}
	})
}
