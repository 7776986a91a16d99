package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// parser fills in cluster from one file. Its methods stop at the first mistake.
type parser struct {
	file    string
	apps    []string
	cluster Cluster

	// where they stand, if they do
	heartbeatNode, electionNode, databaseNode, recoveryNode, replicationNode *yaml.Node
	placementNode, storeNode, insecureNode                                   *yaml.Node

	exposed error // the first address that other machines may reach, if there is no TLS
}

func (p *parser) parse(text []byte) error {
	root, err := p.document(text)
	if err != nil {
		return err
	}
	s := &p.cluster
	var controllers *yaml.Node
	err = p.mapping(root, "the file", []field{
		{"cluster", p.clusterName},
		{"controllers", func(n *yaml.Node) error { controllers = n; return p.controllers(n) }},
		{"apps", p.appList},
		{"levels", p.levels},
		{"ryu", p.ryu},
		{"recovery", func(n *yaml.Node) error { p.recoveryNode = n; return p.recovery(n) }},
		{"bfd", p.bfd},
		{"groups", p.groups},
		{"replication", p.replication},
		{"durability", p.durability},
		{"data", p.data},
		{"heartbeat_ms", func(n *yaml.Node) error {
			p.heartbeatNode = n
			return p.millis(n, "heartbeat_ms", 1, 10_000, &s.Heartbeat)
		}},
		{"election_ms", func(n *yaml.Node) error {
			p.electionNode = n
			return p.millis(n, "election_ms", 3, 60_000, &s.Election)
		}},
		{"switch_timeout_ms", func(n *yaml.Node) error {
			return p.millis(n, "switch_timeout_ms", 100, 3_600_000, &s.SwitchTimeout)
		}},
		{"switch_expiry_minutes", func(n *yaml.Node) error {
			var minutes uint64
			err := p.number(n, "switch_expiry_minutes", 0, 5_256_000, &minutes)
			s.SwitchExpiry = time.Duration(minutes) * time.Minute
			return err
		}},
		{"handler_timeout_ms", func(n *yaml.Node) error {
			return p.millis(n, "handler_timeout_ms", 100, 3_600_000, &s.HandlerTimeout)
		}},
		{"agent_heartbeat_ms", func(n *yaml.Node) error {
			return p.millis(n, "agent_heartbeat_ms", 10, 1000, &s.AgentHeartbeat)
		}},
		{"placement", p.placement},
		{"tls", p.tls},
		{"insecure", func(n *yaml.Node) error { p.insecureNode = n; return p.flag(n, "insecure", &s.Insecure) }},
		{"tokens", func(n *yaml.Node) error { return p.path(n, "tokens", &s.Tokens) }},
		{"store", p.store},
		{"tracing", p.tracing},
	})
	if err != nil {
		return err
	}
	if controllers == nil {
		return p.mistake(root, "no controllers", "add a list `controllers:` with name, peer, openflow and api of each")
	}
	if err := p.checkExposed(); err != nil {
		return err
	}
	if err := p.completeBFD(); err != nil {
		return err
	}
	if p.recoveryNode != nil && !slices.Contains(s.Apps, recoveryApp) {
		return p.mistake(p.recoveryNode, "recovery is configured, and is not among the apps",
			"write apps: [recovery], or remove this section")
	}
	if err := p.checkGroups(); err != nil {
		return err
	}
	if err := p.checkPlacement(); err != nil {
		return err
	}
	if err := p.checkStore(); err != nil {
		return err
	}
	return p.checkTimes()
}

// document returns the top node of the only document in text.
func (p *parser) document(text []byte) (*yaml.Node, error) {
	if len(text) > MaxFile {
		return nil, &Error{p.file, 0, fmt.Sprintf("larger than %d bytes", MaxFile), "is this the right file?"}
	}
	dec := yaml.NewDecoder(bytes.NewReader(text))
	var doc yaml.Node
	switch err := dec.Decode(&doc); {
	case err == io.EOF, err == nil && doc.Content[0].Tag == "!!null":
		return nil, &Error{p.file, 0, "the file is empty", "begin with a list `controllers:`"}
	case err != nil:
		return nil, p.syntax(text, err)
	}
	var second yaml.Node
	switch err := dec.Decode(&second); {
	case err == nil:
		return nil, p.mistake(&second, "a second document", "remove the line `---` before it")
	case err != io.EOF:
		return nil, p.syntax(text, err)
	}
	return doc.Content[0], nil
}

var (
	tabIndent = regexp.MustCompile(`(?m)^ *\t`)
	yamlLine  = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)$`)
	offByOne  = regexp.MustCompile(`^did not find expected (<document start>|node content|'-' indicator|key|',' or)`)
)

// syntax turns an error of the YAML parser into one with a place. Tabs are so common a
// cause, and so badly described by the parser, that they are looked for first. Some of the
// parser's messages count lines from 0.
func (p *parser) syntax(text []byte, err error) error {
	if at := tabIndent.FindIndex(text); at != nil {
		line := 1 + bytes.Count(text[:at[0]], []byte("\n"))
		return &Error{p.file, line, "a tab in the indentation", "YAML wants spaces"}
	}
	e := &Error{p.file, 0, "not YAML: " + err.Error(), "look at the indentation, colons and quotes around here"}
	if m := yamlLine.FindStringSubmatch(err.Error()); m != nil {
		e.Problem = "not YAML: " + m[2]
		e.Line, _ = strconv.Atoi(m[1]) // no line: 0, which prints none
		if e.Line > 0 && offByOne.MatchString(m[2]) {
			e.Line++
		}
	}
	return e
}

func (p *parser) controllers(n *yaml.Node) error {
	items, err := p.sequence(n, "controllers")
	if err != nil {
		return err
	}
	if len(items) == 0 {
		return p.mistake(n, "no controllers", "add at least one, better three, each with name, peer, openflow and api")
	}
	taken := map[string]string{} // "name c1", "address 127.0.0.1:7001", "id 7" -> where
	for _, item := range items {
		if err := p.controller(item, taken); err != nil {
			return err
		}
	}
	if err := p.checkREST(items); err != nil {
		return err
	}
	if k := len(items); k%2 == 0 {
		return p.mistake(n, fmt.Sprintf("%d controllers survive no more failures than %d", k, k-1),
			fmt.Sprintf("use %d or %d: an odd number", k-1, k+1))
	}
	return nil
}

// checkREST refuses a cluster of which only some controllers have an address for REST: requests to a controller are
// forwarded to that of the leader.
func (p *parser) checkREST(items []*yaml.Node) error {
	list := p.cluster.Controllers
	with := slices.IndexFunc(list, func(c Controller) bool { return c.REST != "" })
	without := slices.IndexFunc(list, func(c Controller) bool { return c.REST == "" })
	if with < 0 || without < 0 {
		return nil
	}
	return p.mistake(items[without], fmt.Sprintf("controller %s has no rest, and controller %s has", list[without].Name,
		list[with].Name), "add `rest:` to each controller, or to none: the leader answers, and any controller can lead")
}

var validName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,62}$`) // it is also the name of a folder

const nameRemedy = "use at most 63 of a-z, 0-9, - and _, beginning with a letter or digit"

func (p *parser) controller(n *yaml.Node, taken map[string]string) error {
	var c Controller
	var idNode *yaml.Node
	claim := func(n *yaml.Node, what string) error {
		if where, ok := taken[what]; ok {
			return p.mistake(n, what+" is already that of "+where, "give each its own")
		}
		taken[what] = fmt.Sprintf("line %d", n.Line)
		return nil
	}
	address := func(key string, to *string) field {
		return field{key, func(n *yaml.Node) error {
			if err := p.address(n, key, to); err != nil {
				return err
			}
			return claim(n, "address "+*to)
		}}
	}
	err := p.mapping(n, "a controller", []field{
		{"name", func(n *yaml.Node) error {
			if err := p.text(n, "name", &c.Name); err != nil {
				return err
			}
			if !validName.MatchString(c.Name) {
				return p.mistake(n, fmt.Sprintf("name %q", c.Name), nameRemedy)
			}
			return claim(n, "name "+c.Name)
		}},
		address("peer", &c.Peer),
		address("openflow", &c.OpenFlow),
		address("api", &c.API),
		address("rest", &c.REST),
		{"id", func(n *yaml.Node) error { idNode = n; return p.number(n, "id", 1, MaxID, &c.ID) }},
	})
	if err != nil {
		return err
	}
	for _, f := range []struct{ key, value string }{
		{"name", c.Name}, {"peer", c.Peer}, {"openflow", c.OpenFlow}, {"api", c.API}} {
		if f.value == "" {
			return p.mistake(n, "a controller without "+f.key, "add `"+f.key+":`")
		}
	}
	if idNode == nil {
		idNode, c.ID = n, DefaultID(c.Name)
	}
	if err := claim(idNode, fmt.Sprintf("id %d", c.ID)); err != nil {
		return err
	}
	p.cluster.Controllers = append(p.cluster.Controllers, c)
	return nil
}

// address reads host:port that others can dial.
func (p *parser) address(n *yaml.Node, key string, to *string) error {
	if err := p.text(n, key, to); err != nil {
		return err
	}
	bad := func(problem, remedy string) error {
		return p.mistake(n, fmt.Sprintf("%s address %q %s", key, *to, problem), remedy)
	}
	host, port, err := net.SplitHostPort(*to)
	if err != nil {
		return bad("is not host:port", "write it like 127.0.0.1:7001 or [::1]:7001")
	}
	if num, err := strconv.ParseUint(port, 10, 16); err != nil || num == 0 {
		return bad("has no port from 1 to 65535", "write it like 127.0.0.1:7001")
	}
	ip, err := netip.ParseAddr(host)
	switch {
	case host == "", err == nil && ip.IsUnspecified():
		return bad("cannot be dialled", "name the address of one interface: others use it too")
	case err != nil && !validHost.MatchString(host):
		return bad("has no valid host", "use an IP address or a host name")
	}
	if p.exposed == nil && !ip.IsLoopback() && host != "localhost" {
		p.exposed = bad("can be reached by other machines, and there is no tls: whoever reaches it can be a switch, "+
			"or change the cluster", "add `tls:` (holdfast pki makes the certificates), use a loopback address, or "+
			"write `insecure: true` if only machines that you trust reach it")
	}
	return nil
}

// checkExposed refuses addresses that other machines reach without TLS, unless the file says that they may.
func (p *parser) checkExposed() error {
	switch s := &p.cluster; {
	case s.TLS != nil && s.Insecure:
		return p.mistake(p.insecureNode, "insecure: true, and tls", "remove one of them")
	case s.TLS == nil && !s.Insecure:
		return p.exposed
	}
	return nil
}

// validHost leaves out names of digits and dots only: those are IP addresses gone wrong.
var validHost = regexp.MustCompile(`^[A-Za-z0-9.-]*[A-Za-z][A-Za-z0-9.-]*$`)

func (p *parser) appList(n *yaml.Node) error {
	items, err := p.sequence(n, "apps")
	if err != nil {
		return err
	}
	if len(items) == 0 {
		return p.mistake(n, "no apps", "name at least one, or leave `apps` out for the default")
	}
	p.cluster.Apps = nil
	for _, item := range items {
		var app string
		if err := p.text(item, "an app", &app); err != nil {
			return err
		}
		if isPython(app) {
			if err := p.ryuApplication(item, app); err != nil {
				return err
			}
			continue
		}
		if !slices.Contains(p.apps, app) {
			return p.mistake(item, fmt.Sprintf("unknown app %q", app), suggestion(app, p.apps)+
				"; an application of your own is in your program: use that in place of holdfast")
		}
		if slices.Contains(p.cluster.Apps, app) {
			return p.mistake(item, fmt.Sprintf("app %q twice", app), "remove one")
		}
		p.cluster.Apps = append(p.cluster.Apps, app)
	}
	return nil
}

func (p *parser) levels(n *yaml.Node) error {
	var fields []field
	for _, app := range p.apps {
		fields = append(fields, field{app, func(n *yaml.Node) error {
			of := map[string]string{}
			if err := n.Decode(of); err != nil {
				return p.mistake(n, "levels of "+app+" are not `message: level` lines",
					"write them like packet_in: unordered")
			}
			p.cluster.Levels[app] = of
			return p.checkLevels(app, of, n)
		}})
	}
	p.cluster.Levels = map[string]map[string]string{}
	return p.mapping(n, "levels", fields)
}

func (p *parser) clusterName(n *yaml.Node) error {
	if err := p.text(n, "cluster", &p.cluster.Name); err != nil {
		return err
	}
	if !validName.MatchString(p.cluster.Name) {
		return p.mistake(n, fmt.Sprintf("cluster %q", p.cluster.Name), nameRemedy)
	}
	return nil
}

func (p *parser) durability(n *yaml.Node) error {
	var s string
	err := p.oneOf(n, "durability", []string{string(Disk), string(Memory)}, &s)
	p.cluster.Durability = Durability(s)
	return err
}

// groups reads 1, or per-controller.
func (p *parser) groups(n *yaml.Node) error {
	const one, each = "1", "per-controller"
	if n.Kind != yaml.ScalarNode || n.Value != one && n.Value != each {
		return p.mistake(n, "groups is "+describe(n), "write 1, or per-controller")
	}
	p.cluster.PerController = n.Value == each
	return nil
}

func (p *parser) replication(n *yaml.Node) error {
	var replicas uint64
	if err := p.number(n, "replication", 1, MaxReplication, &replicas); err != nil {
		return err
	}
	p.replicationNode, p.cluster.Replication = n, int(replicas)
	return nil
}

// checkGroups refuses what only one group can do, and what several groups cannot.
func (p *parser) checkGroups() error {
	if at, r, n := p.replicationNode, p.cluster.Replication, len(p.cluster.Controllers); at != nil {
		switch {
		case !p.cluster.PerController:
			return p.mistake(at, "replication is configured, and one group has a replica on each controller",
				"write groups: per-controller, or remove this line")
		case r > n:
			return p.mistake(at, fmt.Sprintf("replication is %d, and there are %d controllers", r, n),
				"write an odd number up to that, or remove this line")
		case r%2 == 0:
			return p.mistake(at, fmt.Sprintf("%d replicas survive no more failures than %d", r, r-1),
				fmt.Sprintf("write %d or %d: an odd number", r-1, r+1))
		}
	}
	return nil
}

func (p *parser) data(n *yaml.Node) error { return p.path(n, "data", &p.cluster.Data) }

// path reads a file or folder. Only a shell knows ~: here it would become a folder of that name.
func (p *parser) path(n *yaml.Node, key string, to *string) error {
	if err := p.text(n, key, to); err != nil {
		return err
	}
	if strings.HasPrefix(*to, "~") {
		return p.mistake(n, fmt.Sprintf("%s %q: nothing replaces the ~", key, *to), "write the whole path")
	}
	return nil
}

func (p *parser) tls(n *yaml.Node) error {
	t := new(TLS)
	var fields []field
	keys := []struct {
		key string
		to  *string
	}{{"ca", &t.CA}, {"cert", &t.Cert}, {"key", &t.Key}}
	for _, k := range keys {
		fields = append(fields, field{k.key, func(n *yaml.Node) error { return p.path(n, k.key, k.to) }})
	}
	fields = append(fields, field{"deny", func(n *yaml.Node) error { return p.path(n, "deny", &p.cluster.Deny) }},
		field{"admit", p.admit}, field{"unlisted", func(n *yaml.Node) error {
			var s string
			err := p.oneOf(n, "unlisted", []string{"accept", "refuse", "first-use"}, &s)
			p.cluster.RefuseUnlisted, p.cluster.FirstUse = s == "refuse", s == "first-use"
			return err
		}})
	if err := p.mapping(n, "tls", fields); err != nil {
		return err
	}
	for _, k := range keys {
		if *k.to == "" {
			return p.mistake(n, "tls without "+k.key, "name the files ca, cert and key, or leave `tls` out for "+
				"plain TCP")
		}
	}
	if strings.Contains(t.Cert, namePlace) != strings.Contains(t.Key, namePlace) {
		return p.mistake(n, "only one of cert and key has "+namePlace+" in its path", "write it in both, or in none")
	}
	p.cluster.TLS = t
	return nil
}

// checkTimes refuses an election timeout that a single late heartbeat would trip, or that the
// consensus, whose clock ticks with the heartbeats, cannot measure.
func (p *parser) checkTimes() error {
	beat, election := p.cluster.Heartbeat, p.cluster.Election
	if election >= 3*beat && election%beat == 0 {
		return nil
	}
	at := p.electionNode
	if at == nil {
		at = p.heartbeatNode // one of them is there: the defaults pass
	}
	if election >= 3*beat {
		return p.mistake(at, fmt.Sprintf("election_ms %d is no multiple of heartbeat_ms %d", election.Milliseconds(),
			beat.Milliseconds()),
			fmt.Sprintf("set election_ms to %d", (election+beat-election%beat).Milliseconds()))
	}
	return p.mistake(at, fmt.Sprintf("election_ms %d is less than 3 heartbeats of %d ms", election.Milliseconds(),
		beat.Milliseconds()),
		fmt.Sprintf("set election_ms to %d or more, or lower heartbeat_ms", 3*beat.Milliseconds()))
}

func (p *parser) millis(n *yaml.Node, key string, low, high uint64, to *time.Duration) error {
	var ms uint64
	if err := p.number(n, key, low, high, &ms); err != nil {
		return err
	}
	*to = time.Duration(ms) * time.Millisecond
	return nil
}

// cause strips the operation and path that a file error repeats.
func cause(err error) string {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err.Error()
	}
	return strings.TrimSpace(err.Error())
}
