// Package guard decides which HTTP requests are allowed. It checks the Host header, the Origin
// header and the API keys.
//
// Any web page that the user opens can send requests to a server on loopback. DNS rebinding makes a
// foreign name resolve to 127.0.0.1, so the Host header must be a name of this machine. To prevent
// cross-site requests, the Origin header must name this machine too. Clients other than browsers
// send no Origin.
//
// Origin, CORS and Key are middleware. Use Origin for every route, CORS for responses that web
// pages may read, and Key for routes that need an API key.
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

// Guard holds the rules. The zero value allows loopback names and needs no key.
type Guard struct {
	// Listen is the host that the server listens on. Loopback names are always allowed. If Listen
	// is another address, that address is allowed too. If it is unspecified (0.0.0.0), every IP
	// address and this machine's name are allowed as Host, because DNS rebinding needs a name that
	// the attacker controls. A web page on another IP address than the request's is foreign.
	Listen string
	// AllowHosts are additional allowed names, without port, from --allow-host.
	AllowHosts []string
	// AllowOrigins are additional web pages that may use the server, from --allow-origin: an origin
	// such as "app://obsidian.md", or all of a scheme, "vscode-webview://*". See ValidOrigin.
	AllowOrigins []string
	// APIKey is a key without a name. Requests must send it or a named one, as "Authorization:
	// Bearer KEY" or "X-Api-Key: KEY". Without any key, no key is needed.
	APIKey string
	// Keys are the named keys; nil: there are none.
	Keys Keys
	// NoKey lets everybody on the network use a server that listens beyond loopback without a key.
	// Otherwise such a server refuses all requests that need the key.
	NoKey bool
	// Live returns the rules that may change while the server runs. It is called for each request.
	// It may be nil.
	Live func() Access
	// Bypass reports whether a request needs no key. The web UI uses it: its requests have the
	// token of the control API. It may be nil.
	Bypass func(*http.Request) bool
}

// Access is the part of a Guard's rules that may change. Its APIKey applies only if Guard.APIKey is
// empty. Its AllowHosts and AllowOrigins are allowed in addition to the Guard's.
type Access struct {
	APIKey       string
	KeyLost      bool // APIKey is a random one, because the settings may have lost the user's
	AllowHosts   []string
	AllowOrigins []string
}

// Refuse answers a request that is not allowed. The error is a Problem.
type Refuse func(http.ResponseWriter, *http.Request, error)

func (g *Guard) live() Access {
	if g.Live == nil {
		return Access{}
	}
	return g.Live()
}

// Origin refuses requests with a foreign Host header, and requests from foreign web pages.
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
			"The request is for a host that is not this machine", "its Host header is "+r.Host,
			"To allow "+host+", add it to the allowed host names in the settings (allowHosts), or "+
				"start Headroom with --allow-host "+host+".")
	}
	if origin := r.Header.Get("Origin"); origin != "" &&
		!g.allowedOrigin(origin, hostName(r.Host)) {
		return problem.New(problem.Forbidden,
			"The request came from a web page that may not use Headroom",
			"its Origin header is "+origin, originFix(origin))
	} else if origin == "" && r.Header.Get("Sec-Fetch-Site") == "cross-site" && changes(r) {
		return problem.New(problem.Forbidden,
			"The request came from a web page that may not use Headroom",
			"its Sec-Fetch-Site header is cross-site, and it has no Origin header",
			"Send it from a page that names its origin, and allow that page with --allow-origin.")
	}
	return nil
}

// originFix says how to allow a web page.
func originFix(origin string) string {
	if !ValidOrigin(origin) {
		return "Open the page from a server, or use an app that names its origin."
	}
	return "To allow that page, add " + origin + " to the allowed origins in the settings " +
		"(allowOrigins), or start Headroom with --allow-origin " + origin + "."
}

// ValidOrigin reports whether a text can stand in AllowOrigins: an origin with a scheme and, but
// for "file://", a host, or "*" for every host of a scheme. That is for apps whose pages have
// random hosts. Pages of the web must be named one by one, and "null", the origin of sandboxed
// pages, which anybody can send, is never valid.
func ValidOrigin(origin string) bool {
	scheme, host, ok := strings.Cut(origin, "://")
	web := strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https")
	switch {
	case !ok || scheme == "" || strings.ContainsAny(origin, " \t\r\n,"):
		return false
	case host == "":
		return strings.EqualFold(scheme, "file")
	case host == "*":
		return !web
	}
	return !strings.ContainsAny(host, "/*")
}

// ValidHost reports whether a text can stand in AllowHosts: a name or an address without a port,
// brackets, a path or a wildcard.
func ValidHost(name string) bool {
	_, _, err := net.SplitHostPort(name)
	return name != "" && err != nil && !strings.ContainsAny(name, "/ *[]")
}

// listedOrigin reports whether one of the rules is about this origin.
func (g *Guard) listedOrigin(origin string) bool {
	scheme, _, _ := strings.Cut(origin, "://")
	matches := func(rule string) bool {
		if !ValidOrigin(rule) || !ValidOrigin(origin) {
			return false
		}
		if all, ok := strings.CutSuffix(rule, "://*"); ok {
			return strings.EqualFold(all, scheme)
		}
		return strings.EqualFold(rule, origin)
	}
	return slices.ContainsFunc(g.AllowOrigins, matches) ||
		slices.ContainsFunc(g.live().AllowOrigins, matches)
}

// changes reports whether a request may change something. Browsers send an Origin header with each.
func changes(r *http.Request) bool {
	return r.Method != http.MethodGet && r.Method != http.MethodHead &&
		r.Method != http.MethodOptions
}

// allowedOrigin reports whether a page of this origin may send requests to host, which is allowed.
func (g *Guard) allowedOrigin(origin, host string) bool {
	if g.listedOrigin(origin) {
		return true
	}
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" {
		return false // "null" is the origin of sandboxed pages and of local files
	}
	name := hostName(u.Host)
	return u.Scheme == "wails" || g.named(name) || strings.EqualFold(name, host)
}

// allowed reports whether the rules allow a host name or address, without port.
func (g *Guard) allowed(host string) bool {
	return g.named(host) || g.listensWide() && net.ParseIP(host) != nil
}

// named reports whether a host name or address is this machine's, as far as the server knows.
func (g *Guard) named(host string) bool {
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
	}
	same := func(name string) bool { return strings.EqualFold(name, host) }
	return slices.ContainsFunc(g.AllowHosts, same) ||
		slices.ContainsFunc(g.live().AllowHosts, same)
}

// Open reports whether everybody on the network can use the server: it listens beyond loopback and
// needs no key.
func (g *Guard) Open() bool {
	ip := net.ParseIP(g.Listen)
	local := g.Listen == "" || strings.EqualFold(g.Listen, "localhost") ||
		ip != nil && ip.IsLoopback()
	return !local && !g.NeedsKey()
}

// unnamedKey returns the key without a name; "": there is none.
func (g *Guard) unnamedKey() string { return cmp.Or(g.APIKey, g.live().APIKey) }

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

// CORS allows the web pages that Origin has accepted to read the responses.
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
		h.Set("Access-Control-Expose-Headers", "X-Request-Id, Retry-After")
		if r.Method == http.MethodOptions {
			h.Set("Access-Control-Allow-Methods", "GET, POST, DELETE")
			h.Set("Access-Control-Allow-Headers", r.Header.Get("Access-Control-Request-Headers"))
			h.Set("Access-Control-Max-Age", "600")
			w.WriteHeader(http.StatusNoContent)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Key refuses requests without an API key, if there is one. If there is none, it refuses requests
// to a server that others can reach, unless NoKey is set: the last key may have been removed while
// it runs.
func (g *Guard) Key(refuse Refuse, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.Bypass != nil && g.Bypass(r) {
			next.ServeHTTP(w, r)
			return
		}
		if !g.NeedsKey() {
			if g.Open() && !g.NoKey {
				refuse(w, r, problem.New(problem.Unauthorized,
					"This server needs an API key, and none is set",
					"other computers can reach it", "Make one in Settings or with `headroom keys "+
						"add NAME`, or start it with --no-api-key to let everybody use it."))
				return
			}
			next.ServeHTTP(w, r)
			return
		}
		switch caller, valid := g.identify(r); {
		case caller != nil:
			next.ServeHTTP(w, r.WithContext(WithCaller(r.Context(), caller)))
		case valid:
			next.ServeHTTP(w, r)
		default:
			refuse(w, r, g.wrongKey())
		}
	})
}

// wrongKey returns the Problem of a request without a valid key.
func (g *Guard) wrongKey() error {
	if g.APIKey == "" && g.live().KeyLost {
		return problem.New(problem.Unauthorized, "The API key is missing or wrong",
			"the settings file is or was damaged and may have lost its key, so a random one "+
				"applies",
			"Repair settings.json, or set or remove the key in Settings.")
	}
	return problem.New(problem.Unauthorized, "The API key is missing or wrong", "",
		"Send it as \"Authorization: Bearer KEY\" or \"X-Api-Key: KEY\".")
}

// identify returns whether a request has a valid key, and who holds it; nil if the key has no name.
// Clients such as Claude Code send a placeholder in one header when the key is in the other, so one
// valid header is enough. If both are valid, Authorization counts. Both are always checked, so the
// time does not tell which one was valid.
func (g *Guard) identify(r *http.Request) (caller *Caller, valid bool) {
	unnamed := g.unnamedKey()
	for _, key := range []string{r.Header.Get("X-Api-Key"), bearer(r)} {
		named, isUnnamed := g.find(key), unnamed != "" && sameSecret(key, unnamed)
		switch {
		case isUnnamed:
			caller, valid = nil, true
		case named != nil:
			caller, valid = named, true
		}
	}
	return caller, valid
}

// bearer returns the token of the header Authorization; "" if it has none.
func bearer(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// sameSecret compares two strings in a time that depends neither on their contents nor on their
// lengths.
func sameSecret(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}
