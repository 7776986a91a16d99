package ryu

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
)

// Identity identifies what a host would run at this controller.
type Identity struct {
	Python       string        `json:"python"` // major and minor version
	OSKen        string        `json:"os_ken"` // version
	Host         string        `json:"host"`   // version of holdfast_ryu
	Applications []Application `json:"applications"`
	Options      []string      `json:"-"`
	Files        []string      `json:"-"`
}

// Application is an application as the host would load it.
type Application struct {
	Name   string `json:"name"` // as it is configured
	File   string `json:"file"` // where it was found
	SHA256 string `json:"sha256"`
}

// String returns a line that is equal for two hosts exactly if they would run the same code. The folder of a file does
// not matter.
func (id Identity) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "python %q, os-ken %q, host %q", id.Python, id.OSKen, id.Host)
	for _, a := range id.Applications {
		fmt.Fprintf(&b, ", %q %q", a.Name, a.SHA256)
	}
	fmt.Fprintf(&b, ", options %q", id.Options)
	if len(id.Files) > 0 { // only then, since an identity that changes has the applications begin anew
		fmt.Fprintf(&b, ", files %q", id.Files)
	}
	return b.String()
}

var errNoApplication = errors.New("ryu: no application to host: name one at least")

// LoadError says why applications cannot be loaded.
type LoadError struct {
	Why    string // one line
	Detail string // a traceback, in several lines; "" if there is none
}

func (e *LoadError) Error() string { return e.Why }

// Details returns what is below the one line: the traceback.
func (e *LoadError) Details() string { return e.Detail }

// Probe finds out what a host would run, and imports the applications, without making one. Its error is one line with
// the remedy; if the applications cannot be imported it is a *LoadError.
func Probe(ctx context.Context, cfg Config) (Identity, error) {
	if len(cfg.Applications) == 0 {
		return Identity{}, errNoApplication
	}
	cfg, err := cfg.complete()
	if err != nil {
		return Identity{}, err
	}
	folder, remove, err := unpack(cfg.account != nil)
	if err != nil {
		return Identity{}, err
	}
	defer remove()
	ctx, late := context.WithTimeout(ctx, cfg.loading)
	defer late()
	var said, printed *output
	command := func() *exec.Cmd {
		cmd := exec.CommandContext(ctx, cfg.Python,
			append([]string{"-m", "holdfast_ryu", "probe"}, cfg.Applications...)...)
		cmd.Env = environment(cfg, folder)
		cmd.WaitDelay = lingerTime
		said, printed = &output{logger: cfg.Logger}, &output{logger: cfg.Logger}
		cmd.Stdout, cmd.Stderr = said, printed
		return cmd
	}
	if err := confined(cfg, command, (*exec.Cmd).Run); err != nil {
		return Identity{}, probeError(ctx, cfg, printed.since(0), err)
	}
	id := Identity{Options: cfg.Options, Files: cfg.Files}
	if err := json.Unmarshal([]byte(said.since(0)), &id); err != nil {
		return Identity{}, fmt.Errorf("ryu: what %s says of the applications: %w: it may not be Python 3.10 or "+
			"later", cfg.Python, err)
	}
	return id, nil
}

func probeError(ctx context.Context, cfg Config, printed string, err error) error {
	var exit *exec.ExitError
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("ryu: importing the applications %s takes longer than %v: see what they do when they are "+
			"imported", strings.Join(cfg.Applications, ", "), cfg.loading)
	case ctx.Err() != nil:
		return fmt.Errorf("ryu: look for the applications: %w", ctx.Err())
	case !errors.As(err, &exit):
		return startError(cfg, err)
	}
	above, last := "", printed
	if i := strings.LastIndexByte(printed, '\n'); i >= 0 {
		above, last = printed[:i], printed[i+1:]
	}
	if reason, ours := strings.CutPrefix(last, "holdfast_ryu: "); ours {
		return &LoadError{Why: "ryu: " + reason, Detail: strings.TrimSpace(above)}
	}
	return fmt.Errorf("ryu: %s cannot look for the applications, it may not be Python 3.10 or later: %s",
		cfg.Python, last)
}
