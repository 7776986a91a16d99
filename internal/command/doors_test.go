package command

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A socket that was left is replaced, and nothing else. Only the owner and the group can connect.
func TestListenAtSocket(t *testing.T) {
	t.Chdir(t.TempDir()) // for a path of a known length
	for _, name := range []string{"left", "other"} {
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: name, Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if name == "left" {
			l.SetUnlinkOnClose(false) // as if it had been killed
			l.Close()
		}
	}
	longest := strings.Repeat("x", maxSocketPath)
	for _, name := range []string{"new", "left", longest} {
		l, err := listenForSwitches("unix:"+name, false)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o660 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
		connects(t, name)
	}
	if err := os.WriteFile("file", []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("new", "link"); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"new":         "another process listens there",
		"other":       "another process listens there",
		"file":        "no socket",
		"link":        "no socket",
		"missing/s":   "make a folder",
		"file/s":      "not a directory",
		"@abstract":   "name a file",
		"":            "0 bytes: use 1 to 107",
		longest + "x": "108 bytes",
	} {
		if _, err := listenForSwitches("unix:"+path, true); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
	if text, err := os.ReadFile("file"); string(text) != "kept" {
		t.Errorf("the file has %q, %v", text, err)
	}
	connects(t, "new") // others who tried to listen there have changed nothing
	connects(t, "other")
}

func connects(t *testing.T, path string) {
	t.Helper()
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
}

// Who has ended leaves nothing in the way.
func TestListenAtSocketAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	for range 2 {
		l, err := listenForSwitches("unix:"+path, false)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(path); !os.IsNotExist(err) {
			t.Errorf("the socket is left: %v", err)
		}
	}
}

// A switch may have an agent at a Unix socket among its controllers.
func TestDialable(t *testing.T) {
	for _, c := range []struct {
		addresses []string
		want      string // of the error
	}{
		{[]string{"127.0.0.1:6653"}, ""},
		{[]string{"unix:/run/holdfast/s1.sock"}, ""},
		{[]string{"unix:/run/holdfast/s1.sock", "127.0.0.1:6653"}, ""},
		{nil, "no controller address"},
		{[]string{"unix:"}, "0 bytes"},
		{[]string{"unix:@s"}, "name a file"},
		{[]string{"unix:" + strings.Repeat("x", maxSocketPath+1)}, "108 bytes"},
		{[]string{"unix:/s", "here"}, `"here"`},
	} {
		err := dialable(c.addresses, true)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.addresses, err, c.want)
		}
	}
	if err := dialable([]string{"unix:/s"}, false); err == nil {
		t.Error("an agent may have a controller at a Unix socket")
	}
}
