package firewall

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/app/apptest"
	"github.com/holdfast-sdn/holdfast/network/protect"
	"github.com/holdfast-sdn/holdfast/openflow/packet"
)

// The addresses and prefixes are few, so that random frames meet random rules.
var (
	addresses = []string{"10.0.0.1", "10.0.0.2", "10.0.1.1", "192.168.9.9", "2001:db8::1", "2001:db8:1::1", "fe80::1"}
	prefixes  = []string{"", "", "10.0.0.0/8", "10.0.0.0/24", "10.0.0.1/32", "0.0.0.0/0", "2001:db8::/32",
		"2001:db8:1::/48", "::/0"}
	ranges = []string{"", "", "80", "1-1023", "1000-2000", "1-65535", "65535", "7-7", "443-8080"}
	ports  = []uint16{1, 7, 79, 80, 81, 443, 999, 1000, 1023, 1024, 2000, 2001, 8080, 8081, 65535}
)

func randomRule(t *rapid.T) (r Rule) {
	r.Action = rapid.SampledFrom([]string{"allow", "deny"}).Draw(t, "action")
	r.Protocol = rapid.SampledFrom([]string{"", "", "tcp", "udp", "icmp", "icmpv6", "arp", "lldp", "ipv4", "ipv6",
		"89"}).Draw(t, "protocol")
	if r.Protocol != "arp" && r.Protocol != "lldp" {
		r.Source = rapid.SampledFrom(prefixes).Draw(t, "source")
		r.Destination = rapid.SampledFrom(prefixes).Draw(t, "destination")
	}
	if r.Protocol == "tcp" || r.Protocol == "udp" {
		r.SourcePorts = rapid.SampledFrom(ranges).Draw(t, "source ports")
		r.DestinationPorts = rapid.SampledFrom(ranges).Draw(t, "destination ports")
	}
	if rapid.Bool().Draw(t, "has a VLAN") {
		v := rapid.SampledFrom([]uint16{0, 10}).Draw(t, "VLAN")
		r.VLAN = &v
	}
	if rapid.Bool().Draw(t, "has a switch") {
		r.Switch = app.Switch(rapid.IntRange(1, 2).Draw(t, "switch")).String()
		r.Port = app.Port(rapid.IntRange(0, 2).Draw(t, "port"))
	}
	return r
}

// randomList leaves out rules that match nothing: they are refused.
func randomList(t *rapid.T, c Config) (l List) {
	l.Default = rapid.SampledFrom([]string{"allow", "deny"}).Draw(t, "default")
	for range rapid.IntRange(0, 6).Draw(t, "rules") {
		if r := randomRule(t); (&List{Default: "deny", Rules: []Rule{r}}).valid(c) {
			l.Rules = append(l.Rules, r)
		}
	}
	return l
}

func (l *List) valid(c Config) bool { _, err := l.compile(c, nil); return err == nil }

func randomFrame(t *rapid.T) (f frame) {
	f.in = app.Port(rapid.IntRange(1, 3).Draw(t, "in"))
	f.vlan = rapid.SampledFrom([]uint16{0, 10, 11, protect.DetourVLAN}).Draw(t, "tag")
	f.src = netip.MustParseAddr(rapid.SampledFrom(addresses).Draw(t, "src"))
	same := slices.DeleteFunc(slices.Clone(addresses), func(a string) bool {
		return netip.MustParseAddr(a).Is4() != f.src.Is4()
	})
	f.dst = netip.MustParseAddr(rapid.SampledFrom(same).Draw(t, "dst"))
	protocols := []string{"tcp", "udp", "icmp", "ospf", "arp", "lldp"}
	if f.src.Is6() {
		protocols = []string{"tcp", "udp", "icmpv6", "ospf"}
	}
	f.protocol = rapid.SampledFrom(protocols).Draw(t, "protocol of a frame")
	if f.ported() {
		f.from, f.to = rapid.SampledFrom(ports).Draw(t, "from"), rapid.SampledFrom(ports).Draw(t, "to")
	}
	return f
}

// A switch decides as the list does. After each single command, also when the list changes, or the switch comes back
// with what it had or with what others had installed, it decides about all frames by one list that was valid, or drops
// all of them.
func TestDecidesAsTheList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, rapid.SampledFrom([]uint64{1, 3}).Draw(t, "groups"), Config{rapid.Bool().Draw(t, "detours")})
		var frames []frame
		for range 30 {
			frames = append(frames, randomFrame(t))
		}
		nothing := &List{Default: "deny"}
		valid := map[app.Switch][]*List{1: {nothing}, 2: {nothing}}
		var mismatch string
		agrees := func(id app.Switch, l *List) bool {
			for i := range frames {
				if w.passes(id, &frames[i]) != decides(l, id, &frames[i]) {
					mismatch = fmt.Sprintf("%+v %v", frames[i], *l)
					return false
				}
			}
			return true
		}
		w.after = func(id app.Switch) {
			if !slices.ContainsFunc(valid[id], func(l *List) bool { return agrees(id, l) }) {
				t.Fatalf("switch %v decides by none of %d lists that it may have", id, len(valid[id]))
			}
		}
		newest := nothing
		for id := app.Switch(1); id <= 2; id++ {
			w.boot(id, 0)
			w.up(id)
		}
		for range rapid.IntRange(1, 4).Draw(t, "changes") {
			id := app.Switch(rapid.IntRange(1, 2).Draw(t, "of switch"))
			switch rapid.SampledFrom([]string{"list", "lists", "restart", "reconnect"}).Draw(t, "change") {
			case "lists": // the second one is sent before the first is installed
				var sent []apptest.Sent
				for range 2 {
					l := randomList(t, w.config)
					w.put(l)
					newest = &l
					sent = append(sent, w.net.Advance(10)...)
					valid = map[app.Switch][]*List{1: append(valid[1], &l), 2: append(valid[2], &l)}
				}
				w.do(sent)
			case "list":
				l := randomList(t, w.config)
				w.put(l)
				newest = &l
				valid = map[app.Switch][]*List{1: append(valid[1], &l), 2: append(valid[2], &l)}
				w.do(nil)
			case "restart":
				w.net.SwitchDown(id)
				w.boot(id, 0)
				valid[id] = append(valid[id], nothing)
				w.up(id)
			case "reconnect":
				w.net.SwitchDown(id)
				valid[id] = append(valid[id], nothing)
				w.up(id)
			}
			for id := app.Switch(1); id <= 2; id++ {
				if !agrees(id, newest) {
					t.Fatalf("switch %v does not decide as the list: %s %+v", id, mismatch, w.status(id))
				}
				valid[id] = []*List{newest}
			}
		}
	})
}

// A switch that has no room for a list keeps the one before, and says so.
func TestNoRoom(t *testing.T) {
	w := newWorld(t, 1, Config{})
	w.boot(1, 20)
	w.up(1)
	web := Rule{Action: "allow", Class: packet.Class{Protocol: "tcp", DestinationPorts: "80"}}
	w.put(List{Default: "deny", Rules: []Rule{web}})
	w.do(nil)
	many := web
	many.DestinationPorts = "1-65534"
	w.put(List{Default: "deny", Rules: []Rule{many}})
	w.do(nil)
	f := frame{in: 1, protocol: "tcp", src: netip.MustParseAddr("10.0.0.1"), dst: netip.MustParseAddr("10.0.0.2"), to: 81}
	if s := w.status(1); s.Version != 1 || s.Installing != 0 || s.Refused == "" || w.passes(1, &f) {
		t.Errorf("the status is %+v, and a frame that the first list forbids passes: %v", s, w.passes(1, &f))
	}
	if f.to, f.data = 80, nil; !w.passes(1, &f) {
		t.Error("the first list is gone")
	}
	w.put(List{Default: "allow"})
	w.do(nil)
	if s := w.status(1); s.Version != 3 || s.Refused != "" {
		t.Errorf("after a list for which there is room: %+v", s)
	}
}

// What a switch refuses of a list that was given up is not about the next one, for which it has room.
func TestGivenUpListIsRefused(t *testing.T) {
	w := newWorld(t, 1, Config{})
	w.boot(1, 20)
	w.up(1)
	large := List{Default: "deny"}
	for i := range 30 {
		to := fmt.Sprintf("10.0.0.%d", i+1)
		large.Rules = append(large.Rules, Rule{Action: "allow", Class: packet.Class{Destination: to}})
	}
	w.put(large)
	sent := w.net.Advance(10)
	w.put(List{Default: "allow"})
	w.do(append(sent, w.net.Advance(10)...))
	if s := w.status(1); s.Version != 2 || s.Refused != "" {
		t.Errorf("status %+v, want version 2", s)
	}
}

// Nothing passes without a list.
func TestWithoutAList(t *testing.T) {
	w := newWorld(t, 1, Config{})
	w.boot(1, 0)
	w.up(1)
	if f := (frame{in: 1, protocol: "arp"}); w.passes(1, &f) || w.status(1) != (Status{}) {
		t.Errorf("a frame passes, or the status is wrong: %+v", w.status(1))
	}
	if r := w.net.Call(w.app, "GET /list", app.Request{}); r.Status != 404 {
		t.Errorf("the list is %d %s", r.Status, r.Body)
	}
}

func TestList(t *testing.T) {
	a := New(Config{})
	net := apptest.New(t, a)
	good := `{"default":"deny","rules":[{"action":"allow","protocol":"arp"},` +
		`{"action":"allow","protocol":"tcp","destination":"10.0.0.0/8","destination_ports":"1-1023"},` +
		`{"action":"deny","vlan":0,"switch":"2a","port":3}]}`
	if r := net.Call(a, "PUT /list", app.Request{Body: []byte(good)}); string(r.Body) != `{"version":1}` {
		t.Errorf("%d %s", r.Status, r.Body)
	}
	if r := net.Call(a, "GET /list", app.Request{}); string(r.Body) != good {
		t.Errorf("%d %s, want %s", r.Status, r.Body, good)
	}
	wide := Rule{Action: "deny", Class: packet.Class{Protocol: "tcp", SourcePorts: "1-65534", DestinationPorts: "1-65534"}}
	large, err := json.Marshal(List{Default: "deny", Rules: slices.Repeat([]Rule{wide}, 3)})
	if err != nil {
		t.Fatal(err)
	}
	long := fmt.Sprintf(`{"default": "deny", "rules": [{}%s]}`, strings.Repeat(",{}", MaxRules))
	rule := func(text string) string { return `{"default": "deny", "rules": [{"action": "deny", ` + text + `}]}` }
	for body, want := range map[string]string{
		"{":                     "not valid",
		good + good:             "send one value",
		long:                    "at most 1024",
		string(large):           "rule 3: the list needs more than 4096",
		`{}`:                    `action "": use allow or deny`,
		rule(`"port": 1`):       "name its switch",
		rule(`"switch": "s1"`):  `switch "s1"`,
		rule(`"sorce": "::"`):   `unknown field "sorce"`,
		rule(`"protocol": "x"`): `rule 1`,
		rule(`"switch": "1", "port": 4294967295`): "a number up to",
	} {
		if r := net.Call(a, "PUT /list", app.Request{Body: []byte(body)}); r.Status != 400 ||
			!strings.Contains(string(r.Body), want) {
			t.Errorf("%.80s: %d %s, want %q", body, r.Status, r.Body, want)
		}
	}
}

// Beside recovery, which uses a VLAN for detours, a list decides about what is beneath that, and not about VLANs.
func TestDetours(t *testing.T) {
	a := New(Config{Detours: true})
	net := apptest.New(t, a)
	vlan := `{"default": "allow", "rules": [{"action": "deny", "vlan": 0}]}`
	if r := net.Call(a, "PUT /list", app.Request{Body: []byte(vlan)}); r.Status != 400 ||
		!strings.Contains(string(r.Body), "rule 1 (the one after the last is the default): vlan 0: recovery sends") {
		t.Errorf("%d %s", r.Status, r.Body)
	}
	entries, err := (&List{Default: "allow"}).compile(Config{Detours: true}, nil)
	if err != nil || len(entries) != 3 || len(entries[0].Instructions) > 0 || entries[0].Priority <= entries[2].Priority {
		t.Errorf("%v %v: want two entries that drop frames with a tag beneath that of a detour", entries, err)
	}
}
