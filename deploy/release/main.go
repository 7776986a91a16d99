// Command release makes what is given to those who operate Holdfast: a package for Debian and one for RPM, a container
// image, the binary, its bill of materials, and the checksums of all of these. `make packages` runs it in the folder of
// the module.
//
// The same commit and the same release of Go give the same bytes, in whatever folder, on whatever machine.
package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

func main() {
	out := flag.String("out", "dist", "the folder for the results, in place of those of an earlier run")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "release: there are no arguments, only flags: %q\n", flag.Args())
		os.Exit(2)
	}
	if err := release(*out); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// errNoCommit is an error of a release that would have neither version nor date.
var errNoCommit = errors.New("the go command notes no commit in the binary: run this in a clone of the repository, " +
	"which is no worktree of another one")

// release fills the folder out, which appears when all is done.
func release(out string) error {
	if err := replaceable(out); err != nil {
		return err
	}
	stage, err := os.MkdirTemp("", "holdfast-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(stage)
	binary := filepath.Join(stage, "holdfast")
	if err := build(binary); err != nil {
		return err
	}
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return err
	}
	if !strings.HasPrefix(info.Main.Version, "v") {
		return errNoCommit
	}
	date, err := sourceDate(info)
	if err != nil {
		return err
	}
	if err := writeDocuments(stage, date); err != nil {
		return fmt.Errorf("man pages and completions: %w", err)
	}
	bom, err := billOfMaterials(info, date)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(stage, "bom.cdx.json"), bom, 0o644); err != nil {
		return err
	}
	results := filepath.Join(stage, "results")
	if err := os.Mkdir(results, 0o755); err != nil {
		return err
	}
	env := []string{"STAGE=" + stage, "ARCH=" + runtime.GOARCH, "VERSION=" + info.Main.Version,
		"SOURCE_DATE_EPOCH=" + strconv.FormatInt(date.Unix(), 10)}
	for _, format := range []string{"deb", "rpm"} {
		err := run(env, "go", "tool", "-modfile=deploy/tools.mod", "nfpm", "package", "--config",
			"deploy/packages/nfpm.yaml", "--packager", format, "--target", results)
		if err != nil {
			return err
		}
	}
	name := fmt.Sprintf("holdfast-%s-linux-%s", info.Main.Version, runtime.GOARCH)
	if err := image(filepath.Join(results, name+".oci.tar"), binary, bom, info.Main.Version, date); err != nil {
		return fmt.Errorf("image: %w", err)
	}
	if err := errors.Join(os.Rename(binary, filepath.Join(results, name)),
		os.Rename(filepath.Join(stage, "bom.cdx.json"), filepath.Join(results, name+".cdx.json"))); err != nil {
		return err
	}
	return publish(results, out)
}

// build makes the binary as a release has it: with the profile, with no path of this machine, and without cgo, so that
// it runs with any C library and with none.
func build(to string) error {
	return run([]string{"CGO_ENABLED=0"}, "go", "build", "-trimpath", "-buildvcs=true",
		"-pgo=cmd/holdfast/cpu.pgo", "-ldflags=-s -w", "-o", to, "./cmd/holdfast")
}

// image makes the container image, with the files of the release.
func image(to, binary string, bom []byte, version string, date time.Time) error {
	program, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	license, err := os.ReadFile("LICENSE")
	if err != nil {
		return err
	}
	return writeImage(to, imageFiles(program, bom, license), version, date)
}

// sourceDate is the time that all files have: of the commit, unless SOURCE_DATE_EPOCH says another.
func sourceDate(info *buildinfo.BuildInfo) (time.Time, error) {
	if text := os.Getenv("SOURCE_DATE_EPOCH"); text != "" {
		seconds, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH=%s: use seconds since 1970", text)
		}
		return time.Unix(seconds, 0).UTC(), nil
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.time" {
			return time.Parse(time.RFC3339, s.Value)
		}
	}
	return time.Time{}, errNoCommit
}

// sums is the file with the checksums.
const sums = "SHA256SUMS"

// replaceable refuses a folder with anything but the results of an earlier run.
func replaceable(out string) error {
	files, err := os.ReadDir(out)
	if errors.Is(err, os.ErrNotExist) || err == nil && len(files) == 0 {
		return nil
	}
	if err == nil {
		_, err = os.Stat(filepath.Join(out, sums))
	}
	if err != nil {
		return fmt.Errorf("-out %s: it has not the results of an earlier run, choose a new folder: %w", out, err)
	}
	return nil
}

// publish writes the checksums, and copies all to the folder out.
func publish(results, out string) error {
	files, err := os.ReadDir(results) // sorted by name
	if err != nil {
		return err
	}
	var list strings.Builder
	for _, f := range files {
		data, err := os.ReadFile(filepath.Join(results, f.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&list, "%x  %s\n", sha256.Sum256(data), f.Name())
	}
	if err := os.WriteFile(filepath.Join(results, sums), []byte(list.String()), 0o644); err != nil {
		return err
	}
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	if err := os.CopyFS(out, os.DirFS(results)); err != nil {
		return err
	}
	_, err = fmt.Printf("%s%s has them, and %s\n", list.String(), out, sums)
	return err
}

// run runs a command, with more in its environment. What it prints becomes part of the error.
func run(env []string, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), env...)
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, text)
	}
	return nil
}
