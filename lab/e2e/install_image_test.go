package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// runsImage runs a cluster in what a container of an image sees, as its user.
func (r bareRoot) runsImage(archive string) {
	t := r.t
	top, err := os.MkdirTemp("", "holdfast-image-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(top) })
	c := bareRoot{t, filepath.Join(top, "root")}
	user := c.unpack(archive)
	c.prepare()
	// a container has devices
	shell(t, c.dir, nil, "mkdir", "dev")
	shell(t, c.dir, nil, "mknod", "-m", "666", "dev/null", "c", "1", "3")
	b := c.begin(func(dir string) string {
		name := filepath.Join(top, "holdfast")
		script := fmt.Sprintf("#!/bin/sh\nchown %[1]s %[2]s %[2]s/holdfast.yaml\n"+
			"exec setpriv --no-new-privs --inh-caps=-all --bounding-set=-all,+sys_chroot,+setuid,+setgid "+
			"chroot --userspec=%[1]s --groups= %[3]s /usr/bin/holdfast \"$@\"\n", user, dir, c.dir)
		if err := os.WriteFile(name, []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		return name
	})
	b.more()
	b.end(100)
	if got := b.s.command("health", "c1"); !strings.Contains(got, "c1: ") {
		t.Errorf("health says %q", got)
	}
	b.s.check(b.s.Close())
}

// unpack makes the root of what an archive in the OCI layout has, by programs of the machine. It returns the user.
func (r bareRoot) unpack(archive string) (user string) {
	t := r.t
	t.Helper()
	dir := filepath.Dir(r.dir)
	shell(t, dir, nil, "tar", "-xf", archive)
	type descriptor struct{ Digest string }
	var index struct{ Manifests []descriptor }
	var manifest struct {
		Config descriptor
		Layers []descriptor
	}
	var config struct{ Config struct{ User string } }
	blob := func(d descriptor) string { return "blobs/" + strings.Replace(d.Digest, ":", "/", 1) }
	read := func(name string, to any) {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err == nil {
			err = json.Unmarshal(text, to)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	read("index.json", &index)
	read(blob(index.Manifests[0]), &manifest)
	read(blob(manifest.Config), &config)
	if err := os.Mkdir(r.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, layer := range manifest.Layers {
		shell(t, dir, nil, "tar", "-xzpf", blob(layer), "--numeric-owner", "-C", r.dir)
	}
	if stat := shell(t, r.dir, nil, "stat", "-c", "%u:%g %a", "var/lib/holdfast"); stat != config.Config.User+" 750\n" {
		t.Errorf("the volume has owner and mode %s, want those of user %s", stat, config.Config.User)
	}
	return config.Config.User
}

// runsRPM installs a package for RPM in place of the one for Debian, upgrades and removes it. The scripts run inside,
// where there is no RPM.
func (r bareRoot) runsRPM(first, second string, before []string) {
	t := r.t
	r.run("userdel", "holdfast")
	r.run("rm", "-r", "/var/lib/holdfast")
	rpm := func(args ...string) string {
		t.Helper()
		return shell(t, ".", nil, "rpm", append([]string{"--root", r.dir, "--dbpath", "/var/lib/rpm", "--nodeps"}, args...)...)
	}
	rpm("--install", first)
	r.is("v0.9.0")
	r.enable()
	rpm("--upgrade", second)
	r.is("v0.9.1")
	if got := rpm("--verify", "holdfast"); got != "" {
		t.Errorf("rpm --verify: %s", got)
	}
	if got := r.run("stat", "-c", "%U:%G %a", "/var/lib/holdfast"); got != "holdfast:holdfast 750\n" {
		t.Errorf("/var/lib/holdfast has %s", got)
	}
	if _, err := os.Lstat(filepath.Join(r.dir, enabled)); err != nil {
		t.Errorf("an upgrade has disabled a service: %v", err)
	}
	files := shell(t, ".", nil, "rpm", "--query", "--list", "--package", second)
	for _, name := range []string{"/usr/bin/holdfast", "/usr/lib/systemd/system/holdfast-sentry.service",
		"/usr/share/man/man1/holdfast-serve.1.gz", "/usr/share/zsh/site-functions/_holdfast"} {
		if !strings.Contains(files, name+"\n") {
			t.Errorf("the package has no %s", name)
		}
	}
	if needs := shell(t, ".", nil, "rpm", "--query", "--requires", "--package", second); !strings.Contains(needs,
		"shadow-utils") || strings.Contains(needs, "libc") {
		t.Errorf("the package needs %s", needs)
	}
	r.run("install", "-d", "/var/lib/holdfast/site/data/c1")
	rpm("--erase", "holdfast")
	r.leavesState(before)
	if _, err := os.Lstat(filepath.Join(r.dir, enabled)); err == nil {
		t.Error("a service is enabled that is not installed")
	}
}
