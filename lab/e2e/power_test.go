package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-sdn/holdfast/lab/cluster"
)

// imageDisk is a file system in a file. A copy of the file is the state of the disk after a power failure, without what
// was only in memory.
type imageDisk struct {
	t           *testing.T
	image, dir  string
	generations int
}

// newImageDisk mounts an empty one at dir; ok is false if this machine cannot.
func newImageDisk(t *testing.T, image, dir string) *imageDisk {
	t.Helper()
	d := &imageDisk{t: t, image: image, dir: dir}
	for _, c := range [][]string{{"truncate", "-s", "400M", image}, {"mkfs.ext4", "-q", image}, {"mkdir", "-p", dir}} {
		d.run(c...)
	}
	if out, err := exec.Command("mount", "-o", "loop", image, dir).CombinedOutput(); err != nil {
		t.Skipf("mount a file system from a file: %v: %s", err, out)
	}
	t.Cleanup(func() { d.run("umount", d.dir) })
	return d
}

func (d *imageDisk) run(args ...string) {
	d.t.Helper()
	if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		d.t.Fatalf("%s: %v: %s", strings.Join(args, " "), err, out)
	}
}

// freeze copies what the disk holds now, while nobody uses it.
func (d *imageDisk) freeze() {
	d.t.Helper()
	d.generations++
	d.run("cp", "--sparse=always", d.image, fmt.Sprintf("%s.%d", d.image, d.generations))
}

// thaw continues with that copy.
func (d *imageDisk) thaw() {
	d.t.Helper()
	d.run("umount", d.dir)
	next := fmt.Sprintf("%s.%d", d.image, d.generations)
	d.run("mv", next, d.image)
	d.run("mount", "-o", "loop", d.image, d.dir)
}

// TestPowerLoss cuts the power of the machines of all controllers at once, under traffic: writes that were not synced
// are lost. Nothing that was acknowledged is.
func TestPowerLoss(t *testing.T) {
	notInShort(t)
	if os.Getuid() != 0 {
		t.Skip("only root can mount file systems")
	}
	t.Parallel()
	var disks []*imageDisk
	s := startCluster(t, cluster.Config{Agents: 2, Durability: "disk", SnapshotEvery: 200,
		Before: func(dir string) error {
			for i := range 3 {
				name := fmt.Sprintf("c%d", i+1)
				disks = append(disks, newImageDisk(t, filepath.Join(dir, name+".img"),
					filepath.Join(dir, "data", name)))
			}
			return nil
		}})
	s.connect()
	stop := s.traffic()
	for round := range 3 {
		s.traffickedSince(1000 * round)
		for _, c := range s.Controllers() {
			s.check(c.Signal(syscall.SIGKILL))
		}
		for i, c := range s.Controllers() {
			c.WaitEnd()
			disks[i].freeze()
		}
		for i, c := range s.Controllers() {
			disks[i].thaw()
			s.check(c.Restart())
		}
		s.leader()
	}
	stop()
	s.play(4, nil)
	s.exact()
	for _, c := range s.Controllers() {
		if n := s.countLines(c.LogFile(), "cut off"); n > 0 {
			t.Logf("%s found an unfinished record at the end of its log %d times", c.Name, n)
		}
	}
}
