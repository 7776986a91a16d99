package wire

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/testing/protocmp"
)

func TestHello(t *testing.T) {
	want := Hello{Version: Version, From: 1, To: 1<<63 + 2, Founded: true, Cluster: "lab"}
	b := AppendHello(nil, want)
	got, n, err := ParseHello(b[:HelloLen])
	got.Cluster = string(b[HelloLen:])
	if err != nil || got != want || n != len(want.Cluster) {
		t.Errorf("%+v, %d, %v", got, n, err)
	}
	if _, _, err := ParseHello([]byte("GET / HTTP/1.1\r\nHost: controller\r\n")[:HelloLen]); err == nil {
		t.Error("a web browser is a member")
	}
}

// frames splits b and decodes it.
func frames(b []byte) ([]Message, error) {
	var d Decoder
	var all []Message
	for len(b) >= FrameHeaderLen {
		typ, n, err := ParseFrameHeader([FrameHeaderLen]byte(b))
		if err != nil {
			return all, err
		}
		if b = b[FrameHeaderLen:]; len(b) < n {
			break
		}
		m, ok, err := d.Frame(typ, b[:n])
		if err != nil {
			return all, err
		}
		if ok {
			all = append(all, m)
		}
		b = b[n:]
	}
	return all, nil
}

func message(typ raftpb.MessageType) *raftpb.Message {
	return &raftpb.Message{Type: &typ, From: new(uint64(1)), To: new(uint64(2)), Term: new(uint64(3)),
		Entries: []*raftpb.Entry{
			{Index: new(uint64(7)), Term: new(uint64(3)), Data: []byte("data")},
		}}
}

func TestMessages(t *testing.T) {
	app, snap := message(raftpb.MsgApp), message(raftpb.MsgSnap)
	state := bytes.Repeat([]byte("state "), ChunkSize/5)
	b, err := AppendMessage(nil, Message{Raft: app, Stored: 1 << 60, Hasten: true})
	if err != nil {
		t.Fatal(err)
	}
	b = AppendStateBegin(b, len(state))
	b = AppendStateChunk(b, state[:ChunkSize])
	b, _ = AppendMessage(b, Message{Group: 300, Raft: app}) // a message may overtake the snapshot
	b = AppendStateChunk(b, state[ChunkSize:])
	b, _ = AppendMessage(b, Message{Group: 1 << 63, Raft: snap})
	b, _ = AppendMessage(b, Message{Group: 2, Raft: snap}) // with an empty state
	got, err := frames(b)
	want := []Message{{Raft: app, Stored: 1 << 60, Hasten: true}, {Group: 300, Raft: app},
		{Group: 1 << 63, Raft: snap, State: state}, {Group: 2, Raft: snap}}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

func TestRefused(t *testing.T) {
	snap, _ := AppendMessage(nil, Message{Group: 1, Raft: message(raftpb.MsgSnap)})
	for name, b := range map[string][]byte{
		"frame too long":    {0xff, 0, 0, 0, TypeMessage},
		"empty frame":       {0, 0, 0, 0, TypeMessage},
		"unknown type":      {0, 0, 0, 1, 99},
		"no group":          {0, 0, 0, 1, TypeMessage},
		"half a group":      {0, 0, 0, 2, TypeMessage, 0xff},
		"long group":        append([]byte{0, 0, 0, 12, TypeMessage}, bytes.Repeat([]byte{0xff}, 11)...),
		"nothing stored":    {0, 0, 0, 2, TypeMessage, 0},
		"no protobuf":       {0, 0, 0, 4, TypeMessage, 0, 0, 0xff},
		"payload, no group": {0, 0, 0, 1, TypePayloadEnd},
		"short begin":       {0, 0, 0, 2, TypeStateBegin, 1},
		"state too large":   AppendStateBegin(nil, MaxState+1),
		"unasked chunk":     AppendStateChunk(nil, []byte("x")),
		"incomplete state":  append(AppendStateBegin(nil, 5), snap...),
		"too much state":    AppendStateChunk(AppendStateBegin(nil, 1), []byte("xx")),
	} {
		if _, err := frames(b); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// FuzzFrames: for any bytes, the decoder does not panic, and does not allocate more than their length.
func FuzzFrames(f *testing.F) {
	b, _ := AppendMessage(nil, Message{Group: 1, Raft: message(raftpb.MsgApp)})
	f.Add(b)
	f.Add(AppendStateChunk(AppendStateBegin(nil, 2), []byte("xx")))
	b, _ = AppendPayload(nil, 1<<40, []byte("payload"))
	f.Add(append([]byte{0, 0, 0, 3, TypePayloadPart, 1, 2}, b...))
	f.Add([]byte{0, 0, 0, 3, TypeMessage, 0x80, 0x80})
	f.Fuzz(func(t *testing.T, b []byte) {
		all, _ := frames(b)
		for _, m := range all {
			if len(m.State)+len(m.Payload) > len(b) {
				t.Errorf("%d and %d bytes of state and payload from %d bytes", len(m.State), len(m.Payload), len(b))
			}
			if m.Raft != nil { // what was accepted can be sent again
				if _, err := AppendMessage(nil, m); err != nil {
					t.Error(err)
				}
			}
		}
	})
}

// A payload arrives whole, whatever frames of Raft are between its parts.
func TestPayload(t *testing.T) {
	for _, size := range []int{0, 1, PartSize, PartSize + 1, 3*PartSize + 7, MaxPayload} {
		payload := bytes.Repeat([]byte{7}, size)
		var d Decoder
		parts := 0
		for rest, more := payload, true; more; more = len(rest) > 0 {
			var frame []byte
			frame, rest = AppendPayload(nil, 1<<20, rest)
			parts++
			typ, n, err := ParseFrameHeader([FrameHeaderLen]byte(frame))
			if err != nil || n != len(frame)-FrameHeaderLen || n > PartSize+binary.MaxVarintLen64 {
				t.Fatalf("%d bytes: part %d has %d bytes, error %v", size, parts, n, err)
			}
			m, whole, err := d.Frame(typ, frame[FrameHeaderLen:])
			if err != nil || whole != (len(rest) == 0) {
				t.Fatalf("%d bytes: after part %d whole is %t, error %v", size, parts, whole, err)
			}
			if whole && (m.Raft != nil || m.Group != 1<<20 || !bytes.Equal(m.Payload, payload)) {
				t.Fatalf("%d bytes arrive as %d", size, len(m.Payload))
			}
			if _, _, err := d.Frame(TypeStateBegin, make([]byte, 8)); err != nil {
				t.Fatal(err)
			}
		}
		if want := max(1, (size+PartSize-1)/PartSize); parts != want {
			t.Errorf("%d bytes are sent in %d parts, want %d", size, parts, want)
		}
	}
	d := Decoder{payload: make([]byte, MaxPayload)}
	if _, _, err := d.Frame(TypePayloadPart, make([]byte, 1)); err == nil {
		t.Error("a payload that is too long is accepted")
	}
}

// The id of a replica names its controller, and is none that raft reserves.
func TestReplicaID(t *testing.T) {
	for _, controller := range []uint64{1, 2, 1 << 47, MaxController} {
		for _, n := range []uint16{0, 1, 1<<16 - 1} {
			id := ReplicaID(controller, n)
			if ControllerOf(id) != controller || id>>48 != uint64(n) || raft.IsLocalMsgTarget(id) {
				t.Errorf("replica %d at controller %d has the id %#x, at controller %d", n, controller, id,
					ControllerOf(id))
			}
		}
	}
	if !raft.IsLocalMsgTarget(ReplicaID(MaxController+1, 1<<16-1)) {
		t.Error("a larger id of a controller would do")
	}
}
