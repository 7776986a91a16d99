package e2e

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/lab/cluster"
)

// bareDebian is "debootstrap", or a folder with a bare root file system of Debian. Without it TestInstall does not run.
var bareDebian = os.Getenv("HOLDFAST_BARE_DEBIAN")

// TestInstall makes two releases of the commit that is checked out, installs the package of the first on a bare Debian,
// and runs a cluster from there, as its user and without any capability. It upgrades with a rolling restart while a
// switch sends: nothing is lost. Then it removes the package, and only the state is left. The same cluster runs in the
// container image of the release. The package for RPM installs the same files, and its scripts do the same.
func TestInstall(t *testing.T) {
	if bareDebian == "" {
		t.Skip("takes minutes; set HOLDFAST_BARE_DEBIAN=debootstrap, or to a folder with a bare Debian")
	}
	root := newBareRoot(t)
	first, second := releases(t)
	before := root.files()
	for _, part := range []struct {
		name string
		run  func(bareRoot)
	}{
		{"deb", func(r bareRoot) { r.runsDeb(first, second, before) }},
		{"image", func(r bareRoot) { r.runsImage(packaged(t, second, "*.oci.tar")) }},
		{"rpm", func(r bareRoot) { r.runsRPM(packaged(t, first, "*.rpm"), packaged(t, second, "*.rpm"), before) }},
	} {
		t.Run(part.name, func(t *testing.T) { part.run(bareRoot{t, root.dir}) })
	}
}

// runsDeb installs the package for Debian, upgrades it under a cluster, and removes it.
func (r bareRoot) runsDeb(first, second string, before []string) {
	r.install(first)
	r.is("v0.9.0")
	if got := r.run("dpkg", "--verify", "holdfast"); got != "" {
		r.t.Errorf("dpkg --verify: %s", got)
	}
	r.runs(second)
	r.enable()
	r.run("dpkg", "--remove", "holdfast")
	r.leavesState(before)
	r.run("dpkg", "--purge", "holdfast")
	r.leavesState(before)
}

// is checks which release is installed.
func (r bareRoot) is(version string) {
	r.t.Helper()
	if got := r.run("/usr/bin/holdfast", "version"); !strings.Contains(got, " "+version+" ") {
		r.t.Errorf("version says %s, want %s", got, version)
	}
}

// packaged returns the file beside a package that has such a name.
func packaged(t *testing.T, deb, pattern string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(filepath.Dir(deb), pattern))
	if err != nil || len(files) != 1 {
		t.Fatalf("files %v, want one like %s: %v", files, pattern, err)
	}
	return files[0]
}

// runs runs a cluster, and upgrades it.
func (r bareRoot) runs(next string) {
	t := r.t
	b := r.begin(r.entry)
	b.more()
	r.install(next)
	b.more() // the old release still runs
	for _, c := range b.s.Controllers() {
		b.s.command("drain", c.Name)
		b.s.check(c.Signal(syscall.SIGTERM))
		c.WaitEnd()
		if c.Ended().ExitCode() != 0 {
			t.Errorf("%s ended with %v", c.Name, c.Ended())
		}
		b.s.check(c.Restart())
		b.s.caughtUp(c)
		b.more()
	}
	b.end(500)
	r.is("v0.9.1")
	for _, c := range b.s.Controllers() {
		r.isHoldfast(c.Pid())
	}
	b.s.check(b.s.Close())
}

// busyCluster is a cluster inside a bare root, and a switch that sends.
type busyCluster struct {
	s    *testCluster
	more func() // waits for more traffic
	stop func()
}

// begin starts a cluster by the program that entry writes.
func (r bareRoot) begin(entry func(dir string) string) busyCluster {
	dir := filepath.Join(r.dir, "var/lib/holdfast/site")
	if err := os.Mkdir(dir, 0o755); err != nil {
		r.t.Fatal(err)
	}
	s := startCluster(r.t, cluster.Config{Binary: entry(dir), Dir: dir, Agents: 1, Apps: []string{"hub"},
		Durability: "disk"})
	v := newVnet(s)
	v.startAll()
	h2 := v.station(1, 2)
	stop := v.station(1, 1).stream(r.t, between(host(1, 1), host(1, 2), "traffic"))
	return busyCluster{s, func() {
		r.t.Helper()
		seen := h2.count("traffic")
		await.Until(r.t, "traffic", func() bool { return h2.count("traffic") >= seen+100 })
	}, stop}
}

// end ends the traffic: nothing was lost or repeated, of that many events at least.
func (b busyCluster) end(events int) {
	b.stop()
	if result := b.s.exact(); result.EventsSent < events || result.Epochs != 1 {
		b.s.t.Errorf("not one epoch with %d events: %+v", events, result)
	}
}

// isHoldfast checks that a process has the user of the package, no capability, and no way to get one.
func (r bareRoot) isHoldfast(pid int) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		r.t.Fatal(err)
	}
	id := strings.TrimSpace(r.run("id", "-u", "holdfast"))
	for _, line := range []string{"Uid:\t" + id + "\t" + id, "CapEff:\t0000000000000000", "CapBnd:\t0000000000000000",
		"NoNewPrivs:\t1"} {
		if !strings.Contains(string(status), line) {
			r.t.Errorf("process %d has no %q:\n%s", pid, line, status)
		}
	}
}

// bareRoot is a root file system. Processes in it see it also at the path that it has outside, so that files have the
// same names inside and outside.
type bareRoot struct {
	t   *testing.T
	dir string
}

func newBareRoot(t *testing.T) bareRoot {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can install packages")
	}
	top, err := os.MkdirTemp("", "holdfast-root-") // not TempDir, whose name would be too long for some
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(top) })
	r := bareRoot{t, filepath.Join(top, "root")}
	if bareDebian == "debootstrap" {
		shell(t, ".", nil, "debootstrap", "--variant=minbase", "stable", r.dir, "http://deb.debian.org/debian")
	} else {
		shell(t, ".", nil, "cp", "-a", bareDebian, r.dir)
	}
	r.prepare()
	return r
}

// prepare lets processes run in the root.
func (r bareRoot) prepare() {
	t := r.t
	t.Helper()
	// debootstrap may have mounted it, and controllers read the boot id there
	_ = syscall.Unmount(filepath.Join(r.dir, "proc"), syscall.MNT_DETACH)
	if err := os.MkdirAll(filepath.Join(r.dir, "proc"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("proc", filepath.Join(r.dir, "proc"), "proc", 0, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(filepath.Join(r.dir, "proc"), syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	inside := filepath.Join(r.dir, r.dir)
	if err := os.MkdirAll(filepath.Dir(inside), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/", inside); err != nil {
		t.Fatal(err)
	}
}

func (r bareRoot) run(args ...string) string {
	r.t.Helper()
	return shell(r.t, ".", nil, "chroot", append([]string{r.dir}, args...)...)
}

// install installs or upgrades to a package.
func (r bareRoot) install(deb string) {
	r.t.Helper()
	shell(r.t, ".", nil, "cp", deb, filepath.Join(r.dir, "holdfast.deb"))
	r.run("dpkg", "--install", "/holdfast.deb")
	if err := os.Remove(filepath.Join(r.dir, "holdfast.deb")); err != nil {
		r.t.Fatal(err)
	}
}

// enabled is there if the service is.
const enabled = "/etc/systemd/system/multi-user.target.wants/holdfast-controller@c1.service"

// enable does what systemctl enable does, which is not there.
func (r bareRoot) enable() {
	r.t.Helper()
	r.run("mkdir", "-p", filepath.Dir(enabled))
	r.run("ln", "-s", "/usr/lib/systemd/system/holdfast-controller@.service", enabled)
}

// entry writes a program that is holdfast inside, with the rights of the service, for a cluster with its files in dir.
func (r bareRoot) entry(dir string) string {
	r.t.Helper()
	name := filepath.Join(r.dir, "../holdfast")
	script := fmt.Sprintf(`#!/bin/sh
chroot %[1]s chown holdfast:holdfast %[2]s %[2]s/holdfast.yaml
exec chroot %[1]s setpriv --reuid holdfast --regid holdfast --init-groups --inh-caps=-all --bounding-set=-all \
	--no-new-privs --pdeathsig KILL /usr/bin/holdfast "$@"
`, r.dir, dir)
	if err := os.WriteFile(name, []byte(script), 0o755); err != nil {
		r.t.Fatal(err)
	}
	return name
}

// files are the names of all that is there, except what dpkg and rpm write for themselves.
func (r bareRoot) files() (list []string) {
	r.t.Helper()
	err := filepath.WalkDir(r.dir, func(name string, d fs.DirEntry, err error) error {
		name = strings.TrimPrefix(name, r.dir)
		if slices.Contains([]string{"/var/lib/dpkg", "/var/lib/rpm", "/proc"}, name) {
			return fs.SkipDir
		}
		list = append(list, name)
		return err
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return list
}

// leavesState checks what is there that was not there before.
func (r bareRoot) leavesState(before []string) {
	r.t.Helper()
	for _, name := range r.files() {
		switch {
		case slices.Contains(before, name), strings.HasPrefix(name, "/var/lib/holdfast"),
			strings.HasSuffix(name, "/multi-user.target.wants"), // of enable
			slices.Contains([]string{"/etc/passwd-", "/etc/shadow-", "/etc/group-", "/etc/gshadow-", "/etc/subuid-",
				"/etc/subgid-"}, name): // of the tools that add a user
		default:
			r.t.Errorf("%s is left", name)
		}
	}
	if _, err := os.Stat(filepath.Join(r.dir, "var/lib/holdfast/site/data/c1")); err != nil {
		r.t.Errorf("the state of a controller: %v", err)
	}
}

// releases returns two packages, of which the second is newer. They are made of clones of this repository, and the
// second one twice, in different folders: with the same result.
func releases(t *testing.T) (first, second string) {
	t.Helper()
	dir := t.TempDir()
	one, two := filepath.Join(dir, "one"), filepath.Join(dir, "elsewhere/two")
	shell(t, "../..", nil, "git", "clone", "--quiet", ".", one)
	release := func(clone, out string) string {
		t.Helper()
		shell(t, clone, nil, "make", "packages", "DIST="+out)
		shell(t, out, nil, "sha256sum", "--check", "--quiet", "SHA256SUMS")
		return packaged(t, filepath.Join(out, "SHA256SUMS"), "*.deb")
	}
	shell(t, one, nil, "git", "tag", "v0.9.0")
	first = release(one, filepath.Join(dir, "first"))
	author := []string{"GIT_AUTHOR_NAME=test", "GIT_AUTHOR_EMAIL=test@localhost", "GIT_COMMITTER_NAME=test",
		"GIT_COMMITTER_EMAIL=test@localhost"}
	shell(t, one, author, "git", "commit", "--quiet", "--allow-empty", "--message=next")
	shell(t, one, nil, "git", "tag", "v0.9.1")
	second = release(one, filepath.Join(dir, "second"))
	shell(t, dir, nil, "git", "clone", "--quiet", one, two)
	release(two, filepath.Join(dir, "again"))
	sums := make([]string, 2)
	for i, out := range []string{"second", "again"} {
		text, err := os.ReadFile(filepath.Join(dir, out, "SHA256SUMS"))
		if err != nil {
			t.Fatal(err)
		}
		sums[i] = string(text)
	}
	if sums[0] != sums[1] {
		t.Errorf("the same commit in two folders:\n%s\n%s", sums[0], sums[1])
	}
	return first, second
}

// shell runs a command in a folder, and returns what it prints.
func shell(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
	return string(out)
}
