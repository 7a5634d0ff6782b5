package window

// The window program's side. The program shows pages and has no engine. The agent passes the
// address and the token in the environment, and commands on stdin. It answers the requests of the
// pages.

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
)

// tokenHeader is control.TokenHeader. It is not imported, because the control API would bring the
// engine into the window program.
const tokenHeader = "X-Headroom-Token"

// Agent is the program that started the window program.
type Agent struct {
	url   *url.URL
	token string
	Place string // where the window begins; "": where it was left
	State string // path of the file of a Look; "": none
}

// AgentFrom reads the environment that Supervisor sets; getenv is os.Getenv.
func AgentFrom(getenv func(string) string) (*Agent, error) {
	address := getenv(envAddress)
	if address == "" {
		return nil, fmt.Errorf("%s is not set: start headroom-agent, which opens the window",
			envAddress)
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" || u.Host == "" {
		return nil, fmt.Errorf("%s is %q, want an address such as http://127.0.0.1:11811/",
			envAddress, address)
	}
	return &Agent{url: u, token: getenv(envToken), Place: getenv(envPlace),
		State: getenv(envState)}, nil
}

// Listen reads the agent's commands until the input ends. It calls show for each "show" command,
// with the place that it names, and end at the end of the input.
func Listen(input io.Reader, show func(place string), end func()) {
	for lines := bufio.NewScanner(input); lines.Scan(); {
		word, place, _ := strings.Cut(lines.Text(), " ")
		if word == showWord {
			show(place)
		}
	}
	end()
}

// Handler returns a handler that forwards requests below /control/ and /v1/ to the agent, with
// the token, and streams the responses. Other paths are not found; the window serves its assets
// itself.
func (a *Agent) Handler() http.Handler {
	proxy := &httputil.ReverseProxy{
		FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(a.url)
			// The agent would refuse the page's Origin, which has the scheme of the web view. The
			// token identifies the page instead.
			r.Out.Header.Del("Origin")
			r.Out.Header.Del("Referer")
			r.Out.Header.Set(tokenHeader, a.token)
		},
		// The page itself reports a response that breaks off, so it is no error in the log.
		ErrorLog: slog.NewLogLogger(slog.Default().Handler(), slog.LevelDebug),
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadGateway)
			fmt.Fprintf(w,
				`{"error":{"code":"unreachable","message":"Headroom does not answer","why":%q,"fix":"Start it again."}}`+"\n", err.Error())
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, prefix := range []string{"/control/", "/v1/"} {
			if strings.HasPrefix(r.URL.Path, prefix) {
				proxy.ServeHTTP(w, r)
				return
			}
		}
		http.NotFound(w, r)
	})
}
