package transport

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-sdn/holdfast/consensus/wire"
	"go.etcd.io/raft/v3/raftpb"
)

func of(group uint64, m wire.Message) wire.Message {
	m.Group = group
	return m
}

// arrival is a write of the other side, and when it came.
type arrival struct {
	at     time.Duration
	frames string // type and group of each
}

// Heartbeats of several groups leave in one write. No other message waits. A heartbeat waits for a millisecond at most,
// and an answer to one until the next heartbeats. Time is virtual.
func TestHeartbeatsGather(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		const tick = 5 * time.Millisecond
		tr := Start(Config{ID: 1, Peers: map[uint64]string{2: "two"}, Handler: newHeard(), Heartbeat: tick,
			Logger: slog.New(slog.DiscardHandler),
			Dial:   func(context.Context, uint64, string) (net.Conn, error) { return here, nil }})
		tr.Gather(true)
		if _, err := readHello(there); err != nil {
			t.Fatal(err)
		}
		_, _ = there.Write([]byte{0})
		synctest.Wait()
		start := time.Now()
		var writes []arrival
		go func() {
			for b := make([]byte, readSize); ; { // a pipe keeps the bounds of writes
				n, err := there.Read(b)
				if err != nil {
					return
				}
				writes = append(writes, arrival{time.Since(start), frames(t, b[:n])})
			}
		}()
		send := func(group uint64, typ raftpb.MessageType) {
			tr.Send([]wire.Message{of(group, message(typ, 1, 2, 0))})
		}
		expect := func(what string, want ...arrival) {
			t.Helper()
			time.Sleep(10 * time.Millisecond)
			synctest.Wait()
			if !slices.Equal(writes, want) {
				t.Errorf("%s: got %v, want %v", what, writes, want)
			}
			writes, start = nil, time.Now()
		}

		for group := range uint64(4) {
			send(group, raftpb.MsgHeartbeat)
			time.Sleep(gather / 5)
		}
		send(4, raftpb.MsgHeartbeatResp)
		expect("five groups", arrival{gather, "MsgHeartbeat of 0, MsgHeartbeat of 1, MsgHeartbeat of 2, " +
			"MsgHeartbeat of 3, " +
			"MsgHeartbeatResp of 4, "})

		send(1, raftpb.MsgHeartbeat)
		time.Sleep(2 * gather)
		send(2, raftpb.MsgHeartbeat)
		expect("a group that is late", arrival{gather, "MsgHeartbeat of 1, "},
			arrival{3 * gather, "MsgHeartbeat of 2, "})

		send(1, raftpb.MsgHeartbeat)
		send(2, raftpb.MsgHeartbeat)
		tr.Flush()
		expect("all groups of a tick", arrival{0, "MsgHeartbeat of 1, MsgHeartbeat of 2, "})

		send(1, raftpb.MsgHeartbeatResp)
		time.Sleep(2 * gather)
		send(2, raftpb.MsgHeartbeat)
		expect("an answer and the next heartbeat",
			arrival{3 * gather, "MsgHeartbeatResp of 1, MsgHeartbeat of 2, "})

		send(1, raftpb.MsgHeartbeatResp)
		expect("an answer alone", arrival{tick, "MsgHeartbeatResp of 1, "})

		send(1, raftpb.MsgApp)
		expect("entries", arrival{0, "MsgApp of 1, "})

		send(1, raftpb.MsgHeartbeat)
		time.Sleep(gather / 2)
		send(2, raftpb.MsgVote)
		expect("a vote behind a heartbeat", arrival{gather / 2, "MsgHeartbeat of 1, MsgVote of 2, "})

		tr.Gather(false)
		send(1, raftpb.MsgHeartbeat)
		expect("the only group", arrival{0, "MsgHeartbeat of 1, "})

		tr.Gather(true)
		send(1, raftpb.MsgHeartbeat)
		there.Close()
		tr.Close()
	})
}

// frames names the frames in b.
func frames(t *testing.T, b []byte) (names string) {
	var d wire.Decoder
	for len(b) > 0 {
		typ, n, err := wire.ParseFrameHeader([wire.FrameHeaderLen]byte(b))
		if err != nil {
			t.Fatal(err)
		}
		b = b[wire.FrameHeaderLen:]
		m, _, err := d.Frame(typ, b[:n])
		if err != nil {
			t.Fatal(err)
		}
		names += fmt.Sprintf("%s of %d, ", m.Raft.GetType(), m.Group)
		b = b[n:]
	}
	return names
}

// Snapshots of several groups for one controller are sent one after the other, whole, and none is refused because of
// another. Messages of all groups pass them.
func TestSnapshotsOfGroups(t *testing.T) {
	h1, h2 := newHeard(), newHeard()
	h2.block = make(chan struct{})
	t1 := pair(t, h1, h2)
	third := wire.ReplicaID(2, 3)
	sizes := []int{0, 64 << 20, wire.ChunkSize + 1} // buffers of the kernel do not hold the second
	snapshot := func(group uint64) wire.Message {
		m := of(group, message(raftpb.MsgSnap, wire.ReplicaID(1, 1), third, 0))
		m.State = bytes.Repeat([]byte{byte(group)}, sizes[group])
		return m
	}
	for group := range uint64(3) {
		t1.Send([]wire.Message{snapshot(group)})
	}
	t1.Send([]wire.Message{snapshot(2)}) // reported by Send
	t1.Send([]wire.Message{of(7, message(raftpb.MsgApp, 1, 2, 0))})
	if !t1.SendPayload(9, 2, []byte("payload")) {
		t.Error("a payload is refused")
	}
	close(h2.block)
	var order []uint64
	for range 4 {
		m := wait(t, "a message", h2.messages)
		if order = append(order, m.Group); m.Raft.GetType() == raftpb.MsgSnap && !bytes.Equal(m.State,
			snapshot(m.Group).State) {
			t.Errorf("group %d: %d bytes of state have arrived, not as sent", m.Group, len(m.State))
		}
	}
	if at := slices.Index(order, 7); at > 2 || !slices.Equal(slices.Delete(slices.Clone(order), at, at+1),
		[]uint64{0, 1, 2}) {
		t.Errorf("messages arrived in the order of the groups %d", order)
	}
	var sent []uint64
	refused := 0
	for range 4 {
		if r := wait(t, "a report", h1.sent); r.ok && r.replica == third {
			sent = append(sent, r.group)
		} else if r == (told{2, third, false}) {
			refused++
		}
	}
	if !slices.Equal(sent, []uint64{0, 1, 2}) || refused != 1 {
		t.Errorf("sent are the snapshots of groups %d; a second one of group 2 was refused %d times", sent, refused)
	}
	if m := wait(t, "the payload", h2.payloads); m.Group != 9 {
		t.Errorf("the payload is one of group %d", m.Group)
	}
}

// When a connection breaks, each group is told what it lost: every snapshot, and once that entries are missing.
func TestLostWithConnection(t *testing.T) {
	h := newHeard()
	tr := &Transport{}
	p := newPeer(Config{Handler: h, gathers: new(atomic.Bool)}, 2, "")
	p.setConnected(true)
	tr.peers.Store(&map[uint64]*peer{2: p})
	for range 2 {
		for group := range uint64(2) {
			tr.Send([]wire.Message{of(group, message(raftpb.MsgApp, 1, 2, 0)),
				of(group, message(raftpb.MsgHeartbeat, 1, 2, 0))})
		}
	}
	tr.Send([]wire.Message{of(0, message(raftpb.MsgSnap, 1, 2, 0)), of(5, message(raftpb.MsgSnap, 1, 2, 0))})
	p.setConnected(false)
	for _, group := range []uint64{0, 5} {
		if got := wait(t, "a snapshot", h.sent); got != (told{group, 2, false}) {
			t.Errorf("%+v instead of the snapshot of group %d", got, group)
		}
	}
	for group := range uint64(2) {
		if got := wait(t, "dropped entries", h.dropped); got != (told{group, 2, false}) {
			t.Errorf("%+v instead of the entries of group %d", got, group)
		}
	}
	if len(h.sent)+len(h.dropped) > 0 {
		t.Error("a group is told more than once")
	}
}

// A replica speaks for its controller only.
func TestForgedReplica(t *testing.T) {
	l2 := listen(t, "127.0.0.1:0")
	h2 := newHeard()
	run(t, Config{ID: 2, Listener: l2, Handler: h2})
	for _, ids := range [][2]uint64{{wire.ReplicaID(3, 1), 2}, {1, wire.ReplicaID(3, 1)},
		{wire.ReplicaID(1, 1), wire.ReplicaID(2, 9)}} {
		conn, err := net.Dial("tcp", l2.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if err := introduce(conn, wire.Hello{Version: wire.Version, From: 1, To: 2}); err != nil {
			t.Fatal(err)
		}
		b, err := wire.AppendMessage(nil, wire.Message{Group: 4,
			Raft: message(raftpb.MsgHeartbeat, ids[0], ids[1], 0).Raft})
		if err != nil {
			t.Fatal(err)
		}
		_, _ = conn.Write(b)
		if wire.ControllerOf(ids[0]) == 1 && wire.ControllerOf(ids[1]) == 2 {
			if m := wait(t, "the message", h2.messages); m.Group != 4 || m.Raft.GetFrom() != ids[0] {
				t.Errorf("group %d, from %#x", m.Group, m.Raft.GetFrom())
			}
		} else if _, err := io.ReadAll(conn); err != nil { // it is closed
			t.Error(err)
		}
		conn.Close()
	}
	if len(h2.messages) > 0 {
		t.Error("a forged message was delivered")
	}
}
