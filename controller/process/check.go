package process

import (
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/holdfast-sdn/holdfast/internal/access"
	"github.com/holdfast-sdn/holdfast/internal/config"
	"github.com/holdfast-sdn/holdfast/internal/token"
	"github.com/holdfast-sdn/holdfast/ryu"
)

// Checked is what Check has found on this machine.
type Checked struct {
	Ryu *ryu.Identity // Python and the applications of Ryu; nil without them, or if they cannot be loaded
	// Certificates are the controllers whose certificate is on this machine and valid.
	Certificates []string
}

// Check does what Run would do first, without listening or touching the data folder: it makes the applications, imports
// those of Ryu, and reads the TLS files and the tokens. The errors are those with which Run would fail. If cfg.Name is
// "", it reads the certificates of all controllers that are on this machine, of which there must be one.
func Check(ctx context.Context, cfg Config) (found Checked, problems []error) {
	s := cfg.Cluster
	if _, err := cfg.Applications(); err != nil {
		problems = append(problems, err)
	}
	if slices.Contains(s.Apps, config.RyuApp) {
		identity, err := ryu.Probe(ctx, hostConfig(s, cfg.Logger))
		if err != nil {
			problems = append(problems, err)
		} else {
			found.Ryu = &identity
		}
	}
	if s.Tokens != "" {
		if _, err := token.Read(s.Tokens); err != nil {
			problems = append(problems, err)
		}
	}
	if s.TLS == nil {
		return found, problems
	}
	certified, failed := certificates(ctx, cfg)
	found.Certificates = certified
	return found, append(problems, failed...)
}

// certificates reads the certificates of the controllers that are on this machine.
func certificates(ctx context.Context, cfg Config) (certified []string, problems []error) {
	s := cfg.Cluster
	ctx, cancel := context.WithCancel(ctx)
	cancel() // the files are read once
	names, shared := s.Names(), s.TLS.Of("a") == s.TLS.Of("b")
	if cfg.Name != "" {
		names, shared = []string{cfg.Name}, false
	}
	for _, name := range names {
		_, err := os.Stat(s.TLS.Of(name).Cert)
		if cfg.Name == "" && err != nil {
			continue // it is on another machine
		}
		if _, err := access.OfController(ctx, s, name, cfg.Logger); err != nil {
			problems = append(problems, err)
		} else {
			certified = append(certified, name)
		}
	}
	switch {
	case len(certified) == 0 && len(problems) == 0:
		_, err := access.OfController(ctx, s, names[0], cfg.Logger)
		return nil, []error{fmt.Errorf("no controller has its certificate on this machine: %w", err)}
	case shared && len(certified) > 0: // the file is that of one controller
		return certified, nil
	case shared:
		return nil, problems[:1]
	}
	return certified, problems
}
