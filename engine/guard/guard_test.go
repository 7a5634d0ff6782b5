package guard

import (
	"net/http"
	"net/http/httptest"
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
