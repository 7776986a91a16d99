package config_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-sdn/holdfast/internal/config"
	"github.com/holdfast-sdn/holdfast/openflow"
)

var apps = []string{"hub", "learning"}

const three = `controllers:
  - name: c1
    peer: 127.0.0.1:7001
    openflow: 127.0.0.1:6653
    api: 127.0.0.1:8653
  - name: c2
    peer: 127.0.0.1:7002
    openflow: 127.0.0.1:6654
    api: 127.0.0.1:8654
  - name: c3
    id: 3
    peer: "[::1]:7003"
    openflow: localhost:6653
    api: 127.0.0.1:8655
`

const one = `controllers:
  - {name: c1, peer: "127.0.0.1:7001", openflow: "127.0.0.1:6653", api: "127.0.0.1:8653"}
`

func wantThree() *config.Cluster {
	return &config.Cluster{
		Controllers: []config.Controller{
			{Name: "c1", ID: 9494008935754, Peer: "127.0.0.1:7001", OpenFlow: "127.0.0.1:6653", API: "127.0.0.1:8653"},
			{Name: "c2", ID: 9493958604106, Peer: "127.0.0.1:7002", OpenFlow: "127.0.0.1:6654", API: "127.0.0.1:8654"},
			{Name: "c3", ID: 3, Peer: "[::1]:7003", OpenFlow: "localhost:6653", API: "127.0.0.1:8655"},
		},
		Name: "holdfast", Apps: []string{"learning"},
		Ryu: config.Ryu{Python: "python3", MemoryBytes: 1 << 30, LogLevel: 20},
		Recovery: config.Recovery{HoldDown: 5 * time.Second, Reconcile: time.Minute, MaxEntries: 1 << 16,
			MaxGroups: 1 << 12},
		BFD: config.BFD{Enabled: true, Database: "tcp:{address}:6640", Floor: 15 * time.Millisecond,
			Multiplier: 3},
		Durability: config.Disk, Data: "/var/lib/holdfast",
		Heartbeat: 10 * time.Millisecond, Election: 50 * time.Millisecond, SwitchTimeout: 3 * time.Second,
		HandlerTimeout: 5 * time.Second,
		AgentHeartbeat: 100 * time.Millisecond,
		Placement: config.Placement{Window: 10 * time.Second, Windows: 3, Threshold: 10, Cooldown: time.Minute,
			Load: 50_000},
	}
}

const databases = "write it like tcp:{address}:6640, ssl:{address}:6640 or unix:/run/{dpid}.sock"

func TestParse(t *testing.T) {
	full := wantThree()
	full.Apps = []string{"hub", "learning", "recovery"}
	full.Levels = map[string]map[string]string{"hub": {"packet_in": "unordered"}}
	full.Name = "lab"
	full.Durability, full.Data = config.Memory, "/tmp/hf"
	full.HandlerTimeout = 7 * time.Second
	full.Heartbeat, full.Election, full.SwitchTimeout = 20*time.Millisecond, 100*time.Millisecond, time.Second
	full.SwitchExpiry = 90 * time.Minute
	full.Recovery = config.Recovery{NodeDisjoint: true, HoldDown: 3 * time.Second, Reconcile: 100 * time.Millisecond,
		RemoveForeign: true, MaxEntries: 16, MaxGroups: 1}
	full.AgentHeartbeat = 50 * time.Millisecond
	full.Placement = config.Placement{Window: 2 * time.Second, Windows: 4, Threshold: 5, Load: 6}
	full.BFD = config.BFD{Database: "ssl:{address}:6641", Floor: 5 * time.Millisecond, Multiplier: 5}
	full.TLS = &config.TLS{CA: "/etc/hf/ca.pem", Cert: "/etc/hf/{name}.pem", Key: "/etc/hf/{name}-key.pem"}
	full.Deny = "/etc/hf/deny.txt"
	full.Admit = []config.Admitted{{Fingerprint: strings.Repeat("0a", 32), Role: "agent",
		Switches: []openflow.DatapathID{1, 0xa1}}, {Subject: "CN=s1,O=Acme", Role: "switch",
		Switches: []openflow.DatapathID{2}}}
	full.RefuseUnlisted = true
	full.Tracing = &config.Tracing{Endpoint: "https://collector:4318", OneIn: 50}
	full.StoreAccess = []config.StoreGrant{{Client: "a", Namespaces: []string{"n", "m*"}, Allow: []string{"read", "upload"}}}
	for _, tc := range []struct {
		name, text string
		want       *config.Cluster
	}{
		{"defaults", three, wantThree()},
		{"everything", three + "cluster: lab\napps: [hub, learning, recovery]\nlevels:\n  hub:\n    packet_in: " +
			"unordered\ndurability: memory\ndata: /tmp/hf\nheartbeat_ms: 20\nelection_ms: 100\nhandler_timeout_ms: 7000\nswitch_timeout_ms: " +
			"1000\nswitch_expiry_minutes: 90\nagent_heartbeat_ms: 50\nrecovery: {disjoint: node, hold_down_ms: 3000, reconcile_ms: 100, foreign: remove, max_entries: " +
			"16, max_groups: 1}\nplacement: {optimize: false, window_ms: 2000, windows: 4, " +
			"threshold: 5, " +
			"cooldown_ms: 0, load: 6}\nbfd: {enabled: false, database: \"ssl:{address}:6641\", floor_ms: 5, " +
			"multiplier: " +
			"5}\ntls:\n  ca: /etc/hf/ca.pem\n  cert: /etc/hf/{name}.pem\n  key: /etc/hf/{name}-key.pem\n  deny: /etc/hf/deny.txt\n  unlisted: refuse\n  admit:\n    - {fingerprint: \"" +
			strings.Repeat("0A:", 31) + "0A\", role: agent, switches: [\"00000000000000a1\", \"1\"]}\n" +
			"    - {subject: \"CN=s1,O=Acme\", switches: [\"0000000000000002\"]}\n" +
			"store:\n  access:\n    - {client: a, namespaces: [n, \"m*\"], allow: [read, upload]}\n" +
			"tracing: {endpoint: \"https://collector:4318\", one_in: 50}\n", full},
		{"databases follow TLS", three + "tls: {ca: ca.pem, cert: c.pem, key: k.pem}\n", func() *config.Cluster {
			s := wantThree()
			s.TLS, s.BFD.Database = &config.TLS{CA: "ca.pem", Cert: "c.pem", Key: "k.pem"}, "ssl:{address}:6640"
			return s
		}()},
		{"applications of Ryu", three + "apps: [hub, ryu.app.rest, learning, ./x/mine.py, /y/theirs.py]\nryu:\n  " +
			"python: /usr/bin/python3.11\n  options: [--observe-links]\n  path: [/opt/apps]\n  memory_mb: 256\n  " +
			"log_level: warning\n  files: [/etc/f.yaml, /etc/acls.yaml]\n  user: faucet\n", func() *config.Cluster {
			s := wantThree()
			s.Apps = []string{"hub", "ryu", "learning"}
			s.Ryu = config.Ryu{Applications: []string{"ryu.app.rest", filepath.Join(here(t), "x/mine.py"),
				"/y/theirs.py"}, Python: "/usr/bin/python3.11",
				Options: []string{"--observe-links"}, Path: []string{"/opt/apps"}, MemoryBytes: 256 << 20, LogLevel: 30,
				Files: []string{"/etc/f.yaml", "/etc/acls.yaml"}, User: "faucet"}
			return s
		}()},
		{"trust on first use", three + "tls: {ca: ca.pem, cert: c.pem, key: k.pem, unlisted: first-use}\n",
			func() *config.Cluster {
				s := wantThree()
				s.TLS, s.BFD.Database = &config.TLS{CA: "ca.pem", Cert: "c.pem", Key: "k.pem"}, "ssl:{address}:6640"
				s.FirstUse = true
				return s
			}()},
		{"addresses that others reach", strings.Replace(three, "localhost", "sdn3.example.org", 1) + "insecure: true\n",
			func() *config.Cluster {
				s := wantThree()
				s.Controllers[2].OpenFlow, s.Insecure = "sdn3.example.org:6653", true
				return s
			}()},
		{"alias", strings.Replace(three, "api: 127.0.0.1:8655", "api: &a 127.0.0.1:8655", 1) + "data: *a\n",
			func() *config.Cluster {
				s := wantThree()
				s.Data = "127.0.0.1:8655"
				return s
			}()},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := config.Parse("cluster.yaml", []byte(tc.text), append(slices.Clone(apps), "recovery"))
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Errorf("cluster (-want +got):\n%s", d)
			}
		})
	}
}

// here is the folder of a cluster file that has a plain name.
func here(t *testing.T) string {
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestIDsDoNotDependOnOrder(t *testing.T) {
	cluster, err := config.Parse("cluster.yaml", []byte(three), apps)
	if err != nil {
		t.Fatal(err)
	}
	head, body, _ := strings.Cut(three, "\n")
	items := strings.SplitAfter(body, "8653\n")
	reordered, err := config.Parse("cluster.yaml", []byte(head+"\n"+items[1]+items[0]), apps)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cluster.Controllers {
		if got, ok := reordered.Controller(c.Name); !ok || got != c {
			t.Errorf("controller %s is %+v in the reordered file, was %+v", c.Name, got, c)
		}
	}
	if _, ok := cluster.Controller("c4"); ok {
		t.Error("found a controller that is not there")
	}
	if got := cluster.DataDir(cluster.Controllers[1]); got != "/var/lib/holdfast/c2" {
		t.Errorf("data folder is %s", got)
	}
}

func TestMistakes(t *testing.T) {
	edit := func(old, new string) string {
		if !strings.Contains(three, old) {
			t.Fatalf("no %q in the good file", old)
		}
		return strings.Replace(three, old, new, 1)
	}
	const exposed = "can be reached by other machines, and there is no tls: whoever reaches it can be a switch, or " +
		"change the cluster; add `tls:` (holdfast pki makes the certificates), use a loopback address, or write " +
		"`insecure: true` if only machines that you trust reach it"
	const files = "tls: {ca: a, cert: b, key: c}\n"
	for _, tc := range []struct{ name, text, want string }{
		{"empty", "", "f: the file is empty; begin with a list `controllers:`"},
		{"only comments", "# nothing\n", "f: the file is empty; begin with a list `controllers:`"},
		{"null", "~\n", "f: the file is empty; begin with a list `controllers:`"},
		{"not a mapping", "- a\n", "f:1: the file is a list; write `key: value` lines"},
		{"no controllers", "apps: [hub]\n", "f:1: no controllers; add a list `controllers:` with name, peer, " +
			"openflow and api of each"},
		{"no controller", "controllers: []\n", "f:1: no controllers; add at least one, better three, each with " +
			"name, peer, openflow and api"},
		{"controllers not a list", "controllers:\n  name: c1\n",
			"f:2: controllers is a mapping; write a list: lines that begin with `- `"},
		{"controller not a mapping", "controllers: [c1]\n",
			"f:1: a controller is the text \"c1\"; write `key: value` lines"},
		{"two controllers", strings.Join(strings.SplitAfter(three, "\n")[:9], ""),
			"f:2: 2 controllers survive no more failures than 1; use 1 or 3: an odd number"},
		{"tab", one + "apps:\n\t- hub\n", "f:4: a tab in the indentation; YAML wants spaces"},
		{"syntax", one + "data: [a\nheartbeat_ms: 3\n",
			"f:3: not YAML: did not find expected ',' or ']'; look at the indentation, colons and quotes around here"},
		{"missing colon", one + "data: x\napps\ndurability: disk\n",
			"f:4: not YAML: could not find expected ':'; look at the indentation, colons and quotes around here"},
		{"bad indentation", one + "apps:\n  - hub\n - learning\n",
			"f:5: not YAML: did not find expected key; look at the indentation, colons and quotes around here"},
		{"bad alias", one + "data: *a\n", "f: not YAML: unknown anchor 'a' referenced; look at the indentation, " +
			"colons and quotes around here"},
		{"two documents", one + "---\n" + one, "f:3: a second document; remove the line `---` before it"},
		{"too large", one + strings.Repeat("#\n", config.MaxFile/2),
			"f: larger than 1048576 bytes; is this the right file?"},
		{"unknown key", one + "hartbeat_ms: 3\n",
			`f:3: unknown key "hartbeat_ms"; did you mean "heartbeat_ms"? (known: cluster, controllers, apps, levels, ryu, recovery, bfd, groups, replication, durability, data, heartbeat_ms, election_ms, switch_timeout_ms, switch_expiry_minutes, handler_timeout_ms, agent_heartbeat_ms, placement, tls, insecure, tokens, store, tracing)`},
		{"unknown key, nothing near", one + "colour: red\n",
			`f:3: unknown key "colour"; known: cluster, controllers, apps, levels, ryu, recovery, bfd, groups, replication, durability, data, heartbeat_ms, election_ms, switch_timeout_ms, switch_expiry_minutes, handler_timeout_ms, agent_heartbeat_ms, placement, tls, insecure, tokens, store, tracing`},
		{"unknown key of a controller", edit("    openflow: 127", "    openflw: 127"),
			`f:4: unknown key "openflw"; did you mean "openflow"? (known: name, peer, openflow, api, rest, id)`},
		{"key twice", one + "data: a\ndata: b\n", `f:4: key "data" is already in line 3; remove one`},
		{"no name", edit("- name: c1\n    peer", "- peer"), "f:2: a controller without name; add `name:`"},
		{"no api", edit("    api: 127.0.0.1:8653\n", ""), "f:2: a controller without api; add `api:`"},
		{"empty value", edit("peer: 127.0.0.1:7001", "peer:"),
			"f:3: peer is empty; write a text; quote it if it looks like a number"},
		{"bad name", edit("name: c1", "name: C/1"),
			`f:2: name "C/1"; use at most 63 of a-z, 0-9, - and _, beginning with a letter or digit`},
		{"number as name", edit("name: c1", "name: 17"),
			"f:2: name is 17 (int); write a text; quote it if it looks like a number"},
		{"name twice", edit("name: c2", "name: c1"), "f:6: name c1 is already that of line 2; give each its own"},
		{"address twice", edit("127.0.0.1:8654", "127.0.0.1:7001"),
			"f:9: address 127.0.0.1:7001 is already that of line 3; give each its own"},
		{"id twice", edit("name: c2", "name: c2\n    id: 3"),
			"f:12: id 3 is already that of line 7; give each its own"},
		{"id 0", edit("id: 3", "id: 0"), "f:11: id is 0; write a whole number from 1 to 281474976710653"},
		{"id collides with a derived one", edit("id: 3", "id: 9494008935754"),
			"f:11: id 9494008935754 is already that of line 2; give each its own"},
		{"no port", edit("127.0.0.1:7001", "127.0.0.1"),
			`f:3: peer address "127.0.0.1" is not host:port; write it like 127.0.0.1:7001 or [::1]:7001`},
		{"port 0", edit("127.0.0.1:7001", "127.0.0.1:0"),
			`f:3: peer address "127.0.0.1:0" has no port from 1 to 65535; write it like 127.0.0.1:7001`},
		{"port too large", edit("127.0.0.1:6653", "127.0.0.1:66530"),
			`f:4: openflow address "127.0.0.1:66530" has no port from 1 to 65535; write it like 127.0.0.1:7001`},
		{"wildcard", edit("127.0.0.1:8653", "0.0.0.0:8653"),
			`f:5: api address "0.0.0.0:8653" cannot be dialled; name the address of one interface: others use it too`},
		{"no host", edit("127.0.0.1:8653", "\":8653\""),
			`f:5: api address ":8653" cannot be dialled; name the address of one interface: others use it too`},
		{"bad host", edit("127.0.0.1:8653", "127.0.0.256:8653"),
			`f:5: api address "127.0.0.256:8653" has no valid host; use an IP address or a host name`},
		{"a host without TLS", edit("localhost:6653", "sdn3.example.org:6653"), `f:13: openflow address ` +
			`"sdn3.example.org:6653" ` + exposed},
		{"an address without TLS", edit("127.0.0.1:8653", "10.0.0.1:8653") + "insecure: false\n",
			`f:5: api address "10.0.0.1:8653" ` + exposed},
		{"insecure with TLS", one + files + "insecure: true\n", "f:4: insecure: true, and tls; remove one of them"},
		{"unknown app", one + "apps: [learnin]\n",
			`f:3: unknown app "learnin"; did you mean "learning"? (known: hub, learning); an application of ` +
				`your own is in your program: use that in place of holdfast`},
		{"app twice", one + "apps:\n- hub\n- hub\n", `f:5: app "hub" twice; remove one`},
		{"no apps", one + "apps: []\n", "f:3: no apps; name at least one, or leave `apps` out for the default"},
		{"module twice", one + "apps:\n- a.b\n- a.b\n", `f:5: app "a.b" twice; remove one`},
		{"app in a home folder", one + "apps: [~/a.py]\n",
			`f:3: app "~/a.py": nothing replaces the ~; write the whole path`},
		{"memory of a host", one + "ryu: {memory_mb: 1}\n",
			"f:3: memory_mb is 1; write a whole number from 64 to 1048576"},
		{"log level of ryu", one + "ryu: {log_level: warn}\n",
			`f:3: unknown log_level "warn"; known: debug, error, info, warning`},
		{"options of ryu", one + "ryu: {options: --verbose}\n",
			"f:3: options is the text \"--verbose\"; write a list: lines that begin with `- `"},
		{"files of ryu", one + "ryu: {files: [/etc/f.yaml, acls.yaml]}\n",
			`f:3: files: "acls.yaml"; write the whole path, as /etc/faucet/faucet.yaml`},
		{"apps not a list", one + "apps: hub\n", "f:3: apps is the text \"hub\"; write a list: lines that begin " +
			"with `- `"},
		{"groups", one + "groups: 3\n", `f:3: groups is 3 (int); write 1, or per-controller`},
		{"placement in one group", one + "placement: {optimize: true}\n",
			"f:3: the placement is to be optimized, and " +
				"there is one group; write groups: per-controller, or remove this section"},
		{"access without TLS", one + "store:\n  access:\n    - {client: a, namespaces: [n], allow: [read]}\n",
			"f:4: store.access without tls and tokens: clients are known by certificates or tokens; add `tls` or " +
				"`tokens`, or remove this section"},
		{"access without rules", one + files + "store: {access: []}\n",
			"f:4: store.access has no rules, so nobody or everybody may do everything; add rules, " +
				"or remove this section: then every client may do everything"},
		{"store without access", one + files + "store: {}\n",
			"f:4: store.access has no rules, so nobody or everybody may do everything; add rules, " +
				"or remove this section: then every client may do everything"},
		{"access to nothing", one + files + "store:\n  access: [{client: a, allow: [read]}]\n",
			"f:5: a rule of access is not complete; write client, namespaces and allow"},
		{"unknown right", one + files + "store:\n  access: [{client: a, namespaces: [n], allow: [reed]}]\n",
			`f:5: unknown right "reed"; did you mean "read"? (known: read, write, upload)`},
		{"placement without windows", one + "placement: {windows: 0}\n",
			"f:3: windows is 0; write a whole number from 1 to 1000"},
		{"replication of one group", one + "replication: 1\n",
			"f:3: replication is configured, and one group has a replica on each controller; write groups: " +
				"per-controller, or remove this line"},
		{"too many replicas", one + "groups: per-controller\nreplication: 3\n",
			"f:4: replication is 3, and there are 1 controllers; write an odd number up to that, or remove this line"},
		{"even replication", three + "groups: per-controller\nreplication: 2\n",
			"f:16: 2 replicas survive no more failures than 1; write 1 or 3: an odd number"},
		{"no replication", one + "groups: per-controller\nreplication: 0\n",
			"f:4: replication is 0; write a whole number from 1 to 99"},
		{"durability", one + "durability: disc\n",
			`f:3: unknown durability "disc"; did you mean "disk"? (known: disk, memory)`},
		{"wrong type", one + "heartbeat_ms: 10ms\n",
			`f:3: heartbeat_ms is the text "10ms"; write a whole number from 1 to 10000`},
		{"fraction", one + "heartbeat_ms: 1.5\n", "f:3: heartbeat_ms is 1.5 (float); write a whole number from 1 " +
			"to 10000"},
		{"negative", one + "heartbeat_ms: -1\n", "f:3: heartbeat_ms is -1; write a whole number from 1 to 10000"},
		{"a handler without time", one + "handler_timeout_ms: 99\n",
			"f:3: handler_timeout_ms is 99; write a whole number from 100 to 3600000"},
		{"an admitted certificate without switches", one + "tls: {ca: a, cert: b, key: c, admit: [{subject: x}]}\n",
			"f:3: a certificate that is admitted is not complete; write fingerprint or subject, and switches: the datapath " +
				"ids that it may use"},
		{"a fingerprint that is none", one + "tls: {ca: a, cert: b, key: c, admit: [{fingerprint: xy}]}\n",
			"f:3: fingerprint \"xy\"; write the SHA-256 that `openssl x509 -noout -fingerprint -sha256 -in FILE` prints: " +
				"64 hexadecimal digits"},
		{"what unlisted is not", one + "tls: {ca: a, cert: b, key: c, unlisted: no way}\n",
			"f:3: unknown unlisted \"no way\"; known: accept, refuse, first-use"},
		{"out of range", one + "switch_timeout_ms: 1\n",
			"f:3: switch_timeout_ms is 1; write a whole number from 100 to 3600000"},
		{"tracing to nowhere", one + "tracing: {one_in: 5}\n",
			"f:3: tracing has no endpoint; write endpoint: http://127.0.0.1:4318, the address of the collector"},
		{"tracing to no URL", one + "tracing: {endpoint: \"127.0.0.1:4318\"}\n",
			`f:3: endpoint is "127.0.0.1:4318"; write a URL like http://127.0.0.1:4318`},
		{"tracing one of none", one + "tracing: {endpoint: \"http://a\", one_in: 0}\n",
			"f:3: one_in is 0; write a whole number from 1 to 1000000000"},
		{"heartbeats too rare", one + "agent_heartbeat_ms: 2000\n",
			"f:3: agent_heartbeat_ms is 2000; write a whole number from 10 to 1000"},
		{"list for a number", one + "election_ms: [1]\n",
			"f:3: election_ms is a list; write a whole number from 3 to 60000"},
		{"election too short", one + "heartbeat_ms: 20\nelection_ms: 59\n",
			"f:4: election_ms 59 is less than 3 heartbeats of 20 ms; set election_ms to 60 or more, or lower " +
				"heartbeat_ms"},
		{"cluster with a space", one + "cluster: my lab\n",
			`f:3: cluster "my lab"; use at most 63 of a-z, 0-9, - and _, beginning with a letter or digit`},
		{"home folder", one + "data: ~/holdfast\n",
			`f:3: data "~/holdfast": nothing replaces the ~; write the whole path`},
		{"levels of an unknown app", one + "levels: {hubb: {packet_in: ordered}}\n",
			`f:3: unknown key "hubb"; did you mean "hub"? (known: hub, learning)`},
		{"recovery without the application", one + "recovery: {disjoint: node}\n",
			"f:3: recovery is configured, and is not among the apps; write apps: [recovery], or remove this section"},
		{"an address for REST at one controller", strings.Replace(three, "    id: 3\n", "    rest: 127.0.0.1:8080\n",
			1),
			"f:2: controller c1 has no rest, and controller c3 has; add `rest:` to each controller, or to none: the " +
				"leader answers, and any controller can lead"},
		{"hold-down shorter than BFD agrees", one + "recovery: {hold_down_ms: 2999}\n",
			"f:3: hold_down_ms is 2999; write a whole number from 3000 to 3600000"},
		{"unknown protection", one + "recovery: {disjoint: nodes}\n",
			`f:3: unknown disjoint "nodes"; did you mean "node"? (known: link, node)`},
		{"BFD neither on nor off", one + "bfd: {enabled: maybe}\n",
			`f:3: enabled is the text "maybe"; write true or false`},
		{"floor of 0", one + "bfd: {floor_ms: 0}\n", "f:3: floor_ms is 0; write a whole number from 1 to 10000"},
		{"one lost packet is a dead link", one + "bfd: {multiplier: 1}\n",
			"f:3: multiplier is 1; write a whole number from 2 to 255"},
		{"database of no kind", one + "bfd: {database: \"{address}:6640\"}\n",
			`f:3: database "{address}:6640" is neither tcp:, ssl: nor unix:; ` + databases},
		{"database without a port", one + "bfd: {database: \"tcp:{address}\"}\n",
			`f:3: database "tcp:{address}" is not host:port; ` + databases},
		{"database with port 0", one + "bfd: {database: \"tcp:{address}:0\"}\n",
			`f:3: database "tcp:{address}:0" has no port from 1 to 65535; ` + databases},
		{"database without a file", one + "bfd: {database: \"unix:\"}\n",
			`f:3: database "unix:" names no file; ` + databases},
		{"what stands for nothing", one + "bfd: {database: \"unix:/run/{name}.sock\"}\n",
			`f:3: database "unix:/run/{name}.sock" has {name}, which stands for nothing; ` + databases},
		{"TLS without certificates", one + "bfd: {database: \"ssl:{address}:6640\"}\n",
			"f:3: database \"ssl:{address}:6640\", and no certificates; add `tls:` with the files ca, cert and key"},
		{"unknown key of recovery", one + "recovery: {holddown_ms: 5000}\n",
			`f:3: unknown key "holddown_ms"; did you mean "hold_down_ms"? (known: disjoint, hold_down_ms, reconcile_ms, foreign, max_entries, max_groups)`},
		{"levels without messages", one + "levels: {hub: ordered}\n",
			"f:3: levels of hub are not `message: level` lines; write them like packet_in: unordered"},
		{"tls is no mapping", one + "tls: on\n", "f:3: tls is the text \"on\"; write `key: value` lines"},
		{"tls without a key", one + "tls: {ca: a, cert: b}\n",
			"f:3: tls without key; name the files ca, cert and key, or leave `tls` out for plain TCP"},
		{"tls with an unknown key", one + "tls: {ca: a, crt: b}\n",
			`f:3: unknown key "crt"; did you mean "cert"? (known: ca, cert, key, deny, admit, unlisted)`},
		{"tls in a home folder", one + "tls: {ca: ~/ca.pem, cert: b, key: c}\n",
			`f:3: ca "~/ca.pem": nothing replaces the ~; write the whole path`},
		{"tls with one name", one + "tls:\n  ca: a\n  cert: '{name}.pem'\n  key: c\n",
			"f:4: only one of cert and key has {name} in its path; write it in both, or in none"},
		{"election between heartbeats", one + "heartbeat_ms: 20\nelection_ms: 70\n",
			"f:4: election_ms 70 is no multiple of heartbeat_ms 20; set election_ms to 80"},
		{"election too short by default", one + "heartbeat_ms: 20\n",
			"f:3: election_ms 50 is less than 3 heartbeats of 20 ms; set election_ms to 60 or more, or lower " +
				"heartbeat_ms"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cluster, err := config.Parse("f", []byte(tc.text), apps)
			if err == nil {
				t.Fatalf("accepted: %+v", cluster)
			}
			if err.Error() != tc.want {
				t.Errorf("error:\n got %s\nwant %s", err, tc.want)
			}
		})
	}
}

func TestTLSFilesOfAProcess(t *testing.T) {
	named := config.TLS{CA: "ca.pem", Cert: "tls/{name}.pem", Key: "tls/{name}-key.pem"}
	if got, want := named.Of("c1"), (config.TLS{CA: "ca.pem", Cert: "tls/c1.pem", Key: "tls/c1-key.pem"}); got != want {
		t.Errorf("files of c1 are %+v, want %+v", got, want)
	}
	fixed := config.TLS{CA: "ca.pem", Cert: "cert.pem", Key: "key.pem"}
	if got := fixed.Of("c1"); got != fixed {
		t.Errorf("files of c1 are %+v, want %+v", got, fixed)
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "cluster.yaml")
	if err := os.WriteFile(path, []byte(three), 0o600); err != nil {
		t.Fatal(err)
	}
	cluster, err := config.Load(path, apps)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(wantThree(), cluster); d != "" {
		t.Errorf("cluster (-want +got):\n%s", d)
	}

	_, err = config.Load(path+".yml", apps)
	if want := path + ".yml: cannot open: no such file or directory; name an existing file that you may read"; err == nil || err.Error() != want {
		t.Errorf("missing file: got %v, want %s", err, want)
	}
	_, err = config.Load(dir, apps)
	if want := dir + ": cannot read: is a directory; name a file that you may read"; err == nil || err.Error() != want {
		t.Errorf("folder: got %v, want %s", err, want)
	}
}

// Whatever the bytes, Parse answers with a checked cluster or with one line that names the file.
func FuzzParse(f *testing.F) {
	f.Add([]byte(three))
	f.Add([]byte(one + "heartbeat_ms: &x [*x]\n"))
	f.Add([]byte("controllers: &x\n- *x\n? {a: b}\n: c\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		cluster, err := config.Parse("f", text, apps)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "f:") || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %q", err)
			}
			return
		}
		if len(cluster.Controllers)%2 == 0 || len(cluster.Apps) == 0 || cluster.Election < 3*cluster.Heartbeat {
			t.Errorf("accepted %+v", cluster)
		}
	})
}
