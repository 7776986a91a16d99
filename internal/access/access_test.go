package access

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/config"
	"github.com/holdfast-sdn/holdfast/internal/pki"
)

// A controller accepts only its own certificate for itself, and no other controller's.
func TestAnotherControllersCertificate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	if err := pki.Init(dir, time.Now()); err != nil {
		t.Fatal(err)
	}
	other := pki.Request{Identity: pki.Identity{Role: pki.Controller, Name: "c2"}, Days: 1}
	if err := pki.Issue(dir, other, time.Now()); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{".pem", "-key.pem"} {
		if err := os.Rename(filepath.Join(dir, "c2"+part), filepath.Join(dir, "c1"+part)); err != nil {
			t.Fatal(err)
		}
	}
	cluster := &config.Cluster{Controllers: []config.Controller{{Name: "c1", ID: 1}},
		TLS: &config.TLS{CA: dir + "/ca.pem", Cert: dir + "/{name}.pem", Key: dir + "/{name}-key.pem"}}
	_, err := OfController(t.Context(), cluster, "c1", slog.New(slog.DiscardHandler))
	if want := "it is that of controller c2, and controller c1 is expected here"; err == nil ||
		!strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}
