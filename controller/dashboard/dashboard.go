// Package dashboard is the web page that controllers serve at their API: its files, made from the TypeScript in folder
// web, are part of the binary. It knows nothing of controllers: the page asks the API.
package dashboard

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"mime"
	"net/http"
	"path"
	"time"
)

//go:generate ./web/build

//go:embed dist
var files embed.FS

// Path is where the page is.
const Path = "/dashboard/"

// policy lets the page load its own files and ask its own controller, and nothing else: no inline script or style, no
// other site, no frame, no text that becomes HTML.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; " +
	"trusted-types 'none'"

// Handler serves the page below Path. It needs no role, because nothing in it is about the cluster.
func Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := r.URL.Path[len(Path):]
		if name == "" {
			name = "index.html"
		}
		text, err := files.ReadFile("dist/" + name)
		if err != nil {
			http.Error(w, r.URL.Path+" is no file of the dashboard: open "+Path, http.StatusNotFound)
			return
		}
		h, sum := w.Header(), sha256.Sum256(text)
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-cache") // another release has other files of these names
		h.Set("ETag", `"`+hex.EncodeToString(sum[:8])+`"`)
		h.Set("Content-Type", mime.TypeByExtension(path.Ext(name)))
		http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(text))
	})
}
