package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/holdfasttest"
	"github.com/holdfast-sdn/holdfast/internal/await"
)

func TestMain(m *testing.M) { holdfasttest.Main(m) } // the program of the test is the command holdfast, too

// TestTutorial types the commands of the tutorial, page after page, as somebody without root, and compares what they
// print with what the pages show.
//
// A block of language console has commands for the first terminal, and one of `console network` those for a second one.
// A command stands after "$ ", or after "vnet> " while holdfast vnet runs. Below it is what it prints; a line "..."
// stands for any lines. Blocks of no language are not run: they need a network. A comment before the block says more:
//
//	<!-- test
//	repeat
//	varies: [0-9.]+ ms
//	-->
//
// With repeat, the commands are repeated until they print what the page shows. What a regular expression of varies
// matches may be different, as long as the expression matches there.
func TestTutorial(t *testing.T) {
	t.Parallel()
	terminals := openTerminals(t)
	for _, page := range tutorialPages(t) {
		if strings.Contains(page, "ryu") && !linkPython(t, terminals.dir) {
			continue
		}
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		blocks, err := parseTranscript(filepath.Base(page), string(text))
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range blocks {
			for _, c := range b.commands {
				execute(t, terminals, b, c)
			}
		}
		t.Logf("%s: %.1f s", filepath.Base(page), time.Since(began).Seconds())
	}
}

// tutorialPages are the pages with steps, in their order.
func tutorialPages(t *testing.T) []string {
	t.Helper()
	pages, err := filepath.Glob("../../docs/tutorial/[0-9]*.md")
	if err != nil || len(pages) != 6 {
		t.Fatalf("the tutorial has %d pages, want 6: %v", len(pages), err)
	}
	return pages
}

// linkPython makes the environment with os-ken that the page about Ryu has the reader install. It returns false if this
// machine has none.
func linkPython(t *testing.T, dir string) bool {
	t.Helper()
	python := os.Getenv("HOLDFAST_PYTHON")
	if python == "" {
		if os.Getenv("HOLDFAST_REQUIRE_ORACLES") == "1" {
			t.Fatal("HOLDFAST_PYTHON does not name a python that has os-ken")
		}
		t.Log("without the page about Ryu: HOLDFAST_PYTHON does not name a python that has os-ken")
		return false
	}
	python, err := filepath.Abs(python)
	if err == nil {
		err = os.Symlink(filepath.Dir(filepath.Dir(python)), filepath.Join(dir, "venv"))
	}
	if err != nil {
		t.Fatal(err)
	}
	return true
}

// execute types a command, and compares what it prints.
func execute(t *testing.T, terminals *terminals, b block, c typed) {
	t.Helper()
	var printed, difference string
	for began := time.Now(); ; await.Pause(began) {
		var status string
		printed, status = terminals.of(b.network).run(t, c)
		difference = b.compare(c.prints, lines(printed))
		if status != "0" {
			difference = "It ends with exit code " + status
		}
		if difference == "" {
			return
		}
		if !b.repeat || time.Since(began) > await.Limit {
			break
		}
	}
	t.Fatalf("%s:%d: %s%s\n%s. It printed:\n%s\nLogs:\n%s", b.page, c.line, c.prompt, c.text, difference, printed,
		terminals.logs())
}

// typed is one command of a page.
type typed struct {
	line         int
	prompt, text string
	prints       []string
}

// block is one of a page, with the commands of one terminal.
type block struct {
	page            string
	network, repeat bool
	varies          []*regexp.Regexp
	commands        []typed
}

const shellPrompt, networkPrompt = "$ ", "vnet> "

// parseTranscript reads the blocks of a page.
func parseTranscript(page, text string) (blocks []block, err error) {
	const fence, options = "```", "<!-- test"
	next := block{page: page} // has the options of the comment before
	inside, inComment := false, false
	for i, line := range lines(text) {
		switch {
		case inComment && line == "-->":
			inComment = false
		case inComment:
			if err := next.option(line); err != nil {
				return nil, fmt.Errorf("%s:%d: %w", page, i+1, err)
			}
		case inside && line == fence:
			blocks, next, inside = append(blocks, next), block{page: page}, false
		case inside:
			if err := next.add(i+1, line); err != nil {
				return nil, fmt.Errorf("%s:%d: %w", page, i+1, err)
			}
		case line == options:
			inComment = true
		case line == fence+"console", line == fence+"console network":
			inside, next.network = true, strings.HasSuffix(line, "network")
		}
	}
	return blocks, nil
}

func (b *block) option(line string) error {
	expression, varies := strings.CutPrefix(line, "varies: ")
	switch {
	case line == "repeat":
		b.repeat = true
	case varies:
		re, err := regexp.Compile(expression)
		if err != nil {
			return err
		}
		b.varies = append(b.varies, re)
	default:
		return fmt.Errorf("there is no option %q", line)
	}
	return nil
}

// add adds a line of the block: a command, more of one, or what it prints.
func (b *block) add(number int, line string) error {
	for _, prompt := range []string{shellPrompt, networkPrompt} {
		if text, is := strings.CutPrefix(line, prompt); is {
			b.commands = append(b.commands, typed{number, prompt, text, nil})
			return nil
		}
	}
	if len(b.commands) == 0 {
		return fmt.Errorf("the block does not begin with a command")
	}
	c := &b.commands[len(b.commands)-1]
	if c.open() {
		c.text += "\n" + line
	} else {
		c.prints = append(c.prints, line)
	}
	return nil
}

// open reports whether the next line belongs to the command: after a backslash, or to a here-document.
func (c *typed) open() bool {
	_, document, is := strings.Cut(c.text, "<<'EOF'")
	return strings.HasSuffix(c.text, `\`) || is && !strings.HasSuffix(document, "\nEOF")
}

// busy are lines that only busy machines print, and those of the shell about processes that were killed.
var busy = regexp.MustCompile(`^c\d: the election timeout is .* the machine is busy|^bash: line \d+: +\d+ Killed `)

// compare says where what was printed differs from what the page shows.
func (b *block) compare(want, got []string) string {
	got = slices.DeleteFunc(got, busy.MatchString)
	for i, line := range want {
		if strings.TrimSpace(line) == "..." {
			for n := range len(got) + 1 {
				if b.compare(want[i+1:], got[n:]) == "" {
					return ""
				}
			}
			return "It does not end as the page shows"
		}
		if len(got) == 0 {
			return fmt.Sprintf("It does not print %q", line)
		}
		if b.plain(line) != b.plain(got[0]) {
			return fmt.Sprintf("It prints %q, and the page shows %q", got[0], line)
		}
		got = got[1:]
	}
	if len(got) > 0 {
		return fmt.Sprintf("It also prints %q", got[0])
	}
	return ""
}

// plain returns a line without what varies, and with single spaces.
func (b *block) plain(line string) string {
	for i, re := range b.varies {
		line = re.ReplaceAllString(line, strings.Repeat("<>", i+1))
	}
	return strings.Join(strings.Fields(line), " ")
}

// lines splits a text, without empty lines at its end.
func lines(text string) []string {
	text = strings.TrimRight(text, "\n")
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

func TestCompare(t *testing.T) {
	b := block{varies: []*regexp.Regexp{regexp.MustCompile(`c[123]`), regexp.MustCompile(`[\d.]+ ms`)}}
	for _, tc := range []struct {
		page, printed string
		same          bool
	}{
		{"", "", true},
		{"a  b\n", "a b", true},
		{"a", "a\nb", false},
		{"a\nb", "a", false},
		{"c1 leads after 7 ms", "c3 leads after 12.5 ms", true},
		{"c1 leads after 7 ms", "c4 leads after 12.5 ms", false},
		{"a\n...\nb", "a\nx\nb\nb", true},
		{"a\n...\nb", "a\nb\nx", false},
		{"a", "c1: the election timeout is 60 ms instead of 50 ms: the machine is busy\na", true},
	} {
		if got := b.compare(lines(tc.page), lines(tc.printed)); (got == "") != tc.same {
			t.Errorf("page %q, printed %q: %q", tc.page, tc.printed, got)
		}
	}
}
