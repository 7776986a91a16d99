package load

import (
	"bytes"
	"encoding/hex"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/holdfast-sdn/holdfast/apps/learning"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of10"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
	"pgregory.net/rapid"
)

func messages(b []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for {
			msg, rest, err := openflow.Next(b)
			if err != nil || msg == nil || !yield(msg) {
				return
			}
			b = rest
		}
	}
}

// ask sends one message to a switch and returns the only answer, or nil.
func ask(t *testing.T, s *fakeSwitch, msg []byte) []byte {
	t.Helper()
	s.stopped = true
	if err := s.receive(msg, 1); err != nil {
		t.Fatal(err)
	}
	return s.fill(nil, 1, sendLimit)
}

// Applications learn all sources: a port has no more of them than they learn there.
func TestSourcesOfAPort(t *testing.T) {
	const macs = 3*sourcesPerPort + 1
	s := newSwitch13(5, macs, newWindow(macs, dialect13.ids))
	s.ready = true
	sources := map[of13.Port]map[string]bool{}
	for msg := range messages(s.fill(nil, 1, macs*len(s.packetIn))) {
		var in of13.PacketIn
		if err := in.Decode(msg); err != nil {
			t.Fatal(err)
		}
		port, _ := in.Match.InPort()
		if sources[port] == nil {
			sources[port] = map[string]bool{}
		}
		sources[port][string(in.Data[6:12])] = true
	}
	got := map[of13.Port]int{}
	for port, of := range sources {
		got[port] = len(of)
	}
	want := map[of13.Port]int{sourcePort: sourcesPerPort, 3: sourcesPerPort, 4: sourcesPerPort, 5: 1}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if sourcesPerPort >= learning.MaxHosts {
		t.Error("the learning application does not learn all sources of a port")
	}
}

// The messages that cbench answers, and the answers.
func TestSwitch10Control(t *testing.T) {
	const none = -1
	s := newSwitch10(5, 10, nil)
	for _, c := range []struct {
		name    string
		ask     uint8
		body    []byte
		want    int // type of the answer, or none
		answers []byte
	}{
		{"hello", openflow.TypeHello, nil, int(openflow.TypeHello), nil},
		{"echo, without the data", openflow.TypeEchoRequest, []byte("data"), int(openflow.TypeEchoReply), nil},
		{"set config", of13.TypeSetConfig, []byte{0, 1, 0, 99}, none, nil},
		{"get config", of13.TypeGetConfigRequest, nil, int(of13.TypeGetConfigReply), []byte{0, 1, 0, 99}},
		{"barrier", of10.TypeBarrierRequest, nil, int(of10.TypeBarrierReply), nil},
		{"description", of10.TypeStatsRequest, make([]byte, 4), int(of10.TypeStatsReply), append(make([]byte, 4),
			desc10...)},
		{"other statistics", of10.TypeStatsRequest, []byte{0, 3, 0, 0}, none, nil},
		{"vendor", openflow.TypeExperimenter, []byte{0, 0, 0x23, 0x20}, int(openflow.TypeError), []byte{0, 1, 0, 3}},
		{"port-mod", of10.TypePortMod, make([]byte, 24), none, nil},
	} {
		got := ask(t, s, message10(nil, c.ask, 77, c.body))
		if c.want == none {
			if len(got) != 0 {
				t.Errorf("%s: %x", c.name, got)
			}
			continue
		}
		if want := message10(nil, uint8(c.want), 77, c.answers); !bytes.Equal(got, want) {
			t.Errorf("%s: %x, want %x", c.name, got, want)
		}
	}
	all := ask(t, s, message10(nil, of13.TypeFeaturesRequest, 77, nil))
	first, rest, _ := openflow.Next(all)
	ports, err := of10.PortsToV13(nil, first)
	var desc of13.MultipartReply
	if err != nil || desc.Decode(ports) != nil || desc.PortDescs().Len() != 4 || be.Uint64(first[8:]) != 5 ||
		len(first) != 224 || openflow.XID(first) != 77 {
		t.Errorf("%v, %x", err, first)
	}
	for p := range desc.PortDescs().All() {
		if !strings.HasPrefix(p.Name, "veth") || p.HwAddr != portMAC(byte(p.Port)) ||
			p.Curr != of13.Port10GbFD|of13.PortCopper {
			t.Errorf("%+v", p)
		}
	}
	if !bytes.Equal(rest, s.announce) {
		t.Errorf("%x follows the features, not the announcement", rest)
	}
	if again := ask(t, s, message10(nil, of13.TypeFeaturesRequest, 78, nil)); len(again) != 224 {
		t.Error("announced twice")
	}
}

// The bytes are those of cbench, except for the payload after the IP header.
func TestPacketIns10(t *testing.T) {
	s := newSwitch10(0x0103, 2, nil)
	s.ready = true
	want := []string{
		"010a0052" + "00000002" + "00000001" + "0040" + "0001" + "0000" + "800000000003" + "000000000003" + "0800" +
			"4500003200000000" + "40fff72c" + "c0a80028" + "c0a80128",
		"010a0052" + "00000003" + "00000002" + "0040" + "0001" + "0000" + "800000000003" + "000100000003" + "0800",
		"010a0052" + "00000004" + "00000003" + "0040" + "0001" + "0000" + "800000000003" + "000000000003" + "0800",
	}
	got := slices.Collect(messages(s.fill(nil, 1, 3*82)))
	if len(got) != len(want) {
		t.Fatalf("%d messages", len(got))
	}
	for i := range want {
		if h := hex.EncodeToString(got[i]); len(got[i]) != 82 || h[:len(want[i])] != want[i] {
			t.Errorf("message %d: %s", i, h)
		}
	}
	arp := "010a0052" + "00000001" + "ffffffff" + "0040" + "0002" + "0000" + "ffffffffffff" + "800000000003" + "0806" +
		"0001080006040002" +
		"800000000003" + "c0a80328" + "800000000003" + "c0a80328"
	if h := hex.EncodeToString(s.announce); len(s.announce) != 82 || h[:len(arp)] != arp {
		t.Errorf("announcement %s", h)
	}
	s.number = 99_999
	ids := slices.Collect(messages(s.fill(nil, 1, 2*82)))
	if be.Uint32(ids[0][8:]) != 99_999 || be.Uint32(ids[1][8:]) != 0 {
		t.Errorf("buffer ids %x, %x", ids[0][8:12], ids[1][8:12])
	}
}

func TestSwitch13Control(t *testing.T) {
	s := newSwitch13(5, 10, nil)
	role := &of13.RoleRequest{Role: of13.RoleMaster, GenerationID: 3}
	for _, c := range []struct {
		name string
		ask  of13.Message
		want of13.Message
	}{
		{"echo", &of13.EchoRequest{Data: []byte("data")}, &of13.EchoReply{Data: []byte("data")}},
		{"set config", &of13.SetConfig{Flags: 1, MissSendLen: 99}, nil},
		{"get config", &of13.GetConfigRequest{}, &of13.GetConfigReply{Flags: 1, MissSendLen: 99}},
		{"barrier", &of13.BarrierRequest{}, &of13.BarrierReply{}},
		{"role", role, &of13.RoleReply{Role: of13.RoleMaster, GenerationID: 3}},
		{"role query", &of13.RoleRequest{}, &of13.RoleReply{Role: of13.RoleMaster, GenerationID: 3}},
		{"ports", &of13.MultipartRequest{Part: of13.PartPortDesc},
			&of13.MultipartReply{Part: of13.PartPortDesc, Body: ports13()}},
		{"flows", &of13.MultipartRequest{Part: of13.PartFlow, Body: of13.FlowStatsRequest{}.AppendTo(nil)},
			&of13.MultipartReply{Part: of13.PartFlow}},
		{"groups", &of13.MultipartRequest{Part: of13.PartGroupDesc}, &of13.MultipartReply{Part: of13.PartGroupDesc}},
		{"group-mod", &of13.GroupMod{}, nil},
		{"features", &of13.FeaturesRequest{}, &of13.FeaturesReply{DatapathID: 5, NBuffers: 256, NTables: 1,
			Capabilities: 7}},
	} {
		got, _, _ := openflow.Next(ask(t, s, c.ask.Append(nil, 77)))
		if c.want == nil {
			if len(got) != 0 {
				t.Errorf("%s: %x", c.name, got)
			}
			continue
		}
		m, err := of13.Decode(got)
		if err != nil || openflow.XID(got) != 77 {
			t.Errorf("%s: %x: %v", c.name, got, err)
		}
		if d := cmp.Diff(c.want, m, cmpopts.EquateEmpty()); d != "" {
			t.Errorf("%s: %s", c.name, d)
		}
	}
	for part := of13.PartDesc; part <= of13.PartPortDesc; part++ { // every answer must be valid
		request := (&of13.MultipartRequest{Part: part, Body: make([]byte, 8)}).Append(nil, 1)
		if new(of13.MultipartRequest).Decode(request) != nil {
			request = (&of13.MultipartRequest{Part: part}).Append(nil, 1)
		}
		if new(of13.MultipartRequest).Decode(request) != nil {
			continue
		}
		if _, err := of13.Decode(ask(t, s, request)); err != nil {
			t.Errorf("%v: %v", part, err)
		}
	}
}

func TestWhatCounts(t *testing.T) {
	lldp := make([]byte, 60)
	lldp[12], lldp[13] = 0x88, 0xcc
	tagged := append([]byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x81, 0, 0, 1}, lldp[12:]...)
	out10 := func(buffer uint32, frame []byte) []byte { // with one action
		body := append(be.AppendUint32(nil, buffer), 0, 0, 0, 8, 0, 0, 0, 8, 0, 1, 0, 0)
		return message10(nil, of13.TypePacketOut, 1, append(body, frame...))
	}
	v13 := func(command uint8, buffer uint32) []byte {
		return (&of13.FlowMod{Command: command, BufferID: buffer}).Append(nil, 1)
	}
	for _, c := range []struct {
		name    string
		msg     []byte
		answers bool
	}{
		{"1.0 add", flowMod10(of13.FlowAdd), true},
		{"1.0 modify", flowMod10(of13.FlowModify), false},
		{"1.0 modify strict", flowMod10(of13.FlowModifyStrict), true},
		{"1.0 delete", flowMod10(of13.FlowDelete), false},
		{"1.0 packet-out", out10(9, nil), true},
		{"1.0 LLDP", out10(of13.NoBuffer, lldp), false},
		{"1.0 LLDP with a tag", out10(of13.NoBuffer, tagged), false},
		{"1.3 add", v13(of13.FlowAdd, 1), true},
		{"1.3 add for another buffer", v13(of13.FlowAdd, 9), false},
		{"1.3 add without buffer", v13(of13.FlowAdd, of13.NoBuffer), false},
		{"1.3 delete", v13(of13.FlowDelete, 1), false},
		{"1.3 packet-out", (&of13.PacketOut{BufferID: 1}).Append(nil, 1), true},
		{"1.3 packet-out with data", (&of13.PacketOut{BufferID: of13.NoBuffer, Data: lldp}).Append(nil, 1), false},
	} {
		s := newSwitch13(1, 10, newWindow(2, dialect13.ids))
		if c.msg[0] == openflow.Version10 {
			s = newSwitch10(1, 10, newWindow(2, dialect10.ids))
		}
		s.ready, s.measuring = true, true
		s.fill(nil, 1, sendLimit)
		if err := s.receive(c.msg, 3); err != nil {
			t.Fatal(c.name, err)
		}
		if got := s.counts.Answered == 1; got != c.answers || s.counts.Unexpected+s.counts.Answered != 1 ||
			(s.win.open == 1) != got || (s.latency.Max() == 2) != got {
			t.Errorf("%s: %+v, %d open", c.name, s.counts, s.win.open)
		}
	}
}

// A 1.0 controller that requests the configuration may have dropped what arrived before.
// In Paced mode latency counts from when a packet-in was due: also if the switch was late, and if the window was full.
func TestLatencyCountsFromDue(t *testing.T) {
	s := newSwitch13(1, 10, newWindow(2, dialect13.ids))
	s.ready, s.measuring, s.every, s.next = true, true, 10, 100
	var answers []byte // to what was sent last
	sent := func(now time.Duration) (n int) {
		answers = answers[:0]
		r := &responder{version: openflow.Version13}
		for msg := range messages(s.fill(nil, now, sendLimit)) {
			answer := r.flowMod()
			be.PutUint32(answer[32:], be.Uint32(msg[8:]))
			answers = append(answers, answer...)
			n++
		}
		return n
	}
	for _, step := range []struct {
		now   time.Duration
		sends int
	}{{99, 0}, {100, 1}, {100, 0}, {135, 1}, {150, 0}} { // 120 and later ones wait: the window is full
		if n := sent(step.now); n != step.sends {
			t.Errorf("%d packet-ins at %d, want %d", n, step.now, step.sends)
		}
		if step.now == 135 && s.late.Max() != 25 {
			t.Errorf("110 was sent %d late", s.late.Max())
		}
	}
	s.win.settle(1)
	s.win.settle(2)
	if n := sent(160); n != 2 {
		t.Errorf("%d packet-ins when there is room", n)
	}
	if err := s.receive(answers, 165); err != nil || s.latency.Max() != 45 || s.latency.Quantile(0) != 35 {
		t.Errorf("latencies %d and %d: %v", s.latency.Quantile(0), s.latency.Max(), err)
	}
}

func TestHandshakeForgets(t *testing.T) {
	s := newSwitch10(1, 10, newWindow(1, dialect10.ids))
	s.ready = true
	s.fill(nil, 1, sendLimit)
	if s.waits() {
		t.Fatal("the window is full")
	}
	if err := s.receive(message10(nil, of13.TypeGetConfigRequest, 1, nil), 2); err != nil {
		t.Fatal(err)
	}
	if s.fill(nil, 3, sendLimit); s.counts.Sent != 2 || s.counts.Lost != 1 {
		t.Errorf("%+v", s.counts)
	}
}

func TestBadInputIsAnError(t *testing.T) {
	for _, s := range []*fakeSwitch{newSwitch10(1, 1, nil), newSwitch13(1, 1, nil)} {
		for _, typ := range []uint8{typeFlowMod, typePacketOut, of13.TypeSetConfig} {
			msg := openflow.AppendHeader(nil, s.hello[0], typ, 1)
			openflow.SetLength(msg)
			if err := s.receive(msg, 1); err == nil {
				t.Errorf("version %d, type %d: accepted", s.hello[0], typ)
			}
		}
	}
}

// The window compared with a map.
func TestWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, 8).Draw(t, "size")
		w := newWindow(size, 16)
		sent := map[uint64]time.Duration{} // by number
		for now := time.Duration(1); now < 60; now++ {
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0, 1:
				if w.room() > 0 {
					n := w.next
					if id := w.send(now); uint64(id) != n%16 {
						t.Fatalf("number %d has id %d", n, id)
					}
					sent[n] = now
				}
			case 2:
				id := uint32(rapid.IntRange(0, 17).Draw(t, "id"))
				at, ok := w.answer(id)
				n, want := uint64(0), false
				for number := range sent {
					if number%16 == uint64(id) {
						n, want = number, true
					}
				}
				if ok != want || ok && at != sent[n] {
					t.Fatalf("answer %d: %v, %v; outstanding %v", id, at, ok, sent)
				}
				delete(sent, n)
			case 3:
				before := now - time.Duration(rapid.IntRange(5, 30).Draw(t, "age"))
				lost := 0
				for n, at := range sent {
					if at < before {
						delete(sent, n)
						lost++
					}
				}
				if got := w.expire(before); int(got) != lost {
					t.Fatalf("%d lost, want %d", got, lost)
				}
			}
			span := 0
			for n := range sent {
				span = max(span, int(w.next-n))
			}
			if w.open != len(sent) || w.room() != size-span {
				t.Fatalf("%d open of %d, room for %d beside %d", w.open, len(sent), w.room(), span)
			}
		}
	})
}

func TestHistogram(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Int64Range(0, 1<<40), 1, 200).Draw(t, "values")
		var a, b Histogram
		for i, v := range values {
			if i%2 == 0 {
				a.Record(time.Duration(v))
			} else {
				b.Record(time.Duration(v))
			}
		}
		a.Merge(&b)
		slices.Sort(values)
		if a.Count() != uint64(len(values)) || a.Max() != time.Duration(values[len(values)-1]) {
			t.Fatalf("%d up to %v", a.Count(), a.Max())
		}
		for _, q := range []float64{0, 0.5, 0.99, 1} {
			want := values[int(q*float64(len(values)-1))]
			if got := int64(a.Quantile(q)); got < want || float64(got) > float64(want)*1.04+1 {
				t.Fatalf("quantile %v: %d, want %d", q, got, want)
			}
		}
	})
	var h Histogram
	h.Record(-1)
	h.Record(1<<63 - 1)
	if h.Quantile(0) != 0 || h.Quantile(1) != 1<<63-1 || new(Histogram).Quantile(0.5) != 0 {
		t.Errorf("%v, %v", h.Quantile(0), h.Quantile(1))
	}
}

// A controller that drops packet-ins until it knows the ports receives none before that.
func TestSwitch13AfterPorts(t *testing.T) {
	s := newSwitch13(5, 10, nil)
	s.afterPorts = true
	if ask(t, s, (&of13.FeaturesRequest{}).Append(nil, 1)); s.ready {
		t.Error("packet-ins may go when only the features were asked for")
	}
	answer := ask(t, s, (&of13.MultipartRequest{Part: of13.PartPortDesc}).Append(nil, 2))
	_, after, err := openflow.Next(answer)
	if err != nil || !s.ready || !slices.Equal(after[:len(s.announce)], s.announce) {
		t.Errorf("behind the ports come %x, ready %v, %v; want the announcement", after, s.ready, err)
	}
}
