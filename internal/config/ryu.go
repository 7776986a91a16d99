package config

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// RyuApp stands in Cluster.Apps for all applications of Ryu: one process hosts them.
const RyuApp = "ryu"

// Ryu configures the host process of applications of Ryu or os-ken.
type Ryu struct {
	Applications []string // modules, or whole paths of files, in the order of the file
	Python       string   // the executable
	Options      []string // of ryu-manager
	User         string   // who runs the host; "" is the user of the controller
	Files        []string // whole paths of configuration files that applications get from the log
	Path         []string // folders in which Python looks for modules, besides its own
	MemoryBytes  int64    // of a host, at most
	LogLevel     uint8    // Python's: what applications log below it is dropped
}

// isPython reports whether an entry of apps names a module or a file of Python; Go applications have plain names.
func isPython(app string) bool { return strings.ContainsAny(app, "./") }

// ryuApplication adds one. The path of a file is relative to the folder of the cluster file.
func (p *parser) ryuApplication(n *yaml.Node, app string) error {
	if strings.HasPrefix(app, "~") {
		return p.mistake(n, fmt.Sprintf("app %q: nothing replaces the ~", app), "write the whole path")
	}
	if strings.HasSuffix(app, ".py") && !filepath.IsAbs(app) {
		dir, err := filepath.Abs(filepath.Dir(p.file))
		if err != nil {
			return p.mistake(n, fmt.Sprintf("app %q: %v", app, err), "write the whole path")
		}
		app = filepath.Join(dir, app)
	}
	if slices.Contains(p.cluster.Ryu.Applications, app) {
		return p.mistake(n, fmt.Sprintf("app %q twice", app), "remove one")
	}
	p.cluster.Ryu.Applications = append(p.cluster.Ryu.Applications, app)
	if !slices.Contains(p.cluster.Apps, RyuApp) {
		p.cluster.Apps = append(p.cluster.Apps, RyuApp)
	}
	return nil
}

func (p *parser) ryu(n *yaml.Node) error {
	r := &p.cluster.Ryu
	memory := uint64(r.MemoryBytes >> 20)
	err := p.mapping(n, "ryu", []field{
		{"python", func(n *yaml.Node) error { return p.path(n, "python", &r.Python) }},
		{"options", func(n *yaml.Node) error { return p.texts(n, "options", &r.Options) }},
		{"path", func(n *yaml.Node) error { return p.texts(n, "path", &r.Path) }},
		{"user", func(n *yaml.Node) error { return p.text(n, "user", &r.User) }},
		{"files", func(n *yaml.Node) error { return p.wholePaths(n, "files", &r.Files) }},
		{"log_level", func(n *yaml.Node) error { return p.pythonLevel(n, &r.LogLevel) }},
		{"memory_mb", func(n *yaml.Node) error { return p.number(n, "memory_mb", 64, 1<<20, &memory) }},
	})
	r.MemoryBytes = int64(memory) << 20
	return err
}

// wholePaths reads a list of files. They are the same on all machines, so none is relative to a folder.
func (p *parser) wholePaths(n *yaml.Node, what string, to *[]string) error {
	if err := p.texts(n, what, to); err != nil {
		return err
	}
	for _, path := range *to {
		if !filepath.IsAbs(path) {
			return p.mistake(n, fmt.Sprintf("%s: %q", what, path), "write the whole path, as /etc/faucet/faucet.yaml")
		}
	}
	return nil
}

// texts reads a list of them.
func (p *parser) texts(n *yaml.Node, what string, to *[]string) error {
	items, err := p.sequence(n, what)
	if err != nil {
		return err
	}
	*to = make([]string, len(items))
	for i, item := range items {
		if err := p.text(item, what, &(*to)[i]); err != nil {
			return err
		}
	}
	return nil
}

// pythonLevels are those of Python's logging.
var pythonLevels = map[string]uint8{"debug": 10, "info": 20, "warning": 30, "error": 40}

func (p *parser) pythonLevel(n *yaml.Node, to *uint8) error {
	var s string
	if err := p.text(n, "log_level", &s); err != nil {
		return err
	}
	level, ok := pythonLevels[s]
	if !ok {
		return p.unknown(n, "log_level", s, slices.Sorted(maps.Keys(pythonLevels)))
	}
	*to = level
	return nil
}
