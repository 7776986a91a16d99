package main

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	linkOf   = regexp.MustCompile(`\b(?:href|src)="([^"]*)"`)
	idOf     = regexp.MustCompile(`\bid="([^"]*)"`)
	loadedBy = regexp.MustCompile(`<(?:link|script|img|iframe)\b[^>]*(?:href|src)="[^"]*://|@import|url\(`)
)

// Every link inside the site leads to a page and a heading, every Markdown file of the documentation is in the site,
// and all pages are reached by links from the first. Nothing is loaded from elsewhere.
func TestSite(t *testing.T) {
	files, err := build("../..")
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]map[string]bool{}
	for name, text := range files {
		if loadedBy.Match(text) && strings.HasSuffix(name, ".html") {
			t.Errorf("%s loads something from elsewhere: %s", name, loadedBy.Find(text))
		}
		ids[name] = map[string]bool{}
		for _, match := range idOf.FindAllSubmatch(text, -1) {
			if ids[name][string(match[1])] {
				t.Errorf("%s has two elements with the id %s", name, match[1])
			}
			ids[name][string(match[1])] = true
		}
	}
	reached := map[string]bool{"index.html": true}
	for queue := []string{"index.html"}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		if !strings.HasSuffix(at, ".html") {
			continue
		}
		for _, match := range linkOf.FindAllSubmatch(files[at], -1) {
			link := string(match[1])
			if strings.Contains(link, "://") {
				continue
			}
			to, fragment, _ := strings.Cut(link, "#")
			target := at
			if to != "" {
				target = path.Join(path.Dir(at), to)
			}
			if files[target] == nil {
				t.Errorf("%s: link %s leads nowhere", at, link)
				continue
			}
			if fragment != "" && !ids[target][fragment] {
				t.Errorf("%s: link %s: %s has no such heading", at, link, target)
			}
			if !reached[target] {
				reached[target] = true
				queue = append(queue, target)
			}
		}
	}
	for name := range files {
		if !reached[name] && name != marker {
			t.Errorf("no link leads to %s", name)
		}
	}
	err = fs.WalkDir(os.DirFS("../.."), "docs", func(name string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(name, ".md") && files[address(name)] == nil {
			t.Errorf("%s is not in the site: link to it", name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// The reference has what there is: some of each kind, as they are in the code.
func TestReference(t *testing.T) {
	pages, err := reference("../..")
	if err != nil {
		t.Fatal(err)
	}
	for page, wants := range map[string][]string{
		commandsPage:                  {"[holdfast serve](commands/serve.md)"},
		"reference/commands/store.md": {"## holdfast store put\n", "| `--namespace string` |"},
		filePage:                      {"| `election_ms` | milliseconds, 3 to 60000 |", "| `peer` | host:port |", "| `disjoint` | `link` or `node` |"},
		metricsPage: {"| `holdfast_group_leader` | gauge | `group` |",
			"| `holdfast_agent_switch_events_total` | counter | `switch` |",
			"| `holdfast_sentry_link_deaths_total` | counter | `switch`, `interface` |"},
		routesPage:                        {"| `GET /metrics` | viewer |  |  |", "| `/` | viewer | operator | yes |"},
		protosPage:                        {"### Store\n", "rpc Watch("},
		"reference/go/app.md":             {"## type Tx\n", "### Tx.TableMiss\n", "func (tx *Tx) TableMiss(", "### Tx.Reply\n", "Example:\n"},
		"reference/go/holdfast.md":        {"# Package holdfast\n"},
		"reference/commands/placement.md": {"# holdfast placement\n"},
	} {
		for _, want := range wants {
			if !strings.Contains(string(pages[page]), want) {
				t.Errorf("%s does not have %q:\n%.2000s", page, want, pages[page])
			}
		}
	}
}

func TestRender(t *testing.T) {
	const page = "# A *title*\n\ntext\n\n## Two [links](x.md) & `code`\n\n## Two\n\n## Two\n\n<!-- test\nrepeat\n-->\n" +
		"```console network\n$ cat <<'EOF'\n<a>\nEOF\n<b>\n```\n\n| a |\n|---|\n| b |\n"
	out, headings, err := render([]byte(page), func(link string) (string, error) { return "to-" + link, nil })
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`<h1 id="a-title">A <em>title</em></h1>`, `<h2 id="two-links--code">Two <a href="to-x.md">links</a> &amp; <code>code`,
		`<h2 id="two-1">Two</h2>`, `<div class="terminal">network terminal</div>`,
		"<span class=\"prompt\">$ </span><b>cat &lt;&lt;&#39;EOF&#39;\n</b><b>&lt;a&gt;\n</b><b>EOF\n</b>" +
			"<span class=\"printed\">&lt;b&gt;\n</span>", "<div class=\"wide\">\n<table>",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the page does not have %q:\n%s", want, out)
		}
	}
	if strings.Contains(string(out), "repeat") || len(headings) != 4 || headings[0].Title != "A title" {
		t.Errorf("%d headings, the first of which is %q, in\n%s", len(headings), headings[0].Title, out)
	}
	_, _, err = render([]byte(page), func(string) (string, error) { return "", fmt.Errorf("nowhere") })
	if err == nil {
		t.Error("a link that leads nowhere is no error")
	}
}

// A folder with other files is not replaced.
func TestRunKeepsWhatIsNotASite(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "letter"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run("../..", dir); err == nil {
		t.Error("a folder with other files was replaced")
	}
	if _, err := os.Stat(filepath.Join(dir, "letter")); err != nil {
		t.Error(err)
	}
}
