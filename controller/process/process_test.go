package process

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/consensus"
	"github.com/holdfast-sdn/holdfast/controller/client"
	"github.com/holdfast-sdn/holdfast/internal/config"
	"github.com/holdfast-sdn/holdfast/ledger"
)

// ofOne returns a cluster of one controller without applications.
func ofOne(t *testing.T) (*config.Cluster, Config) {
	text := fmt.Sprintf("data: %s\ndurability: memory\ncontrollers:\n- name: c1\n", t.TempDir())
	for _, key := range []string{"peer", "openflow", "api"} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close() // kept open until the end, so that no two addresses are equal
		text += fmt.Sprintf("  %s: %s\n", key, l.Addr())
	}
	s, err := config.Parse("holdfast.yaml", []byte(text), []string{"learning"})
	if err != nil {
		t.Fatal(err)
	}
	return s, Config{Cluster: s, Name: "c1", Logger: slog.New(slog.DiscardHandler),
		Applications: func() ([]ledger.Application, error) { return nil, nil }}
}

func TestRun(t *testing.T) {
	s, cfg := ofOne(t)
	if err := Found(s, "c1", cfg.Logger); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ended := make(chan error)
	go func() { ended <- Run(ctx, cfg) }()
	c, err := client.New(s, cfg.Logger, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for c.Status(ctx).Leader == "" {
		select {
		case err := <-ended:
			t.Fatal(err)
		case <-time.After(10 * time.Millisecond):
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A controller without a data folder does not create one by itself. It names the command that does, and closes what
// it has opened.
func TestRunWithoutFolder(t *testing.T) {
	s, cfg := ofOne(t)
	for range 2 {
		if err := Run(t.Context(), cfg); !errors.Is(err, consensus.ErrNoLog) ||
			!strings.Contains(err.Error(), "holdfast init") {
			t.Errorf("got %v", err)
		}
	}
	l, err := net.Listen("tcp", s.Controllers[0].API)
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	cfg.Name = "c2"
	if err := Run(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "no controller is called") {
		t.Errorf("got %v", err)
	}
}
