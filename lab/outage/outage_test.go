package outage

import (
	"os"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-sdn/holdfast/lab/graphs"
	"github.com/holdfast-sdn/holdfast/lab/netlab"
	"github.com/holdfast-sdn/holdfast/network/paths"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Both links of the paper's simple topology (figure 3a) are cut, and the stream uses the other path without a
// controller.
func TestRun(t *testing.T) {
	if err := netlab.Available(); err != nil {
		if os.Getenv(netlab.RequireEnv) == "1" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	t.Parallel()
	said := 0.0
	r, err := Run(t.Context(), Config{
		Graph: graphs.Triangle(), From: 1, To: 3, Samples: 2, Every: time.Millisecond,
		Interval: 100 * ms, Multiplier: 3, // slow, so that other tests on the machine do not matter
		Progress: func(done float64, _ string) { said = max(said, done) },
	})
	if err != nil {
		t.Fatal(err)
	}
	ends := func(a, b paths.End) paths.Link { return paths.Both(a, b, 1)[0] }
	way := []paths.Link{ends(paths.End{Switch: 1, Port: 1}, paths.End{Switch: 2, Port: 1}),
		ends(paths.End{Switch: 2, Port: 2}, paths.End{Switch: 3, Port: 1})}
	if !slices.Equal(r.Path, way) {
		t.Errorf("the stream goes %v, want %v", r.Path, way)
	}
	if len(r.Samples) != 2 || r.Samples[0].Outage <= 0 || r.Samples[1].Outage <= 0 {
		t.Errorf("samples: %+v", r.Samples)
	}
	if r.Version == "" || r.Watched <= 0 || said != 0.5 {
		t.Errorf("version %q, watched %v, progress %v", r.Version, r.Watched, said)
	}
}
