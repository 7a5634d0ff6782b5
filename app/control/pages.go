package control

import (
	"fmt"
	"io/fs"
	"net/http"
	"strings"

	"headroom/frontend"
)

// policy is the Content-Security-Policy of the pages: they load nothing from other origins, and no
// page may embed them in a frame.
const policy = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; " +
	"object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// pages serves the web UI. In a program built without it, every page says how to build it. Requests
// that are for no page, and not from a browser's address bar either, go to the endpoint: its errors
// are those that clients of an API can read.
func pages(endpoint http.Handler) http.Handler {
	files := frontend.FS()
	serve := http.FileServerFS(files)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimPrefix(r.URL.Path, "/")
		info, err := fs.Stat(files, name)
		page := name == "" || err == nil && !info.IsDir()
		reads := r.Method == http.MethodGet || r.Method == http.MethodHead
		if !page && !(reads && strings.Contains(r.Header.Get("Accept"), "text/html")) {
			endpoint.ServeHTTP(w, r)
			return
		}
		if !frontend.Built() {
			notBuilt(w, r)
			return
		}
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		switch {
		case !reads:
			h.Set("Allow", "GET, HEAD")
			http.Error(w, "Only GET and HEAD are allowed here.", http.StatusMethodNotAllowed)
			return
		case !page:
			http.Error(w, "There is no such page. The web UI is at /.", http.StatusNotFound)
			return
		case strings.HasPrefix(name, "assets/"):
			// The name of an asset contains a hash of its content.
			h.Set("Cache-Control", "public, max-age=31536000, immutable")
		default:
			h.Set("Cache-Control", "no-cache")
		}
		serve.ServeHTTP(w, r)
	})
}

// notBuilt serves the page of a program without the web UI.
func notBuilt(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(http.StatusNotFound)
	fmt.Fprint(w, `<!doctype html><meta charset="utf-8"><title>Headroom</title>
<body style="font: 15px system-ui; max-width: 40em; margin: 4em auto">
<h1>This program does not include the web UI</h1>
<p>It was built without the pages. Run <code>make build</code> to build the pages and the program.</p>
<p>The endpoint is available: <a href="/v1/models">/v1/models</a>.</p>
`)
}
