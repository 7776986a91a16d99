package netlab

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv("NETLAB_TEST_ABANDON") != "" {
		abandon()
	}
	goleak.VerifyTestMain(m)
}

func must[T any](v T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// line is h1 – s1 – s2 – h2, with static flows that let everything through.
type line struct {
	s1, s2         *Switch
	h1, h2         *Host
	left, mid, end *Link
}

func newLine(t *testing.T, lab *Lab) line {
	t.Helper()
	var n line
	n.s1 = must(lab.AddSwitch("s1", 0x11))(t)
	n.s2 = must(lab.AddSwitch("s2", 0x12))(t)
	n.h1 = must(lab.AddHost("h1", netip.MustParsePrefix("10.0.0.1/24")))(t)
	n.h2 = must(lab.AddHost("h2", netip.MustParsePrefix("10.0.0.2/24")))(t)
	n.left = must(lab.Connect(n.h1, n.s1))(t)
	n.mid = must(lab.Connect(n.s1, n.s2))(t)
	n.end = must(lab.Connect(n.s2, n.h2))(t)
	n.forward(t, n.s1)
	n.forward(t, n.s2)
	return n
}

func (n line) forward(t *testing.T, s *Switch) {
	t.Helper()
	must(s.OFCtl("add-flow", "in_port=1,actions=output:2"))(t)
	must(s.OFCtl("add-flow", "in_port=2,actions=output:1"))(t)
}

// ping returns how many of 5 pings from h1 to h2 were answered.
func (n line) ping(t *testing.T) int {
	t.Helper()
	echoes := must(n.h1.Ping(t.Context(), n.h2.Addr.Addr(), 5, 10*time.Millisecond, 300*time.Millisecond))(t)
	if len(echoes) != 5 {
		t.Fatalf("%d pings recorded, not 5", len(echoes))
	}
	answered := 0
	for i, e := range echoes {
		if e.Replies > 1 {
			t.Errorf("ping %d has %d replies", i, e.Replies)
		}
		if (e.Replies > 0) != (e.RTT > 0) || i > 0 && !e.Sent.After(echoes[i-1].Sent) {
			t.Errorf("ping %d: %+v after %+v", i, e, echoes[max(0, i-1)])
		}
		answered += e.Replies
	}
	return answered
}

func TestLine(t *testing.T) {
	lab := ForTest(t)
	began := time.Now()
	n := newLine(t, lab)
	t.Logf("two switches and two hosts in %v", time.Since(began).Round(time.Millisecond))
	if n.left.PortA != 0 || n.left.PortB != 1 || n.mid.PortA != 2 || n.mid.PortB != 1 || n.end.PortA != 2 ||
		n.end.PortB != 0 {
		t.Errorf("ports: left %+v, mid %+v, end %+v", n.left, n.mid, n.end)
	}
	if got := n.ping(t); got != 5 {
		t.Fatalf("%d of 5 pings answered", got)
	}

	t.Run("features", func(t *testing.T) {
		show := must(n.s2.OFCtl("show"))(t)
		for _, want := range []string{"dpid:0000000000000012", " 1(", " 2(", "LIVE"} {
			if !strings.Contains(show, want) {
				t.Errorf("no %q in\n%s", want, show)
			}
		}
	})
	t.Run("flows", func(t *testing.T) {
		flows := must(n.s1.Flows())(t)
		if len(flows) != 2 || !strings.HasSuffix(flows[0], "actions=output:2") && !strings.Contains(flows[0],
			"output:\"") {
			t.Errorf("flows: %q", flows)
		}
	})
	t.Run("cut", func(t *testing.T) {
		check(t, n.mid.Cut())
		if got := n.ping(t); got != 0 {
			t.Errorf("%d pings crossed a cut cable", got)
		}
		for _, s := range []*Switch{n.s1, n.s2} {
			if show := must(s.OFCtl("show"))(t); !strings.Contains(show, "LINK_DOWN") {
				t.Errorf("%s does not see the cut:\n%s", s.Name, show)
			}
		}
		check(t, n.mid.Restore())
		if got := n.ping(t); got == 0 {
			t.Error("no ping crosses the restored cable")
		}
	})
	t.Run("cut at a host", func(t *testing.T) {
		check(t, n.left.Cut())
		if got := n.ping(t); got != 0 {
			t.Errorf("%d pings crossed a cut cable", got)
		}
		check(t, n.left.Restore())
		if got := n.ping(t); got == 0 {
			t.Error("no ping crosses the restored cable")
		}
	})
	t.Run("silent cut", func(t *testing.T) {
		check(t, n.mid.CutSilently())
		check(t, n.mid.CutSilently())
		if got := n.ping(t); got != 0 {
			t.Errorf("%d pings crossed a broken cable", got)
		}
		if show := must(n.s1.OFCtl("show"))(t); strings.Contains(strings.Split(show, "LOCAL")[0], "DOWN") {
			t.Errorf("s1 sees the silent cut:\n%s", show)
		}
		check(t, n.mid.Restore())
		if got := n.ping(t); got != 5 {
			t.Errorf("%d of 5 pings cross the mended cable", got)
		}
	})
	t.Run("kill a switch", func(t *testing.T) {
		check(t, n.s2.Kill())
		if got := n.ping(t); got != 0 {
			t.Errorf("%d pings crossed a dead switch", got)
		}
		check(t, n.s2.Start())
		if flows := must(n.s2.Flows())(t); len(flows) != 0 {
			t.Errorf("flows outlived the switch: %q", flows)
		}
		n.forward(t, n.s2)
		if got := n.ping(t); got == 0 {
			t.Error("no ping crosses the restarted switch")
		}
	})
	t.Run("large udp with whole checksums", func(t *testing.T) { n.udp(t) })
	t.Run("raw frames", func(t *testing.T) { n.raw(t) })
	t.Run("quiet", func(t *testing.T) {
		eth0 := must(n.h2.Raw())(t)
		defer eth0.Close()
		check(t, eth0.SetReadDeadline(time.Now().Add(300*time.Millisecond)))
		buf := make([]byte, 2000)
		for {
			k, err := eth0.Read(buf)
			if err != nil {
				break
			}
			if etherType := buf[12:14]; !bytes.Equal(etherType, []byte{8, 6}) { // ARP probes of a former ping may come
				t.Errorf("a frame that nobody sent: %x", buf[:k])
			}
		}
	})
}

func (n line) udp(t *testing.T) {
	var server, client net.PacketConn
	check(t, n.h2.Do(func() (err error) { server, err = net.ListenPacket("udp4", "10.0.0.2:7000"); return err }))
	defer server.Close()
	check(t, n.h1.Do(func() (err error) { client, err = net.ListenPacket("udp4", "10.0.0.1:0"); return err }))
	defer client.Close()
	message := bytes.Repeat([]byte("holdfast"), 170)
	must(client.WriteTo(message, server.LocalAddr()))(t)
	check(t, server.SetReadDeadline(time.Now().Add(2*time.Second)))
	buf := make([]byte, 2000)
	k, from, err := server.ReadFrom(buf)
	if err != nil || !bytes.Equal(buf[:k], message) || from.String() != client.LocalAddr().String() {
		t.Errorf("got %d bytes from %v, error %v", k, from, err)
	}
}

func (n line) raw(t *testing.T) {
	out := must(n.h1.Raw())(t)
	defer out.Close()
	in := must(n.h2.Raw())(t)
	defer in.Close()
	frame := slices.Concat(n.h2.MAC, n.h1.MAC, []byte{0x88, 0xb5}, bytes.Repeat([]byte{7}, 50)) // local experimental
	must(out.Write(frame))(t)
	check(t, in.SetReadDeadline(time.Now().Add(2*time.Second)))
	for buf := make([]byte, 2000); ; {
		k, err := in.Read(buf)
		if err != nil {
			t.Fatalf("the frame did not come: %v", err)
		}
		if bytes.Equal(buf[:k], frame) {
			return
		}
	}
}

func TestControllers(t *testing.T) {
	lab := ForTest(t)
	s := must(lab.AddSwitch("s1", 1))(t)
	var addrs []string
	greeted := make(chan struct{}, 8)
	for range 2 {
		l := must(net.Listen("tcp", net.JoinHostPort(lab.Addr().String(), "0")))(t)
		defer l.Close()
		addrs = append(addrs, l.Addr().String())
		go serveHello(l, greeted)
	}
	check(t, s.SetControllers(addrs...))
	for range 2 {
		select {
		case <-greeted:
		case <-time.After(5 * time.Second):
			t.Fatal("the switch did not greet its controllers")
		}
	}

	check(t, s.Management.CutSilently())
	if conn, err := net.DialTimeout("tcp", lab.managementAddr(2).String()+":9", 50*time.Millisecond); err == nil ||
		!err.(net.Error).Timeout() {
		t.Errorf("dialling over a cut management link: %v, %v", conn, err)
	}
	check(t, s.Management.Restore())
	if conn, err := net.DialTimeout("tcp", lab.managementAddr(2).String()+":9", 5*time.Second); !errors.Is(err,
		syscall.ECONNREFUSED) {
		t.Errorf("dialling over the mended management link: %v, %v", conn, err)
	}

	check(t, s.SetControllers())
	if left := must(s.vsctl("get-controller", bridge))(t); left != "" {
		t.Errorf("controllers left: %s", left)
	}
}

// serveHello greets each switch, tells when it greets back, and then only listens.
func serveHello(l net.Listener, greeted chan<- struct{}) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		conn.Write([]byte{4, 0, 0, 8, 0, 0, 0, 1})
		go func() {
			defer conn.Close()
			for buf := make([]byte, 4096); ; {
				k, err := conn.Read(buf)
				if err != nil {
					return
				}
				if k >= 8 && buf[0] == 4 && buf[1] == 0 {
					greeted <- struct{}{}
				}
			}
		}()
	}
}

func TestMistakes(t *testing.T) {
	lab := ForTest(t)
	h1 := must(lab.AddHost("h1", netip.MustParsePrefix("10.0.0.1/24")))(t)
	h2 := must(lab.AddHost("h2", netip.MustParsePrefix("10.0.0.2/24")))(t)
	want := func(err error, text string) {
		t.Helper()
		if err == nil || err.Error() != text {
			t.Errorf("got %v, want %s", err, text)
		}
	}
	_, err := lab.AddHost("h1", netip.MustParsePrefix("10.0.0.1/24"))
	want(err, `name "h1" is taken in this lab`)
	_, err = lab.AddSwitch("the-switch", 1)
	want(err, `name "the-switch": use at most 8 of a-z and 0-9, a letter first: device names are short`)
	_, err = lab.AddHost("h3", netip.MustParsePrefix("fd00::1/64"))
	want(err, `host h3: fd00::1/64 is not an IPv4 address with prefix length`)
	_, err = lab.Connect(h1, h2)
	want(err, "connect: two hosts: put a switch between them")
	_, err = lab.Connect(h1, h2)
	want(err, "connect: host h1 has its cable already")
	_, err = h1.Ping(t.Context(), h2.Addr.Addr(), 0, time.Second, 0)
	want(err, "ping from h1: count 0 is not in 1…65535 or interval 1s not positive")
	check(t, lab.Close())
	check(t, lab.Close())
	_, err = lab.AddSwitch("s1", 1)
	want(err, "add s1: the lab is closed")
}

// abandon is another process that builds a lab and is killed before it can close it.
func abandon() {
	var s *Switch
	var h *Host
	lab, err := New(os.Getenv("NETLAB_TEST_ABANDON"))
	if err == nil {
		s, err = lab.AddSwitch("s1", 1)
	}
	if err == nil {
		h, err = lab.AddHost("h1", netip.MustParsePrefix("10.0.0.1/24"))
	}
	if err == nil {
		_, err = lab.Connect(s, h)
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(lab.scoped(""), s.daemon.cmd.Process.Pid, s.database.cmd.Process.Pid)
	select {}
}

// A lab whose process was killed leaves no daemon, and the next lab removes the rest.
func TestKilledProcess(t *testing.T) {
	if err := Available(); err != nil {
		ForTest(t) // skips or fails
	}
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), "NETLAB_TEST_ABANDON="+t.TempDir())
	out := must(child.StdoutPipe())(t)
	check(t, child.Start())
	said := must(bufio.NewReader(out).ReadString('\n'))(t)
	var prefix string
	var pids [2]int
	if _, err := fmt.Sscanln(said, &prefix, &pids[0], &pids[1]); err != nil {
		t.Fatalf("the child says %q: %v", said, err)
	}
	if devices, namespaces, _ := inventory(prefix); len(devices) != 2 || len(namespaces) != 2 {
		t.Fatalf("the child's lab is %q and %q", devices, namespaces)
	}
	lab := ForTest(t) // a living lab is left alone
	if _, namespaces, _ := inventory(prefix); len(namespaces) != 2 {
		t.Fatal("a second lab removed that of a living process")
	}
	check(t, lab.Close())

	check(t, child.Process.Kill())
	child.Wait()
	for _, pid := range pids {
		for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(5 * time.Millisecond) {
			if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); err != nil {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("daemon %d outlives its lab", pid)
			}
		}
	}
	ForTest(t) // it gets the number of the dead one
	if devices, namespaces, err := inventory(prefix); err != nil || !slices.Equal(devices, []string{prefix + "mgmt"}) ||
		len(namespaces) > 0 {
		t.Errorf("left over: %q, %q, %v", devices, namespaces, err)
	}
}
