package server

// Who may come in. Three checks that are composed by route: Origin for all, CORS for answers that
// pages may read, Key for the endpoint.

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

// Guard decides who may come in: by the name the caller used for us, by the web page that asks, and
// by the key.
//
// A server on loopback is still within reach of every web page that the user opens. Against DNS
// rebinding (a foreign name that suddenly points to 127.0.0.1) the Host header must be a name of
// this machine; against pages that post blindly, the Origin header must be one too. Programs send
// no Origin. The zero value admits loopback names without a key.
type Guard struct {
	// Listen is the host the server listens on. A loopback or empty one admits loopback names
	// alone; any other also that address, and, for an unspecified one (0.0.0.0), every IP address
	// and this machine's name: rebinding needs a name of the attacker's.
	Listen string
	// AllowHosts are more names, without port, as given by --allow-host.
	AllowHosts []string
	// APIKey, when not empty, must come as "Authorization: Bearer KEY" or "X-Api-Key: KEY".
	APIKey string
	// Changing is asked with each request for what may change while the server runs, besides the
	// two above; nil: nothing does.
	Changing func() Access
	// Instead, when not nil, admits a request without the key: the control API's token, for the web
	// UI.
	Instead func(*http.Request) bool
}

// Access is a key, where APIKey is empty, and more names.
type Access struct {
	APIKey     string
	AllowHosts []string
}

func (g *Guard) changing() Access {
	if g.Changing == nil {
		return Access{}
	}
	return g.Changing()
}

// Origin refuses requests under foreign names and from foreign pages.
func (g *Guard) Origin(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := g.check(r); err != nil {
			body, m := errorBody(err)
			recordOf(r).fail(err)
			writeJSON(w, m.status, body)
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

// allowed judges a host name or address without port.
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
		slices.ContainsFunc(g.changing().AllowHosts, same)
}

// listensWide tells an address that other machines reach.
func (g *Guard) listensWide() bool {
	ip := net.ParseIP(g.Listen)
	return ip != nil && ip.IsUnspecified()
}

func ownName(host string) bool {
	name, err := os.Hostname()
	name = strings.ToLower(name)
	return err == nil && name != "" &&
		(host == name || host == name+".local" || host+".local" == name)
}

// hostName takes the port off "name:port", "1.2.3.4:port", "[::1]:port".
func hostName(hostPort string) string {
	if host, _, err := net.SplitHostPort(hostPort); err == nil {
		return host
	}
	return strings.Trim(hostPort, "[]")
}

// CORS lets the pages that Origin has admitted read the answers.
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

// Key refuses requests without the API key, where there is one.
func (g *Guard) Key(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := cmp.Or(g.APIKey, g.changing().APIKey)
		if key != "" && !sameSecret(keyOf(r), key) && (g.Instead == nil || !g.Instead(r)) {
			err := problem.New(problem.Unauthorized, "The API key is missing or wrong", "",
				"Send it as \"Authorization: Bearer KEY\" or \"X-Api-Key: KEY\".")
			body, m := errorBody(err)
			recordOf(r).fail(err)
			writeJSON(w, m.status, body)
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

// sameSecret compares in a time that tells nothing about where they differ, nor about the length.
func sameSecret(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}
