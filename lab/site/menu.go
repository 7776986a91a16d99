package main

import (
	"path"
	"strings"
)

// section is a part of the menu, which is on each page.
type section struct {
	Title string
	pages []string // paths of files in the repository, or of generated pages
}

// Generated pages have paths as if they were in the repository.
const (
	commandsPage = "reference/commands.md"
	filePage     = "reference/cluster-file.md"
	metricsPage  = "reference/metrics.md"
	routesPage   = "reference/http.md"
	packagesPage = "reference/packages.md"
	protosPage   = "reference/protobuf.md"
)

// menu is the order of the pages. A page that is not here is reached by links: decisions, counterexamples, files.
var menu = []section{
	{"Start", []string{"README.md", "docs/tutorial/README.md", "docs/tutorial/1-cluster.md",
		"docs/tutorial/2-application.md", "docs/tutorial/3-kill.md", "docs/tutorial/4-ryu.md",
		"docs/tutorial/5-store.md", "docs/tutorial/6-recovery.md"}},
	{"Operating", []string{"docs/operating/README.md", "docs/operating/install.md", "docs/operating/configuration.md",
		"docs/operating/switches.md", "docs/operating/access.md", "docs/operating/watching.md",
		"docs/operating/groups.md", "docs/operating/recovery.md", "docs/operating/store.md",
		"docs/operating/ryu.md", "docs/operating/maintenance.md", "docs/operating/troubleshooting.md",
		"docs/security.md"}},
	{"Applications", []string{"docs/applications.md", "docs/suite.md", "docs/api.md", "docs/faucet.md",
		"docs/mininet.md"}},
	{"Reference", []string{commandsPage, filePage, metricsPage, routesPage, protosPage, packagesPage,
		"docs/guarantees.md"}},
	{"Design", []string{"docs/design/control-path.md", "docs/design/streams.md", "docs/design/groups.md",
		"docs/design/stock.md", "docs/design/proxy.md", "docs/design/ryu.md", "docs/design/store.md",
		"docs/design/pipeline.md", "docs/design/recovery.md", "docs/design/bfd.md", "docs/design/simulator.md",
		"docs/design/model.md", "docs/bugs-found.md", "docs/decisions/README.md"}},
	{"Project", []string{"docs/README.md", "CONTRIBUTING.md"}},
}

// shortTitles are for the menu, where the title of the page is too long or says too little.
var shortTitles = map[string]string{
	"README.md":                "Overview",
	"docs/tutorial/README.md":  "Tutorial",
	"docs/operating/README.md": "What is where",
	"docs/operating/ryu.md":    "Applications of Ryu",
	"docs/README.md":           "All pages",
}

// parent returns the page of the menu to which a page belongs: itself, or one that lists it.
func parent(file string) string {
	for folder, page := range map[string]string{"reference/commands/": commandsPage, "reference/go/": packagesPage,
		"docs/decisions/": "docs/decisions/README.md", "docs/counterexamples/": "docs/design/model.md"} {
		if strings.HasPrefix(file, folder) {
			return page
		}
	}
	return file
}

// address returns the path in the site of a page or a file of the repository. Files that are not Markdown are pages
// with their text, in the folder source.
func address(file string) string {
	switch name, markdown := strings.CutSuffix(file, ".md"); {
	case file == "README.md":
		return "index.html"
	case markdown:
		name = strings.TrimPrefix(name, "docs/")
		if path.Base(name) == "README" {
			name = path.Join(path.Dir(name), "index")
		}
		if name == "index" { // docs/README.md
			name = "contents"
		}
		return strings.ToLower(name) + ".html"
	default:
		return "source/" + file + ".html"
	}
}
