package store

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

const robin = `
def run(args):
    """Chooses the next member of a pool."""
    pool = store.get("pools", args["pool"])
    if pool == None:
        fail("no pool " + args["pool"])
    members = pool["members"].split(",")
    at = (int(pool.get("at", "-1")) + 1) % len(members)
    store.update("pools", args["pool"], {"at": at})
    return {"member": members[at]}
`

// What an error says is UTF-8, whatever a component says: clients cannot decode other text.
func TestFailuresAreText(t *testing.T) {
	r := newReplicas(t)
	r.must("n", upload("f", "def run(args): fail('there is no ' + args['pool'])"))
	_, err := r.do("n", asked{Ops: []Op{{Kind: Run, Component: "f", Columns: columns("pool", "\xff\xfe")}}})
	if err == nil || err.Code != ComponentFailed || !utf8.ValidString(err.Message) ||
		!strings.Contains(err.Message, "there is no ") {
		t.Errorf("failed with %+v", err)
	}
}

func upload(name, source string) Op { return Op{Kind: Upload, Component: name, Source: source} }

// A component is one transaction, beside the data, and goes on after a failover.
func TestComponent(t *testing.T) {
	r := newReplicas(t)
	r.must("n", Op{Kind: CreateTable, Table: "pools", Definition: &Definition{Columns: []string{"members", "at"}}},
		Op{Kind: Put, Table: "pools", Key: "p", Columns: columns("members", "a,b,c")})
	v := r.must("n", upload("robin", robin))[0].Version
	run := Op{Kind: Run, Component: "robin", Columns: columns("pool", "p")}
	for i, want := range []string{"a", "b", "c", "a"} {
		if i == 2 {
			r.fail()
		}
		out := r.must("n", run)[0]
		if !reflect.DeepEqual(out.Row, &Row{Columns: columns("member", want)}) {
			t.Errorf("run %d returns %+v, want %s", i, out.Row, want)
		}
	}
	if _, err := r.do("n", asked{Ops: []Op{run, {Kind: Run, Component: "robin", Columns: columns("pool", "q")}}}); err ==
		nil || err.Code != ComponentFailed || err.Op != 1 || !strings.Contains(err.Message, "robin: line 6: no pool q") {
		t.Errorf("a component that fails: %v", err)
	}
	if got := r.must("n", run)[0].Row; !reflect.DeepEqual(got.Columns, columns("member", "b")) {
		t.Errorf("after a refused transaction: %+v", got)
	}
	listed := r.must("n", Op{Kind: ListComponents})[0].Components
	if want := map[string]Component{"robin": {v, robin}}; !reflect.DeepEqual(listed, want) {
		t.Errorf("listed %+v", listed)
	}
	replaced := upload("robin", "def run(args): return 5")
	replaced.Condition = version(v)
	r.must("n", replaced)
	if _, err := r.do("n", asked{Ops: []Op{replaced}}); err == nil || err.Code != Conflict {
		t.Errorf("an upload over another one: %v", err)
	}
	if got := r.must("n", run)[0].Row; !reflect.DeepEqual(got, &Row{Columns: columns(DefaultColumn, "5")}) {
		t.Errorf("the new component returns %+v", got)
	}
	r.must("n", Op{Kind: RemoveComponent, Component: "robin"})
	if _, err := r.do("n", asked{Ops: []Op{run}}); err == nil || err.Code != NotFound {
		t.Errorf("a component that is removed: %v", err)
	}
	r.rows()
}

// An op sees tables and components as those before it in the same transaction have left them, also if an earlier
// transaction of the request, which had replaced them, was refused.
func TestReplacedInARequest(t *testing.T) {
	r := newReplicas(t)
	made := func(column string) []Op {
		return []Op{{Kind: CreateTable, Table: "t", Definition: &Definition{Columns: []string{column}}},
			upload("c", "def run(args): return store.put(\"t\", \"k\", {\""+column+"\": 1})"),
			{Kind: Run, Component: "c"}}
	}
	again := append([]Op{{Kind: Run, Component: "c"}, {Kind: Delete, Table: "t", Key: "k"},
		{Kind: DropTable, Table: "t"}}, made("b")...)
	refused := append(slices.Clone(again), Op{Kind: Get, Table: "t", Key: "none"})
	r.must("n", made("a")...)
	q := Request{Namespace: "n", Transactions: [][]Op{refused, {{Kind: Run, Component: "c"}}}}
	out := r.call(q.Append(nil))
	if why := out.Outcomes[0].Error; why == nil || why.Code != NotFound {
		t.Fatalf("the transaction to be refused: %v", why)
	}
	if why := out.Outcomes[1].Error; why != nil {
		t.Errorf("after it: %v", why)
	}
	r.must("n", again...)
	row := r.must("n", Op{Kind: Get, Table: "t", Key: "k"})[0].Row
	if !reflect.DeepEqual(row.Columns, columns("b", "1")) {
		t.Errorf("the row is %+v", row)
	}
}

// What components can do with rows.
func TestBeside(t *testing.T) {
	r := newReplicas(t)
	r.must("n", Op{Kind: CreateTable, Table: "hosts", Definition: &Definition{Columns: []string{"mac", "port"}}},
		Op{Kind: CreateTable, Table: "names", Definition: &Definition{Columns: []string{"host"}, RefersTo: "hosts"}},
		Op{Kind: CreateTable, Table: "counters"})
	for _, c := range []struct {
		body string
		want string // what it returns, or the code and message of the error
	}{
		{`return store.create("hosts", "h1", {"mac": "m1", "port": 7})`, "value=4"},
		{`return store.put("names", "n1", {"host": "h1"}, if_version=0)`, "value=5"},
		{`return store.get("hosts", "h1")`, "mac=m1 port=7"},
		{`return store.get("hosts", "h1", ["port"])`, "port=7"},
		{`return store.resolve("names", "n1", only=["mac"])`, "mac=m1"},
		{`return [store.version("hosts", "h1"), store.version("hosts", "h2")]`, "value=5; value=0"},
		{`return "%s %s" % (store.get("hosts", "h2"), store.resolve("names", "n2"))`, "value=None None"},
		{`return store.update("hosts", "h1", {"port": 8}, if_columns={"port": "7"})`, "value=6"},
		{`return store.add("counters", "c", 5) + store.add("counters", "c")`, "value=11"},
		{`store.put("hosts", "h2", {"mac": "m2"})`, ""},
		{`return [dict([("key", k)]) | row for k, row in store.list("hosts", prefix="h", limit=9)]`,
			"key=h1 mac=m1 port=8; key=h2 mac=m2"},
		{`return [k for k, _ in store.list("hosts", start="h1", end="h2")]`, "value=h1"},
		{`return store.delete("hosts", "h2", if_version=store.version("hosts", "h2"))`, "value=10"},
		{`return store.now_ms() > 1000000000`, "component: component c: the value of a column"},
		{`return store.update("hosts", "h1", {"port": 8}, if_version=3)`,
			"conflict: component c: the row has version 21, not 3"},
		{`store.check("hosts", "h1", if_columns={"port": 8})`, ""},
		{`store.check("hosts", "h9", if_version=0)`, ""},
		{`store.check("hosts", "h1", if_version=0)`, "conflict: component c: the row has version 21, not 0"},
		{`store.get("none", "k")`, `no_table: component c: there is no table "none" in namespace n`},
		{`store.list("hosts")
  store.list("hosts")`, "invalid: component c: a request has at most one"},
		{`store.get("hosts", "h1", 5)`, "component: component c: only of store.get cannot be a int"},
		{`store.get("hosts", "h1", key="h2")`, `component: component c: store.get has no parameter "key"`},
		{`store.get("hosts", "h1", [], 5)`, "component: component c: store.get has 3 parameters"},
		{`store.drop("hosts")`, "component: component c: there is no function store.drop"},
		{`store.get("hosts", "é"[1:])`, "component: component c: a name or key"},
		{`return {5: 6}`, "component: component c: 5 is not the name of a column"},
		{`x = (1,)
  for i in range(40): x = (x, x)
  store.get(x)`, "component: component c: the component needs too much"},
		{`x = "x" * 60000
  return {"c%d" % i: x for i in range(60)}`, "component: component c: a row has at most"},
		{`for i in range(30):
    for j in range(300):
      store.put("hosts", "k" * 500, {"mac": j})
      store.delete("hosts", "k" * 500)`, "component: component c: the component needs too much"},
		{`store.get((1,), "k")`, "component: component c: table of store.get cannot be a tuple"},
		{`store.check("", "k")`, "invalid: component c: "},
		{`return [0] * 2000`, "component: component c: it returns 2000 rows"},
		{`for i in range(1 << 40): store.add("counters", "c")`, "component: component c: the component needs too much"},
		{`return {"n": store.get("counters", "c")["value"]}`, "n=6"},
	} {
		out, err := r.do("n", asked{Ops: []Op{upload("c", "def run(args):\n  "+c.body+"\n"), {Kind: Run, Component: "c"},
			{Kind: RemoveComponent, Component: "c"}}})
		got := ""
		if err != nil {
			got = err.Code.String() + ": " + err.Message
		} else {
			got = flat(out.Results[1])
			r.must("n", Op{Kind: ListTables})
		}
		// Versions count the uploads too: these are left out.
		if ok := got == c.want || err != nil && strings.HasPrefix(got, c.want) ||
			strings.HasPrefix(c.want, "value=") && strings.HasPrefix(c.body, "return store.") && err == nil; !ok {
			t.Errorf("%s: %s, want %s", c.body, got, c.want)
		}
	}
	r.rows()
}

// flat returns the rows of a result as text.
func flat(r Result) string {
	rows := r.Rows
	if r.Row != nil {
		rows = []Row{*r.Row}
	}
	var all []string
	for _, row := range rows {
		var line []string
		for _, c := range row.Columns {
			line = append(line, c.Name+"="+string(c.Value))
		}
		all = append(all, strings.Join(line, " "))
	}
	return strings.Join(all, "; ")
}

// Components that need too much fail alone, and those of one request share what there is.
func TestComponentBounds(t *testing.T) {
	r := newReplicas(t)
	r.must("n", upload("endless", "def run(args):\n  for i in range(1 << 40): pass\n"),
		upload("long", "def run(args):\n  for i in range(10000): pass\n"))
	q := Request{Namespace: "n"}
	for range 8 {
		q.Transactions = append(q.Transactions, []Op{{Kind: Run, Component: "endless"}}, []Op{{Kind: Run, Component: "long"}})
	}
	codes := map[Code]int{}
	out := r.call(q.Append(nil))
	for _, o := range out.Outcomes {
		if o.Error == nil {
			codes[0]++
		} else {
			codes[o.Error.Code]++
		}
	}
	if codes[ComponentFailed] < 1 || codes[TooLarge] < 1 || codes[0] < 1 || out.Outcomes[1].Error != nil {
		t.Errorf("the outcomes are %v", codes)
	}
	many := Request{Namespace: "n"}
	for i := range 20 {
		many.Transactions = append(many.Transactions, []Op{upload(fmt.Sprint("many", i),
			"def run(args): pass\n#"+strings.Repeat("x", 16000))})
	}
	if got := r.call(many.Append(nil)).Outcomes; got[0].Error != nil || got[19].Error == nil ||
		got[19].Error.Code != TooLarge {
		t.Errorf("many uploads in one request: %+v", got[19])
	}
	for i, source := range []string{"def run(args)", strings.Repeat("x", MaxRequest/8), ""} {
		if _, err := r.do("n", asked{Ops: []Op{upload("bad", source)}}); err == nil || err.Code != Invalid {
			t.Errorf("source %d: %v", i, err)
		}
	}
	for range MaxComponents / 128 {
		var ops []Op
		for i := range 128 {
			ops = append(ops, upload(strings.Repeat("c", i+1), "def run(args): pass"))
		}
		if _, err := r.do("n", asked{Ops: ops}); err != nil {
			t.Fatal(err)
		}
	}
	for _, o := range []Op{{Kind: Run}, {Kind: Run, Component: "long", Table: "t"}, {Kind: Upload, Component: "a/b"},
		{Kind: Run, Component: "long", Source: "x"}, {Kind: ListComponents, Component: "x"},
		{Kind: Get, Table: "t", Key: "k", Component: "long"}} {
		if _, err := r.do("n", asked{Ops: []Op{o}}); err == nil || err.Code != Invalid {
			t.Errorf("%+v: %v", o, err)
		}
	}
}
