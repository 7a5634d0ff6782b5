package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"headroom/engine/problem"
)

func background() context.Context { return context.Background() }

var testLimits = limits{start: 30 * time.Second, link: 10 * time.Millisecond,
	beat: 20 * time.Second, stall: time.Minute,
	steady: time.Hour, pause: time.Millisecond, most: 10 * time.Millisecond, fails: 100}

// running is a cluster that runs during a test.
type running struct {
	ranks
	*Cluster
	url   string
	ended chan error
	stop  context.CancelFunc
}

// start runs a cluster of fake ranks and waits until it is ready.
func (r ranks) start(hosts []Host) *running {
	r.Helper()
	c := r.begin(hosts, testLimits)
	c.ready(1)
	return c
}

func (r ranks) begin(hosts []Host, l limits) *running {
	r.Helper()
	c, _, err := New(r.Context(), Options{Hosts: hosts, Model: r.model(), Shell: r.shell()}, nil)
	if err != nil {
		r.Fatal(err)
	}
	c.limits = l
	ctx, cancel := context.WithCancel(background())
	server := httptest.NewServer(c.Handler())
	all := &running{r, c, server.URL, make(chan error, 1), cancel}
	go func() { all.ended <- c.Run(ctx); close(all.ended) }()
	r.Cleanup(func() {
		server.Close()
		cancel()
		<-all.ended
	})
	return all
}

// ready waits until the ranks that have started for the nth time are ready.
func (c *running) ready(nth int) {
	c.ranks.Helper()
	eventually(c.T, "a ready cluster", func() bool {
		s := c.Cluster.Status()
		return s.State == Ready && s.Starts >= nth
	})
}

func (c *running) post(body string) *http.Response {
	c.ranks.Helper()
	a, err := http.Post(c.url+"/v1/completions", "application/json", strings.NewReader(body))
	if err != nil {
		c.Fatal(err)
	}
	c.ranks.Cleanup(func() { a.Body.Close() })
	return a
}

func text(t *testing.T, a *http.Response) string {
	t.Helper()
	all, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(all)
}

func two() []Host { return []Host{{SSH: "localhost"}, {SSH: "localhost"}} }

func TestRequests(t *testing.T) {
	c := newRanks(t).start(two())
	for _, q := range []struct {
		name, body string
		status     int
		want       string
	}{
		{"whole", `{"model": "tiny", "prompt": "hello"}`, 200, `"text": "hello"`},
		{"no model", `{"prompt": "hello"}`, 200, `"model": "tiny"`},
		{"null", `{"prompt": "hello", "max_tokens": null, "model": null}`, 200, `"text": "hello"`},
		{"stream", `{"prompt": "hello", "stream": true}`, 200, "data: [DONE]\n\n"},
		{"another model", `{"model": "other"}`, 404, `"code":"model_not_found"`},
		{"no name", `{"model": 7}`, 404, `"code":"model_not_found"`},
		{"adapter", `{"adapters": "x"}`, 400, "a cluster has no adapters"},
		{"draft model", `{"draft_model": "x"}`, 400, "a cluster has no draft_model"},
		{"no JSON", `{`, 400, "no JSON object"},
		{"a list", `[1]`, 400, "no JSON object"},
		{"refused by rank 0", `{"prompt": ["null"]}`, 400, "rank 0 cannot read"},
	} {
		a := c.post(q.body)
		if got := text(t, a); a.StatusCode != q.status || !strings.Contains(got, q.want) {
			t.Errorf("%s: %s %s, expected %d and %s", q.name, a.Status, got, q.status, q.want)
		}
	}
	for path, want := range map[string]string{"/v1/models": `"id":"tiny"`,
		"/health": `"status":"ok"`, "/api/cluster": `"state":"ready"`, "/v1/other": "not_found"} {
		a, err := http.Get(c.url + path)
		if err != nil {
			t.Fatal(err)
		}
		if got := text(t, a); !strings.Contains(got, want) {
			t.Errorf("%s: %s, expected %s", path, got, want)
		}
		a.Body.Close()
	}
	q, _ := http.NewRequest(http.MethodGet, c.url+"/v1/models", nil)
	q.Header.Set("Origin", "https://example.com")
	a, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	if a.StatusCode != http.StatusForbidden {
		t.Errorf("a foreign web page got %s", a.Status)
	}
}

// TestRankDies kills each rank while it answers. Clients get an error, and the cluster works again.
func TestRankDies(t *testing.T) {
	r := newRanks(t)
	c := r.start(two())
	for rank, nth := range []int{2, 3} {
		old := []int{r.pid(0, 0), r.pid(1, 0)}
		stream := c.post(`{"prompt": "forever", "stream": true}`)
		next := events(stream.Body)
		if first := next(); first != `{"text": "forever"}` {
			t.Fatalf("the stream begins with %s", first)
		}
		whole := make(chan *http.Response, 1)
		go func() { whole <- c.post(`{"prompt": "forever"}`) }()
		eventually(t, "two requests", func() bool { return c.Cluster.Status().Requests == 2 })
		if err := syscall.Kill(old[rank], syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		last := ""
		for e := next(); e != ""; e = next() {
			last = e
		}
		if want := "Rank " + string('0'+rune(rank)); !strings.Contains(last, `"error":{`) ||
			!strings.Contains(last, want) || !strings.Contains(last, "signal: killed") {
			t.Errorf("the stream ends with %s, expected an error with %s", last, want)
		}
		a := <-whole
		if got := text(t, a); a.StatusCode != http.StatusBadGateway ||
			!strings.Contains(got, "has ended") || a.Header.Get("Retry-After") == "" {
			t.Errorf("the whole answer is %s %s", a.Status, got)
		}
		c.ready(nth)
		for other, pid := range old {
			if !gone(pid) {
				t.Errorf("rank %d still runs", other)
			}
		}
		if got := text(t, c.post(`{"prompt": "again"}`)); !strings.Contains(got, "again") {
			t.Errorf("after the start: %s", got)
		}
	}
}

// TestStarting asks a cluster whose ranks do not load.
func TestStarting(t *testing.T) {
	r := newRanks(t)
	r.write("fails", "ValueError: no such weights")
	l := testLimits
	l.fails, l.pause, l.most = 3, time.Millisecond, time.Millisecond
	c := r.begin(two(), l)
	err := <-c.ended
	p := problem.From(err)
	if p.Code != problem.Crashed ||
		!strings.Contains(p.Message, "failed 3 times in a row: Rank ") ||
		!strings.Contains(p.Why, "no such weights") {
		t.Fatalf("the cluster ended with %v", err)
	}
	if a := c.post(`{}`); a.StatusCode != http.StatusServiceUnavailable ||
		!strings.Contains(text(t, a), "The cluster has stopped") {
		t.Errorf("after the end: %s", a.Status)
	}
}

// TestWaits asks while the ranks start.
func TestWaits(t *testing.T) {
	r := newRanks(t)
	c, _, err := New(t.Context(), Options{Hosts: two(), Model: r.model(), Shell: r.shell()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	c.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodPost,
		"http://localhost/v1/chat/completions", bytes.NewReader([]byte("{}"))))
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "5" ||
		!strings.Contains(w.Body.String(), `"code":"loading"`) {
		t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
	}
}

// TestHangs lets a rank report that it makes no progress.
func TestHangs(t *testing.T) {
	r := newRanks(t)
	c := r.start(two())
	r.write("hangs1", "")
	eventually(t, "a restart", func() bool {
		return strings.Contains(c.Cluster.Status().Error, "Rank 1 of the cluster hangs")
	})
	if err := os.Remove(r.dir + "/hangs1"); err != nil {
		t.Fatal(err)
	}
	c.ready(2)
}

// TestSilentRank stops a rank: it does not end, and nothing is heard of it.
func TestSilentRank(t *testing.T) {
	r := newRanks(t)
	l := testLimits
	l.beat = 500 * time.Millisecond
	c := r.begin(two(), l)
	c.ready(1)
	pid := r.pid(1, 0)
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a restart", func() bool {
		return strings.Contains(c.Cluster.Status().Error, "Rank 1 of the cluster on this machine "+
			"does not answer")
	})
	c.ready(2)
	if !gone(pid) {
		t.Error("the stopped rank still exists")
	}
}

// TestNodeDies kills the nodes as a crash of Headroom's machine would. No rank stays.
func TestNodeDies(t *testing.T) {
	r := newRanks(t)
	c := r.start([]Host{{SSH: "localhost", IPs: []string{"127.0.0.1"}},
		{SSH: "chatty", IPs: []string{"127.0.0.1"}}})
	pids := []int{r.pid(0, 0), r.pid(1, 0)}
	c.Cluster.mu.Lock()
	node := c.Cluster.run.peers.nodes[1].command.Process.Pid
	c.Cluster.mu.Unlock()
	if err := syscall.Kill(node, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the end of all ranks", func() bool { return gone(pids[0]) && gone(pids[1]) })
	c.ready(2)
	if s := c.Cluster.Status(); !strings.Contains(s.Error, "chatty") {
		t.Errorf("the reason is %q", s.Error)
	}
	pids = []int{r.pid(0, pids[0]), r.pid(1, pids[1])}
	c.stop()
	<-c.ended
	for rank, pid := range pids {
		if !gone(pid) {
			t.Errorf("rank %d runs after the end of the cluster", rank)
		}
	}
}

// TestSilence stops sending to a node. It ends, and its ranks with it, even those that do not
// notice the end of stdin. It does not end while pings come.
func TestSilence(t *testing.T) {
	const silence = time.Second
	r := newRanks(t)
	r.write("deaf", "")
	t.Setenv("MLX_TEST_SILENCE", silence.String())
	cmd, err := r.shell().command(Host{SSH: "localhost"}, "node")
	if err != nil {
		t.Fatal(err)
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	q, _ := json.Marshal(request{ID: 1, Op: opRank, Rank: &rank{
		Env: map[string]string{"MLX_RANK": "1"}, Args: []string{"server", "tiny"}}})
	if _, err := in.Write(append(q, '\n')); err != nil {
		t.Fatal(err)
	}
	pid := r.pid(1, 0)
	for begin := time.Now(); time.Since(begin) < silence*3/2; time.Sleep(silence / 50) {
		if _, err := in.Write([]byte("{\"op\": \"ping\"}\n")); err != nil || gone(pid) {
			t.Fatalf("the node ended while pings came (%v)", err)
		}
	}
	if err := cmd.Wait(); err != nil { // stdin is still open
		t.Fatal(err)
	}
	eventually(t, "the end of the rank", func() bool { return gone(pid) })
}

// TestRemote has rank 0 on another machine: requests go through ssh.
func TestRemote(t *testing.T) {
	c := newRanks(t).start([]Host{{SSH: "far", IPs: []string{"127.0.0.1"}},
		{SSH: "localhost", IPs: []string{"127.0.0.1"}}})
	if got := text(t, c.post(`{"prompt": "hello"}`)); !strings.Contains(got, `"text": "hello"`) {
		t.Error(got)
	}
	got := text(t, c.post(`{"prompt": "hello", "stream": true}`))
	if !strings.HasSuffix(got, "data: [DONE]\n\n") {
		t.Error(got)
	}
}

// TestLinks watches links that are reached, and one that is not.
func TestLinks(t *testing.T) {
	r := newRanks(t)
	p, err := connectAll(t.Context(), r.shell(), []Host{{SSH: "localhost"}, {SSH: "far"}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	l, err := p.listenLinks(t.Context(), []string{"127.0.0.1", "127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := l.watch(ctx, time.Millisecond); err != nil {
		t.Errorf("good links are %v", err)
	}
	if _, err := p.nodes[1].call(t.Context(), request{Op: opClose}, nil); err != nil {
		t.Fatal(err)
	}
	if err := l.watch(t.Context(), time.Millisecond); err == nil ||
		!strings.Contains(err.Error(), "link from this machine to far is broken") {
		t.Errorf("the error is %v", err)
	}
}

// TestStatus has what each rank holds.
func TestStatus(t *testing.T) {
	r := newRanks(t)
	s := r.start(two()).Cluster.Status()
	pids := []int{r.pid(0, 0), r.pid(1, 0)}
	if !slices.Equal(s.Memory, []int64{100, 100}) || !slices.Equal(s.PIDs, pids) ||
		s.Mode != Tensor || s.Backend != Ring || len(s.Shares) != 1 || s.Shares[0].Weights != 70 {
		t.Errorf("%+v, expected the ranks %d", s, pids)
	}
}

func TestCheckFails(t *testing.T) {
	r := newRanks(t)
	good := r.shell()
	none := good
	none.Remote = "/nowhere/headroom"
	for _, c := range []struct {
		name  string
		shell Shell
		hosts string
		model string
		want  string
	}{
		{"refused", good, "localhost,refuses", "", "Turn on Remote Login"},
		{"denied", good, "localhost,denies", "", "ssh-copy-id denies"},
		{"not installed", none, "localhost,far", "", "Headroom is not installed on far"},
		{"no model", good, "localhost,localhost", "/missing", "There is no model /missing"},
		{"no files", good, "localhost,localhost", "/none", "The model cannot be read"},
	} {
		hosts, err := ParseHosts(c.hosts)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Check(t.Context(), Options{Hosts: hosts, Model: c.model, Shell: c.shell})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, expected %s", c.name, err, c.want)
		}
	}
}

// TestEmptyAnswers has a host whose node leaves out what an operation promises.
func TestEmptyAnswers(t *testing.T) {
	r := newRanks(t)
	ips := []string{"127.0.0.1"}
	for _, op := range []string{opFacts, opListen, opDial, opModel, opProbe} {
		_, err := Check(t.Context(), Options{Model: r.model(), Shell: r.shell(),
			Hosts: []Host{{SSH: "empty-" + op, IPs: ips}, {SSH: "localhost", IPs: ips}}})
		// That of probe becomes the reason why the model cannot be split.
		if want := "answer to " + op + " is not complete"; err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, expected %s", err, want)
		}
	}
}

// TestExit: a process that has exited keeps its number until it is waited for.
func TestExit(t *testing.T) {
	for _, script := range []string{"exit 3", "read word; exit 3"} {
		c := exec.Command("/bin/sh", "-c", script)
		in, err := c.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		exited := make(chan struct{})
		go func() { waitExit(c.Process.Pid); close(exited) }()
		if script != "exit 3" {
			select {
			case <-exited:
				t.Error("a process that runs has exited")
			case <-time.After(20 * time.Millisecond):
			}
			_ = in.Close()
		}
		<-exited
		eventually(t, "its end", func() bool { return gone(c.Process.Pid) })
		if err := syscall.Kill(c.Process.Pid, 0); err != nil {
			t.Errorf("its number may be another's: %v", err)
		}
		if err := c.Wait(); c.ProcessState.ExitCode() != 3 {
			t.Errorf("it ended with %v", err)
		}
	}
}

// TestChildrenEnd: the children of a rank end with it, and nothing is left to end.
func TestChildrenEnd(t *testing.T) {
	var out bytes.Buffer
	n := newFakeNode()
	n.out, n.ranks = &lines{out: &out}, map[*exec.Cmd]chan struct{}{}
	c := exec.Command("/bin/sh", "-c", "sleep 60 & echo $!; exit 3")
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err := n.started(t.Context(), c, &output{node: n, id: 1, each: func(*Event) {}})
	if err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("the rank ended with %v", err)
	}
	var answer reply
	if err := json.Unmarshal(out.Bytes(), &answer); err != nil {
		t.Fatal(err)
	}
	child, err := strconv.Atoi(answer.Line)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the end of the child", func() bool { return gone(child) })
	if len(n.ranks) != 0 {
		t.Errorf("%d ranks are left", len(n.ranks))
	}
	n.kill()
}
