package window

import (
	"bufio"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"headroom/app/control"
)

func environment(values map[string]string) func(string) string {
	return func(name string) string { return values[name] }
}

func TestAgentFrom(t *testing.T) {
	cases := []struct{ address, wantErr string }{
		{"http://127.0.0.1:11811/", ""},
		{"", "is not set"},
		{"127.0.0.1:11811", "want an address"},
		{"file:///etc", "want an address"},
		{"http://", "want an address"},
	}
	for _, c := range cases {
		_, err := AgentFrom(environment(map[string]string{envAddress: c.address}))
		if c.wantErr == "" && err != nil || c.wantErr != "" &&
			(err == nil || !strings.Contains(err.Error(), c.wantErr)) {
			t.Errorf("%q: error %v, want %q", c.address, err, c.wantErr)
		}
	}
}

func TestListen(t *testing.T) {
	var calls []string
	Listen(strings.NewReader("show\nelse\n\nshower\nshow page=chat&chat=1"),
		func(place string) { calls = append(calls, "show:"+place) },
		func() { calls = append(calls, "end") })
	if got := strings.Join(calls, " "); got != "show: show:page=chat&chat=1 end" {
		t.Errorf("called %q", got)
	}
}

// The agent receives the token, its address as the host, and no origin. The page receives each part
// of the response as soon as the agent sends it.
func TestHandlerForwards(t *testing.T) {
	more := make(chan struct{})
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		for _, name := range []string{"Origin", "Referer"} {
			if got := r.Header.Get(name); got != "" {
				t.Errorf("%s is %q", name, got)
			}
		}
		if got := r.Header.Get(control.TokenHeader); got != "secret" {
			t.Errorf("the token is %q", got)
		}
		if r.Host != r.Context().Value(http.LocalAddrContextKey).(interface{ String() string }).
			String() {
			t.Errorf("the host is %q", r.Host)
		}
		first := r.Method + " " + r.URL.RequestURI() + " " + string(body) + "\n"
		// Without a length, even a proxy without FlushInterval would flush each part.
		w.Header().Set("Content-Length", strconv.Itoa(len(first+"second\n")))
		io.WriteString(w, first)
		_ = http.NewResponseController(w).Flush()
		<-more
		io.WriteString(w, "second\n")
	}))
	defer agent.Close()
	a, err := AgentFrom(environment(
		map[string]string{envAddress: agent.URL + "/", envToken: "secret"}))
	if err != nil {
		t.Fatal(err)
	}
	window := httptest.NewServer(a.Handler())
	defer window.Close()

	request, _ := http.NewRequest("POST", window.URL+"/v1/chat?x=1", strings.NewReader("body"))
	request.Header.Set("Origin", "wails://wails.localhost")
	request.Header.Set("Referer", "wails://wails.localhost/")
	request.Header.Set(control.TokenHeader, "forged")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	if !lines.Scan() || lines.Text() != "POST /v1/chat?x=1 body" {
		t.Fatalf("first part %q", lines.Text())
	}
	close(more)
	if !lines.Scan() || lines.Text() != "second" {
		t.Fatalf("second part %q", lines.Text())
	}
}

// closedPage is the response writer of a closed page. Wails reports that only as an error of Write.
type closedPage struct{ http.ResponseWriter }

func (closedPage) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestClosedPageCancelsRequest(t *testing.T) {
	ended := make(chan struct{})
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "a token\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(ended)
	}))
	defer agent.Close()
	a, _ := AgentFrom(environment(map[string]string{envAddress: agent.URL}))
	a.Handler().ServeHTTP(closedPage{httptest.NewRecorder()},
		httptest.NewRequest("POST", "/v1/chat/completions", nil))
	<-ended
}

func TestHandlerOtherPaths(t *testing.T) {
	a, _ := AgentFrom(environment(map[string]string{envAddress: "http://127.0.0.1:1/"}))
	for path, want := range map[string]int{"/": 404, "/apix": 404, "/v1": 404, "/metrics": 404,
		"/control/state": 502} {
		w := httptest.NewRecorder()
		a.Handler().ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		if w.Code != want {
			t.Errorf("%s: %d, want %d", path, w.Code, want)
		}
		if want == 502 && !strings.Contains(w.Body.String(), "Start it again.") {
			t.Errorf("%s: %s", path, w.Body)
		}
	}
}
