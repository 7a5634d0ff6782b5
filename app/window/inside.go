package window

// The window program's end. The program shows pages and knows nothing of models. The agent passes
// it the address and the token in the environment and commands on stdin, and serves its pages'
// requests.

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
}

// AgentFrom reads the environment that Supervisor sets; getenv is os.Getenv.
func AgentFrom(getenv func(string) string) (*Agent, error) {
	address := getenv(envAddress)
	if address == "" {
		return nil,
			fmt.Errorf(
				"%s is not set: the window is opened by headroom-agent, which you start instead",
				envAddress)
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" || u.Host == "" {
		return nil, fmt.Errorf("%s is %q, want an address such as http://127.0.0.1:11811/",
			envAddress, address)
	}
	return &Agent{url: u, token: getenv(envToken)}, nil
}

// Listen reads the agent's commands until the input ends. It calls show for each "show", and end
// once.
func Listen(input io.Reader, show, end func()) {
	for lines := bufio.NewScanner(input); lines.Scan(); {
		if lines.Text()+"\n" == showWord {
			show()
		}
	}
	end()
}

// Handler forwards the requests of the pages to the agent, with the token, and streams the
// responses. Other paths are for the assets.
func (a *Agent) Handler() http.Handler {
	proxy := &httputil.ReverseProxy{
		FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(a.url)
			// The token identifies the page; its Origin would be the scheme of the web view.
			r.Out.Header.Del("Origin")
			r.Out.Header.Del("Referer")
			r.Out.Header.Set(tokenHeader, a.token)
		},
		// The page reports a response that breaks off; by default it would be logged as an error.
		ErrorLog: slog.NewLogLogger(slog.Default().Handler(), slog.LevelDebug),
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadGateway)
			fmt.Fprintf(w,
				`{"error":{"code":"unreachable","message":"Headroom does not answer","why":%q,"fix":"Start it again."}}`+"\n", err.Error())
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, prefix := range []string{"/api/", "/v1/"} {
			if strings.HasPrefix(r.URL.Path, prefix) {
				proxy.ServeHTTP(w, r)
				return
			}
		}
		http.NotFound(w, r)
	})
}
