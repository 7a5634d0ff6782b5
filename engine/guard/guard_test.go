package guard

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"headroom/engine/problem"
)

// TestLive changes the rules while the server runs. They must apply to the next request. A key in
// Guard.APIKey takes precedence.
func TestLive(t *testing.T) {
	var now Access
	refuse := func(w http.ResponseWriter, _ *http.Request, err error) {
		w.WriteHeader(map[problem.Code]int{problem.Forbidden: 403,
			problem.Unauthorized: 401}[problem.From(err).Code])
	}
	ask := func(g *Guard, host, key string) int {
		r := httptest.NewRequest("GET", "http://"+host+"/", nil)
		r.Header.Set("X-Api-Key", key)
		w := httptest.NewRecorder()
		g.Origin(refuse, g.Key(refuse, http.HandlerFunc(
			func(w http.ResponseWriter, r *http.Request) {}))).ServeHTTP(w, r)
		return w.Code
	}
	g := &Guard{Live: func() Access { return now }}
	for i, c := range []struct {
		now       Access
		host, key string
		want      int
	}{
		{Access{}, "localhost", "", 200},
		{Access{}, "mac.lan", "", 403},
		{Access{AllowHosts: []string{"Mac.lan"}}, "mac.lan", "", 200},
		{Access{APIKey: "k"}, "localhost", "", 401},
		{Access{APIKey: "k"}, "localhost", "k", 200},
		{Access{}, "localhost", "", 200},
	} {
		now = c.now
		if got := ask(g, c.host, c.key); got != c.want {
			t.Errorf("case %d: status %d, want %d", i, got, c.want)
		}
	}
	now = Access{APIKey: "lost-key-1", KeyLost: true}
	for flag, want := range map[string]string{"": "settings.json", "flag": "X-Api-Key"} {
		g.APIKey = flag
		var got *problem.Problem
		refused := g.Key(func(_ http.ResponseWriter, _ *http.Request, err error) {
			got = problem.From(err)
		}, http.NotFoundHandler())
		refused.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
		if got == nil || !strings.Contains(got.Fix, want) {
			t.Errorf("with the flag %q: %v, want it to name %s", flag, got, want)
		}
	}
	now, g.APIKey = Access{APIKey: "settings"}, "flag"
	if ask(g, "localhost", "settings") != 401 || ask(g, "localhost", "flag") != 200 {
		t.Error("the key of Live takes precedence over Guard.APIKey")
	}
}

// TestOpen: the server is open to the network if others reach it and it needs no key.
func TestOpen(t *testing.T) {
	keyed := func() Access { return Access{APIKey: "k"} }
	for _, c := range []struct {
		guard Guard
		want  bool
	}{
		{Guard{}, false},
		{Guard{Listen: "127.0.0.1"}, false},
		{Guard{Listen: "localhost"}, false},
		{Guard{Listen: "::1"}, false},
		{Guard{Listen: "0.0.0.0"}, true},
		{Guard{Listen: "::"}, true},
		{Guard{Listen: "192.168.1.2"}, true},
		{Guard{Listen: "mac.lan"}, true},
		{Guard{Listen: "0.0.0.0", APIKey: "k"}, false},
		{Guard{Listen: "0.0.0.0", Live: keyed}, false},
	} {
		if got := c.guard.Open(); got != c.want {
			t.Errorf("listening on %q: open %v, want %v", c.guard.Listen, got, c.want)
		}
	}
}

// TestOrigins: pages of desktop apps are refused until somebody allows them, by name or by their
// scheme. The error names the setting and the flag.
func TestOrigins(t *testing.T) {
	rules := []string{"app://obsidian.md", "vscode-webview://*", "file://", "https://chat.example",
		"https://*", "null", "*", "chrome-extension://abc"}
	for origin, want := range map[string]bool{
		"app://obsidian.md":         true,
		"APP://Obsidian.md":         true,
		"app://other":               false,
		"vscode-webview://1a2b3c":   true,
		"vscode-file://vscode-app":  false,
		"file://":                   true,
		"https://chat.example":      true,
		"https://chat.example:8443": false,
		"https://evil.example":      false,
		"http://chat.example":       false,
		"null":                      false,
		"chrome-extension://abc":    true,
		"chrome-extension://def":    false,
	} {
		for _, g := range []*Guard{{AllowOrigins: rules},
			{Live: func() Access { return Access{AllowOrigins: rules} }}, {}} {
			allowed := len(g.AllowOrigins) > 0 || g.Live != nil
			var refused error
			r := httptest.NewRequest("POST", "http://localhost/", nil)
			r.Header.Set("Origin", origin)
			g.Origin(func(_ http.ResponseWriter, _ *http.Request, err error) { refused = err },
				http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).ServeHTTP(
				httptest.NewRecorder(), r)
			if (refused == nil) != (want && allowed) {
				t.Errorf("%s, rules %t: %v", origin, allowed, refused)
			}
			named := refused != nil &&
				strings.Contains(refused.Error(), "--allow-origin "+origin) &&
				strings.Contains(refused.Error(), "allowOrigins")
			if refused != nil && origin != "null" && !named {
				t.Errorf("%s: the error is %v", origin, refused)
			}
		}
	}
	for host, want := range map[string]bool{"host.docker.internal:11811": true, "evil.com": false} {
		g := &Guard{AllowHosts: []string{"host.docker.internal"}}
		var refused error
		r := httptest.NewRequest("POST", "http://"+host+"/", nil)
		g.Origin(func(_ http.ResponseWriter, _ *http.Request, err error) { refused = err },
			http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).ServeHTTP(
			httptest.NewRecorder(), r)
		if (refused == nil) != want || refused != nil && (!strings.Contains(refused.Error(),
			"--allow-host evil.com") || !strings.Contains(refused.Error(), "allowHosts")) {
			t.Errorf("%s: %v", host, refused)
		}
	}
}

// TestCrossSite: a browser's cross-site request that changes something is refused, even without an
// Origin header. Links to the pages and clients other than browsers are allowed.
func TestCrossSite(t *testing.T) {
	refuse := func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(403) }
	for _, c := range []struct {
		method, site, origin string
		want                 int
	}{
		{"POST", "cross-site", "", 403},
		{"DELETE", "cross-site", "", 403},
		{"POST", "cross-site", "http://localhost:3000", 200},
		{"POST", "cross-site", "http://evil.example", 403},
		{"POST", "same-origin", "", 200},
		{"POST", "none", "", 200},
		{"POST", "", "", 200},
		{"GET", "cross-site", "", 200},
	} {
		r := httptest.NewRequest(c.method, "http://localhost/", nil)
		if c.site != "" {
			r.Header.Set("Sec-Fetch-Site", c.site)
		}
		if c.origin != "" {
			r.Header.Set("Origin", c.origin)
		}
		w := httptest.NewRecorder()
		new(Guard).Origin(refuse, http.HandlerFunc(
			func(http.ResponseWriter, *http.Request) {})).ServeHTTP(w, r)
		if w.Code != c.want {
			t.Errorf("%+v: status %d", c, w.Code)
		}
	}
}
