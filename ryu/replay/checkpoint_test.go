package replay

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// keeping returns a bed whose controllers want a checkpoint every 200 inputs, and verify it with 100 inputs.
func keeping(t *testing.T, nodes int) *bed {
	t.Helper()
	b := begun(t, nodes)
	for _, n := range b.nodes {
		n.core.bounds.checkpointEvery, n.core.bounds.proofInputs = 200, 100
	}
	return b
}

func (b *bed) more(count int) {
	b.t.Helper()
	for range count / 50 {
		b.packets(50, "packet")
		b.settle()
	}
}

func TestCheckpoint(t *testing.T) {
	b := keeping(t, 2)
	b.more(250)
	n := b.nodes[0]
	if s := n.core.Status(); n.core.proof.life == 0 || s.Checkpoint != 0 {
		t.Fatalf("a second host does not prove: %+v", s)
	}
	b.more(100)
	s := n.core.Status()
	if s.Checkpoint < 200 || s.NoCheckpoint != "" || n.core.proof.life != 0 || len(n.lives) != 1 {
		t.Fatalf("status %+v, %d lives", s, len(n.lives))
	}
	if number, state := n.replayed.Checkpoint(); number != s.Checkpoint || len(state) == 0 {
		t.Errorf("the checkpoint after %d is not kept", number)
	}
	b.check()
	n.host().die(End{Reason: "crashed"})
	b.settle()
	if last := n.begun[len(n.begun)-1]; last.Number != s.Checkpoint || len(last.State) == 0 {
		t.Errorf("the next host begins with %+v", last)
	}
	b.check()
	b.more(1000)
	if s := n.core.Status(); s.Checkpoint < 900 {
		t.Errorf("status %+v", s)
	}
	b.check()
}

func TestCheckpointIsRefused(t *testing.T) {
	b := keeping(t, 1)
	n := b.nodes[0]
	n.unkept = true
	b.more(300)
	s := n.core.Status()
	if s.NoCheckpoint != "it has a generator" || s.Checkpoint != 0 || len(n.begun) != 1 {
		t.Errorf("status %+v, %d hosts were begun", s, len(n.begun))
	}
	refused := n.core.proof.refused
	n.unkept = false
	b.more(50)
	if n.core.proof.refused != refused || len(n.begun) != 1 {
		t.Error("it is asked for again too soon")
	}
	b.more(300)
	if s := n.core.Status(); s.Checkpoint == 0 || s.NoCheckpoint != "" {
		t.Errorf("status %+v", s)
	}
	b.check()
}

func TestCheckpointIsDisproved(t *testing.T) {
	b := keeping(t, 1)
	n := b.nodes[0]
	n.forgets = true
	b.more(300)
	s := n.core.Status()
	if !strings.Contains(s.NoCheckpoint, "gave another result of input") || s.Checkpoint != 0 || len(n.lives) != 1 ||
		s.Diverged != 0 || s.Restarts != 0 {
		t.Errorf("status %+v, %d lives", s, len(n.lives))
	}
	b.check()
}

// The host that verifies a checkpoint dies, or the other host does meanwhile.
func TestDeathsAtCheckpoint(t *testing.T) {
	b := keeping(t, 1)
	n := b.nodes[0]
	b.more(250)
	n.lives[n.core.proof.life].die(End{Reason: "leaked", Input: 220, Detail: "much"})
	s := n.core.Status()
	if !strings.Contains(s.NoCheckpoint, "has ended: leaked at input 220: much") || s.Restarts != 0 ||
		n.core.proof.life != 0 {
		t.Errorf("status %+v", s)
	}
	b.more(200)
	if n.core.proof.life == 0 {
		t.Fatal("no second attempt")
	}
	n.host().die(End{Reason: "crashed"})
	if len(n.lives) != 0 || n.core.proof.life != 0 {
		t.Error("a host proves what nobody has asked for")
	}
	b.settle()
	b.more(400)
	if s := n.core.Status(); s.Checkpoint == 0 {
		t.Errorf("status %+v", s)
	}
	b.check()
}

// A checkpoint that arrives while its generation ends is dropped, and no other host starts from it.
func TestCheckpointWhileBeginning(t *testing.T) {
	b := keeping(t, 1)
	n := b.nodes[0]
	for !n.core.proof.asked {
		b.packets(10, "packet")
		b.step()
	}
	n.core.bounds.history = 0
	n.turn()
	if !n.core.beginning {
		t.Fatal("the applications do not begin")
	}
	n.core.Checkpointed(n.core.life, n.core.executed, []byte("state"), "")
	if n.core.proof.life != 0 || len(n.lives) != 1 {
		t.Errorf("proof %+v, %d lives", n.core.proof, len(n.lives))
	}
	n.core.bounds.history = usual.history
	b.settle()
	b.check()
}

// If a host dies when it is asked for its state, it is not asked again for a while, and no input is blamed.
func TestDeathByCheckpoint(t *testing.T) {
	b := keeping(t, 1)
	n := b.nodes[0]
	for !n.core.proof.asked {
		b.packets(10, "packet")
		b.step()
	}
	n.host().die(End{Reason: "hung", Input: n.core.executed + 1, Checkpoint: true, Detail: "in pickle"})
	if s := n.core.Status(); n.core.death.times != 0 || s.LastEnd != "hung at a checkpoint" ||
		!strings.Contains(s.NoCheckpoint, "in pickle") {
		t.Errorf("status %+v; %+v", s, n.core.death)
	}
	b.settle()
	b.more(100)
	if n.core.proof.asked || len(n.begun) != 2 {
		t.Errorf("it is asked again at once; %d hosts were begun", len(n.begun))
	}
	b.check()
}

// While a checkpoint is verified, a snapshot arrives whose history begins after it.
func TestCheckpointIsOvertaken(t *testing.T) {
	b := keeping(t, 2)
	n := b.nodes[1]
	b.nodes[0].core.bounds.checkpointEvery = 300
	b.more(250)
	if n.core.proof.life == 0 {
		t.Fatal("a second host does not prove")
	}
	b.nodes = b.nodes[:1]
	h := b.nodes[0].host()
	b.nodes[0].replayed.Trim(h.state.number, h.state.bytes())
	b.restore(n)
	b.nodes = append(b.nodes, n)
	b.settle()
	if n.core.proof.life != 0 || len(n.lives) != 1 {
		t.Error("what cannot be proved any more goes on")
	}
	b.more(400)
	b.check()
}

// Under constant load the host stays behind, but checkpoints are still made.
func TestCheckpointUnderLoad(t *testing.T) {
	b := keeping(t, 1)
	n := b.nodes[0]
	b.packets(1000, "packet")
	for range 100 {
		if s := n.core.Status(); s.Inputs > 0 && s.Inputs <= s.Executed+frameInputs &&
			n.replayed.Committed().Input > 1000 {
			t.Fatalf("that is no load: %+v", s)
		}
		b.step()
		b.packets(int(n.core.executed+1000-min(n.core.executed+1000, n.replayed.Hosting().Inputs)), "packet")
	}
	if s := n.core.Status(); s.Checkpoint == 0 {
		t.Errorf("there is none: %+v", s)
	}
	b.settle()
	b.check()
}

// Large messages fill the history before there are many of them.
func TestCheckpointOfLargeInputs(t *testing.T) {
	for _, tt := range []struct {
		name       string
		unkept     bool
		generation uint64
	}{{"kept", false, 1}, {"not kept", true, 2}} {
		b := begun(t, 2)
		for _, n := range b.nodes {
			n.core.bounds.history, n.core.bounds.proofInputs, n.unkept = 1<<20, 20, tt.unkept
		}
		random := rand.New(rand.NewPCG(1, 2))
		for range 150 {
			data := make([]byte, 8<<10)
			for i := range data {
				data[i] = byte(random.Uint32())
			}
			b.packets(1, string(data))
			b.settle()
		}
		b.check()
		for _, n := range b.nodes {
			if s := n.core.Status(); s.Generation != tt.generation || (s.Checkpoint > 0) == tt.unkept {
				t.Errorf("%s: controller %d: %+v", tt.name, n.id, s)
			}
		}
	}
}
