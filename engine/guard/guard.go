// Package guard decides which HTTP requests are admitted, by the Host header, the Origin header and
// an API key.
//
// Every web page that the user opens can reach a server on loopback. Against DNS rebinding (a
// foreign name that suddenly resolves to 127.0.0.1), the Host header must be a name of this
// machine. Against cross-site requests, the Origin header must name this machine too. Programs send
// no Origin.
//
// Origin, CORS and Key are middleware, composed by route: Origin for every route, CORS for answers
// that pages may read, Key for the endpoint.
package guard

import (
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"

	"headroom/engine/problem"
)

// Guard holds the rules. The zero value admits loopback names without a key.
type Guard struct {
	// Listen is the host that the server listens on. A loopback address or "" admits only loopback
	// names. Any other address admits itself too, and an unspecified one (0.0.0.0) every IP address
	// and this machine's name, because DNS rebinding needs a name that the attacker controls.
	Listen string
	// AllowHosts are further names, without port, as given by --allow-host.
	AllowHosts []string
	// APIKey, when not empty, must come as "Authorization: Bearer KEY" or "X-Api-Key: KEY".
	APIKey string
	// Live returns the rules that may change while the server runs. It is called for each request;
	// nil means that there are none.
	Live func() Access
	// Bypass, when not nil, reports whether a request needs no key. The web UI authenticates with
	// the control API's token.
	Bypass func(*http.Request) bool
}

// Access is the changeable part of a Guard. APIKey applies where Guard.APIKey is empty; AllowHosts
// are admitted besides Guard.AllowHosts.
type Access struct {
	APIKey     string
	AllowHosts []string
}

// Refuse answers a request that the guard does not admit. The error is a Problem.
type Refuse func(http.ResponseWriter, *http.Request, error)

func (g *Guard) live() Access {
	if g.Live == nil {
		return Access{}
	}
	return g.Live()
}

// Origin refuses requests under foreign host names and from foreign pages.
func (g *Guard) Origin(refuse Refuse, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := g.check(r); err != nil {
			refuse(w, r, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (g *Guard) check(r *http.Request) error {
	if host := hostName(r.Host); host != "" && !g.allowed(host) {
		return problem.New(problem.Forbidden,
			"The request came for a host that is not this machine", "its Host header is "+r.Host,
			"If "+host+" should reach Headroom, start it with --allow-host "+host+".")
	}
	if origin := r.Header.Get("Origin"); origin != "" && !g.allowedOrigin(origin) {
		return problem.New(problem.Forbidden,
			"The request came from a web page that may not use Headroom",
			"its Origin header is "+origin,
			"If that page may, start Headroom with --allow-host and its host name.")
	}
	return nil
}

func (g *Guard) allowedOrigin(origin string) bool {
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" {
		return false // "null": a sandboxed page, or a file
	}
	return u.Scheme == "wails" || g.allowed(hostName(u.Host))
}

// allowed reports whether a host name or address, without port, is one of this machine's.
func (g *Guard) allowed(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	ip := net.ParseIP(host)
	switch {
	case host == "localhost" || strings.HasSuffix(host, ".localhost") || ip != nil &&
		ip.IsLoopback():
		return true
	case host == strings.ToLower(g.Listen):
		return true
	case ip == nil && g.listensWide() && ownName(host):
		return true
	case ip != nil && g.listensWide():
		return true
	}
	same := func(name string) bool { return strings.EqualFold(name, host) }
	return slices.ContainsFunc(g.AllowHosts, same) ||
		slices.ContainsFunc(g.live().AllowHosts, same)
}

// listensWide reports whether the server listens on all interfaces.
func (g *Guard) listensWide() bool {
	ip := net.ParseIP(g.Listen)
	return ip != nil && ip.IsUnspecified()
}

// ownName reports whether host is this machine's name, with or without ".local".
func ownName(host string) bool {
	name, err := os.Hostname()
	name = strings.ToLower(name)
	return err == nil && name != "" &&
		(host == name || host == name+".local" || host+".local" == name)
}

// hostName returns the host of "name:port", "1.2.3.4:port" or "[::1]:port".
func hostName(hostPort string) string {
	if host, _, err := net.SplitHostPort(hostPort); err == nil {
		return host
	}
	return strings.Trim(hostPort, "[]")
}

// CORS lets the pages that Origin admits read the answers.
func (g *Guard) CORS(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		origin := r.Header.Get("Origin")
		if origin == "" {
			next.ServeHTTP(w, r)
			return
		}
		h := w.Header()
		h.Set("Access-Control-Allow-Origin", origin)
		h.Add("Vary", "Origin")
		if r.Method == http.MethodOptions {
			h.Set("Access-Control-Allow-Methods", "GET, POST")
			h.Set("Access-Control-Allow-Headers", r.Header.Get("Access-Control-Request-Headers"))
			h.Set("Access-Control-Max-Age", "600")
			w.WriteHeader(http.StatusNoContent)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Key refuses requests without the API key, if one is set.
func (g *Guard) Key(refuse Refuse, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := cmp.Or(g.APIKey, g.live().APIKey)
		if key != "" && !sameSecret(keyOf(r), key) && (g.Bypass == nil || !g.Bypass(r)) {
			refuse(w, r, problem.New(problem.Unauthorized, "The API key is missing or wrong", "",
				"Send it as \"Authorization: Bearer KEY\" or \"X-Api-Key: KEY\"."))
			return
		}
		next.ServeHTTP(w, r)
	})
}

func keyOf(r *http.Request) string {
	scheme, key, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(key)
	}
	return r.Header.Get("X-Api-Key")
}

// sameSecret compares in a time that depends neither on the contents nor on the lengths.
func sameSecret(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}
