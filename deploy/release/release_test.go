package main

import (
	"compress/gzip"
	"debug/buildinfo"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-sdn/holdfast/internal/command"
)

// date is that of the files.
var date = time.Unix(1_700_000_000, 0).UTC()

func documents(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := writeDocuments(dir, date); err != nil {
		t.Fatal(err)
	}
	return dir
}

func page(t *testing.T, dir, name string) string {
	t.Helper()
	file, err := os.Open(filepath.Join(dir, "man", name))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	z, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Each command has a manual page with all its words and flags, and man finds no mistake in two of them.
func TestManualPages(t *testing.T) {
	dir := documents(t)
	var pages []string
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		if c.Hidden || c.Name() == "completion" || c.Name() == "help" {
			return
		}
		name := strings.ReplaceAll(c.CommandPath(), " ", "-") + ".1.gz"
		pages = append(pages, filepath.Join(dir, "man", name))
		text := words(page(t, dir, name))
		for _, word := range strings.Fields(c.Long) {
			if !strings.Contains(text, words(word)) {
				t.Errorf("%s has no %q", name, word)
			}
		}
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(command.Root())
	if len(pages) < 40 {
		t.Errorf("only %d pages", len(pages))
	}
	if _, err := exec.LookPath("man"); err != nil {
		return
	}
	// two of them: it takes a quarter of a second for each
	cmd := exec.Command("man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", pages[0],
		filepath.Join(dir, "man/holdfast-serve.1.gz"))
	cmd.Env = append(os.Environ(), "MANWIDTH=80")
	var errs strings.Builder
	cmd.Stderr = &errs
	if err := cmd.Run(); err != nil || errs.Len() > 0 {
		t.Errorf("man: %v\n%s", err, errs.String())
	}
}

// escapes are requests and escape sequences of roff.
var escapes = regexp.MustCompile(`\\f[A-Z]|\\&|\\|[^\pL\pN]`)

// words returns the letters and digits of a text: what is neither roff nor Markdown.
func words(text string) string { return escapes.ReplaceAllString(text, "") }

func TestCompletions(t *testing.T) {
	dir := documents(t)
	for name, shell := range map[string]string{"holdfast": "bash", "_holdfast": "zsh", "holdfast.fish": "fish"} {
		file := filepath.Join(dir, "completions", name)
		if _, err := os.Stat(file); err != nil {
			t.Error(err)
		}
		if _, err := exec.LookPath(shell); err != nil {
			continue
		}
		if out, err := exec.Command(shell, "-n", file).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", shell, err, out)
		}
	}
}

// What is written again is the same, byte for byte.
func TestDocumentsReproducible(t *testing.T) {
	one, two := documents(t), documents(t)
	err := filepath.WalkDir(one, func(name string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		a, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		b, err := os.ReadFile(filepath.Join(two, strings.TrimPrefix(name, one)))
		if string(a) != string(b) {
			t.Errorf("%s differs", name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Each file that nfpm is told to take is in the repository, or is made here.
func TestContents(t *testing.T) {
	text, err := os.ReadFile("../packages/nfpm.yaml")
	if err != nil {
		t.Fatal(err)
	}
	dir := documents(t)
	made := []string{"holdfast", "bom.cdx.json"} // by release
	found := regexp.MustCompile(`(?:src:|install:|remove:) "?([^",\s]+)`).FindAllStringSubmatch(string(text), -1)
	if len(found) < 16 {
		t.Errorf("only %d files", len(found))
	}
	for _, f := range found {
		name, staged := strings.CutPrefix(f[1], "${STAGE}/")
		switch {
		case staged && slices.Contains(made, name):
			continue
		case staged:
			name = filepath.Join(dir, name)
		default:
			name = filepath.Join("../..", name)
		}
		if _, err := os.Stat(name); err != nil {
			t.Error(err)
		}
	}
	units, err := filepath.Glob("../systemd/*.service")
	if err != nil {
		t.Fatal(err)
	}
	for _, unit := range units {
		if !strings.Contains(string(text), filepath.Base(unit)) {
			t.Errorf("%s is in no package", unit)
		}
	}
}

// exposure is how exposed systemd-analyze may call a unit, in tenths of ten: 100 is a unit without any protection.
var exposure = map[string]string{"holdfast-controller@c1.service": "25", "holdfast-agent@s1.service": "15",
	"holdfast-sentry.service": "40"}

// systemd understands the units, and finds them protected.
func TestUnits(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("systemd-analyze is missing: apt-get install systemd")
	}
	dir := t.TempDir()
	var units []string
	for unit := range exposure {
		source := regexp.MustCompile(`@\w+`).ReplaceAllString(unit, "@")
		text, err := os.ReadFile(filepath.Join("../systemd", source))
		if err != nil {
			t.Fatal(err)
		}
		if !regexp.MustCompile(`(?m)^RestrictAddressFamilies=.*\bAF_INET AF_INET6\b`).Match(text) {
			t.Errorf("%s does not permit TCP, and --metrics needs it", source)
		}
		// What is not installed here: the program and its manual.
		lines := strings.ReplaceAll(string(text), "/usr/bin/holdfast", "/bin/true")
		lines = regexp.MustCompile(`(?m)^Documentation=.*$`).ReplaceAllString(lines, "")
		units = append(units, filepath.Join(dir, unit))
		if err := os.WriteFile(units[len(units)-1], []byte(lines), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("systemd-analyze", append([]string{"verify", "--man=no"}, units...)...)
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
	for unit, threshold := range exposure {
		cmd := exec.Command("systemd-analyze", "security", "--no-pager", "--offline=true", "--threshold="+threshold,
			filepath.Join(dir, unit))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("systemd-analyze security: %v\n%s", err, out)
		}
	}
}

// The example of a cluster file is a correct one.
func TestExample(t *testing.T) {
	root := command.Root()
	root.SetArgs([]string{"config", "check", "../packages/holdfast.yaml"})
	root.SetOut(io.Discard)
	if err := root.ExecuteContext(t.Context()); err != nil {
		t.Error(err)
	}
}

// The scripts of the packages are correct for sh.
func TestScripts(t *testing.T) {
	for _, name := range []string{"postinstall", "preremove", "postremove"} {
		if out, err := exec.Command("sh", "-n", filepath.Join("../packages", name)).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

// The bill of materials has each module of the binary: of this one, in place of a release.
func TestBillOfMaterials(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	info, err := buildinfo.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	text, err := billOfMaterials(info, date)
	if err != nil {
		t.Fatal(err)
	}
	var bom struct {
		BOMFormat  string
		Metadata   struct{ Timestamp string }
		Components []component
	}
	if err := json.Unmarshal(text, &bom); err != nil {
		t.Fatal(err)
	}
	if bom.BOMFormat != "CycloneDX" || bom.Metadata.Timestamp != "2023-11-14T22:13:20Z" {
		t.Errorf("%+v", bom)
	}
	if want := len(info.Deps) + 1; len(bom.Components) != want {
		t.Errorf("%d components, not %d", len(bom.Components), want)
	}
	i := slices.IndexFunc(bom.Components, func(c component) bool { return c.Name == "github.com/spf13/cobra" })
	if i < 0 || !strings.HasPrefix(bom.Components[i].URL, "pkg:golang/github.com/spf13/cobra@v") {
		t.Errorf("the module of the commands is %+v", bom.Components)
	}
}

// Only a folder with the results of an earlier run is replaced, because all that it has goes.
func TestReplaceable(t *testing.T) {
	dir := t.TempDir()
	for _, of := range []struct {
		file string
		ok   bool
	}{{"", true}, {"mine", false}, {sums, true}} {
		if of.file != "" {
			if err := os.WriteFile(filepath.Join(dir, of.file), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if err := replaceable(dir); (err == nil) != of.ok {
			t.Errorf("with %q: %v", of.file, err)
		}
	}
	if err := replaceable(filepath.Join(dir, "new")); err != nil {
		t.Error(err)
	}
}
