package dashboard

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
)

// The files that are served were built from the sources that are here. It needs neither npm nor a network: the build
// writes a hash of the sources, and this test computes it.
func TestBuiltFromTheSources(t *testing.T) {
	hash := sha256.New()
	for _, pattern := range []string{"build", "package.json", "package-lock.json", "tsconfig.json", "src/*"} {
		names, err := fs.Glob(os.DirFS("web"), pattern)
		if err != nil || len(names) == 0 {
			t.Fatalf("web/%s: no such file (%v)", pattern, err)
		}
		for _, name := range names {
			text, err := os.ReadFile("web/" + name)
			if err != nil {
				t.Fatal(err)
			}
			sum := sha256.Sum256(text)
			hash.Write([]byte(hex.EncodeToString(sum[:]) + "  " + name + "\n"))
		}
	}
	want, err := files.ReadFile("dist/sources.sha256")
	if err != nil || strings.TrimSpace(string(want)) != hex.EncodeToString(hash.Sum(nil)) {
		t.Errorf("dist is not built from web: run go generate ./controller/dashboard, which needs npm (%v)", err)
	}
}

// The page and its files are served with a policy that lets them load nothing else, and no file does.
func TestServesOnlyItself(t *testing.T) {
	inline := regexp.MustCompile(`(?i)<script>|<style|\sstyle=|\son\w+=|https?://`)
	for name, kind := range map[string]string{"": "text/html", "app.js": "text/javascript", "app.css": "text/css",
		"licenses.txt": "text/plain"} {
		w := httptest.NewRecorder()
		Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, Path+name, nil))
		policy := w.Header().Get("Content-Security-Policy")
		if w.Code != http.StatusOK || !strings.HasPrefix(w.Header().Get("Content-Type"), kind) ||
			!strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") {
			t.Errorf("%s is served with %d, %v", Path+name, w.Code, w.Header())
		}
		if found := inline.FindString(w.Body.String()); kind == "text/html" && found != "" {
			t.Errorf("%s has %q, which the policy forbids", Path+name, found)
		}
		again := httptest.NewRequest(http.MethodGet, Path+name, nil)
		again.Header.Set("If-None-Match", w.Header().Get("ETag"))
		w = httptest.NewRecorder()
		Handler().ServeHTTP(w, again)
		if w.Code != http.StatusNotModified {
			t.Errorf("%s that has not changed is served with %d", Path+name, w.Code)
		}
	}
	w := httptest.NewRecorder()
	Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, Path+"../dashboard.go", nil))
	if w.Code != http.StatusNotFound {
		t.Errorf("a file of another folder is served with %d", w.Code)
	}
}
