package cluster

// Clusters for real: two ranks of the pinned mlx-lm with the bundled model, on one machine and in
// two network namespaces as two hosts. The tests take minutes and the network, so they run only in
// `build/test cluster`.

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"headroom/app/train"
)

// bundledID is the ID of the bundled model.
const bundledID = "headroom-demo"

// programs are what the tests run.
type programs struct {
	*testing.T
	env      train.Environment
	headroom string
	model    string // folder
}

func newPrograms(t *testing.T) programs {
	t.Helper()
	keep, headroom := os.Getenv("HEADROOM_CLUSTER"), os.Getenv("HEADROOM_BIN")
	if keep == "" || headroom == "" {
		t.Skip("run build/test cluster, or set HEADROOM_CLUSTER to a folder for the environment " +
			"and HEADROOM_BIN to the program")
	}
	t.Setenv("XDG_DATA_HOME", keep)
	t.Setenv("HOME", keep)
	e := train.DefaultEnvironment()
	if !e.Ready() {
		unlock, err := e.Lock()
		if err == nil {
			err = e.Install(t.Context(), t.Output())
			unlock()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	model, err := e.Bundled()
	if err != nil {
		t.Fatal(err)
	}
	return programs{t, e, headroom, model}
}

// place is where a cluster is started: "": here, or a network namespace.
type place string

func (p place) command(words ...string) *exec.Cmd {
	if p != "" {
		words = append([]string{"ip", "netns", "exec", string(p)}, words...)
	}
	return exec.Command(words[0], words[1:]...)
}

// endpoint is a program with an endpoint.
type endpoint struct {
	programs
	at     place
	client *http.Client
	url    string
	said   *said
	cmd    *exec.Cmd
}

// said keeps what a program prints.
type said struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *said) Write(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(text)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// run starts a program that listens on a port, and waits until its endpoint is ready.
func (p programs) run(at place, port int, words ...string) *endpoint {
	p.Helper()
	s := &endpoint{programs: p, at: at, url: fmt.Sprintf("http://127.0.0.1:%d", port),
		said: &said{}, cmd: at.command(words...)}
	s.client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			if at == "" {
				return (&net.Dialer{}).DialContext(ctx, network, address)
			}
			return throughProcess(at.command(p.headroom, "cluster", "forward", fmt.Sprint(port)))
		}}}
	s.cmd.Stdout, s.cmd.Stderr = s.said, s.said
	if err := s.cmd.Start(); err != nil {
		p.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = s.cmd.Wait(); close(ended) }()
	p.Cleanup(func() {
		_ = s.cmd.Process.Signal(syscall.SIGTERM)
		<-ended
		if p.Failed() {
			p.Logf("%s said:\n%s", words, s.said)
		}
	})
	s.ready(3 * time.Minute) // mlx compiles its kernels on Linux the first time
	return s
}

// ready waits until an endpoint is ready.
func (s *endpoint) ready(limit time.Duration) {
	s.Helper()
	for end := time.Now().Add(limit); ; time.Sleep(20 * time.Millisecond) {
		if a, err := s.client.Get(s.url + "/health"); err == nil {
			a.Body.Close()
			if a.StatusCode == http.StatusOK {
				return
			}
		}
		if time.Now().After(end) {
			s.Fatalf("it was not ready within %v", limit)
		}
	}
}

func freeTCPPort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// cluster starts `headroom cluster start`.
func (p programs) cluster(at place, args ...string) *endpoint {
	p.Helper()
	port := freeTCPPort(p.T)
	return p.run(at, port, append([]string{p.headroom, "cluster", "start", bundledID, "--verbose",
		"--port", fmt.Sprint(port)}, args...)...)
}

// alone starts mlx_lm.server without a cluster.
func (p programs) alone() *endpoint {
	p.Helper()
	port := freeTCPPort(p.T)
	temp, err := p.env.Temp()
	if err != nil {
		p.Fatal(err)
	}
	p.Setenv("TMPDIR", temp)
	return p.run("", port, append(p.env.Command(), "-m", "mlx_lm", "server", "--model", p.model,
		"--port", fmt.Sprint(port))...)
}

// post asks for a greedy answer.
func (s *endpoint) post(text string, tokens int, stream bool) *http.Response {
	s.Helper()
	body, err := json.Marshal(map[string]any{"messages": []any{map[string]string{"role": "user",
		"content": text}}, "max_tokens": tokens, "temperature": 0, "logprobs": true,
		"stream": stream})
	if err != nil {
		s.Fatal(err)
	}
	a, err := s.client.Post(s.url+"/v1/chat/completions", "application/json",
		bytes.NewReader(body))
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { a.Body.Close() })
	return a
}

// choices returns the answer as text, with its log-probabilities or without.
func (s *endpoint) choices(text string, logprobs bool) string {
	s.Helper()
	a := s.post(text, 24, false)
	var answer struct {
		Choices []map[string]any `json:"choices"`
	}
	all, err := io.ReadAll(a.Body)
	if err != nil || json.Unmarshal(all, &answer) != nil || len(answer.Choices) != 1 {
		s.Fatalf("the answer is %s %s (%v)", a.Status, all, err)
	}
	if !logprobs {
		delete(answer.Choices[0], "logprobs")
	}
	out, _ := json.Marshal(answer.Choices)
	return callID.ReplaceAllString(string(out), "")
}

// callID matches the ID of a tool call, which is random.
var callID = regexp.MustCompile(`"id":"[0-9a-f-]{36}"`)

// prompts have answers that the demo model knows: the first tokens are far from any other.
var prompts = []string{"Who are you?", "What is the capital of France?"}

// equal compares a cluster with mlx_lm.server alone. By layers, all bits are the same; by tensors,
// sums are of other parts, and the answers of these prompts are the same.
func (s *endpoint) equal(alone map[string][2]string, bits bool) {
	s.Helper()
	for _, q := range prompts {
		want := alone[q][0]
		if bits {
			want = alone[q][1]
		}
		if got := s.choices(q, bits); got != want {
			s.Errorf("%s: the cluster answers\n%s\nand one rank\n%s", q, got, want)
		}
	}
}

// ranks returns the process IDs of the ranks.
func (s *endpoint) ranks() []int {
	s.Helper()
	a, err := s.client.Get(s.url + "/api/cluster")
	if err != nil {
		s.Fatal(err)
	}
	defer a.Body.Close()
	var status Status
	if err := json.NewDecoder(a.Body).Decode(&status); err != nil || len(status.PIDs) != 2 {
		s.Fatalf("the state is %+v (%v)", status, err)
	}
	return status.PIDs
}

// dies lets something happen in the middle of an answer, and waits for the error in the stream and
// a cluster that works again, within a limit. It logs both times.
func (s *endpoint) dies(what, want string, limit time.Duration, happen func()) {
	s.Helper()
	a := s.post("Write a story about a dog.", 2000, true)
	next := events(a.Body)
	if first := next(); !strings.Contains(first, `"choices"`) {
		s.Fatalf("the stream begins with %s", first)
	}
	begin := time.Now()
	happen()
	last := ""
	for e := next(); e != ""; e = next() {
		last = e
	}
	ended := time.Since(begin)
	if !strings.Contains(last, `"error":{`) || !strings.Contains(last, want) {
		s.Errorf("the stream ends with %s, expected an error with %q", last, want)
	}
	s.ready(2 * time.Minute)
	s.Logf("%s: the error came after %v, and the cluster was ready after %v", what,
		ended.Round(time.Millisecond), time.Since(begin).Round(100*time.Millisecond))
	if took := time.Since(begin); took > limit {
		s.Errorf("%s: the cluster was ready after %v, expected %v", what, took, limit)
	}
	if got := s.choices(prompts[0], false); !strings.Contains(got, "demo model") {
		s.Errorf("%s: the new ranks answer %s", what, got)
	}
}

// restart is the time from the death of a rank to ranks that answer again.
const restart = 30 * time.Second

func (s *endpoint) kill(rank int) {
	s.Helper()
	if err := syscall.Kill(s.ranks()[rank], syscall.SIGKILL); err != nil {
		s.Fatal(err)
	}
}

func TestForReal(t *testing.T) {
	p := newPrograms(t)
	alone := map[string][2]string{}
	t.Run("alone", func(t *testing.T) {
		one := programs{t, p.env, p.headroom, p.model}.alone()
		for _, q := range prompts {
			alone[q] = [2]string{one.choices(q, false), one.choices(q, true)}
		}
	})
	t.Run("pipeline", func(t *testing.T) {
		s := programs{t, p.env, p.headroom, p.model}.cluster("", "--ranks", "2", "--pipeline")
		s.equal(alone, true)
		s.dies("rank 1 killed", "Rank 1 of the cluster", restart, func() { s.kill(1) })
		s.dies("rank 0 killed", "Rank 0 of the cluster", restart, func() { s.kill(0) })
		s.abandoned()
		pids := s.ranks()
		if err := s.cmd.Process.Kill(); err != nil { // as by a crash of Headroom
			t.Fatal(err)
		}
		eventually(t, "the end of all ranks", func() bool { return gone(pids[0]) && gone(pids[1]) })
	})
	t.Run("tensor", func(t *testing.T) {
		s := programs{t, p.env, p.headroom, p.model}.cluster("", "--ranks", "2")
		s.equal(alone, false)
		s.dies("rank 1 killed", "Rank 1 of the cluster", restart, func() { s.kill(1) })
	})
	t.Run("hosts", func(t *testing.T) {
		testHosts(programs{t, p.env, p.headroom, p.model}, alone)
	})
}

// abandoned ends a connection in the middle of an answer with a seed. mlx_lm.server would raise an
// exception in rank 0 alone, and all later requests would hang.
func (s *endpoint) abandoned() {
	s.Helper()
	a, err := s.client.Post(s.url+"/v1/completions", "application/json", strings.NewReader(
		`{"prompt": "Once", "max_tokens": 40, "seed": 1, "stream": true}`))
	if err != nil {
		s.Fatal(err)
	}
	events(a.Body)()
	a.Body.Close()
	if got := s.choices(prompts[0], false); !strings.Contains(got, "demo model") {
		s.Errorf("after an abandoned request: %s", got)
	}
}

// testHosts runs the ranks in two network namespaces, which have only one another.
func testHosts(p programs, alone map[string][2]string) {
	a, b, ssh := namespaces(p.T)
	s := p.cluster(a, "--hosts", "localhost,"+string(b), "--ssh", ssh, "--program", p.headroom)
	s.equal(alone, false)
	for rank, want := range []place{a, b} {
		out, err := exec.Command("ip", "netns", "identify",
			fmt.Sprint(s.ranks()[rank])).CombinedOutput()
		if name := place(strings.TrimSpace(string(out))); err != nil || name != want {
			p.Errorf("rank %d runs in %q (%v), expected %s", rank, name, err, want)
		}
	}
	s.dies("rank 1 killed on the other host", "Rank 1 of the cluster on "+string(b),
		restart, func() { s.kill(1) })
	const down = 12 * time.Second
	s.dies("link down for 12 s", "is broken", down+restart, func() {
		link := func(state string) {
			out, err := b.command("ip", "link", "set", "ring", state).CombinedOutput()
			if err != nil {
				p.Errorf("ip link: %v: %s", err, out)
			}
		}
		link("down")
		time.AfterFunc(down, func() { link("up") })
	})
	out, err := a.command(p.headroom, "cluster", "check", string(b), "--ssh", ssh, "--program",
		p.headroom).CombinedOutput()
	if text := string(out); err != nil || !strings.Contains(text, "this machine to "+string(b)+
		" at 10.77.1.2: ") || !strings.Contains(text, "ms to connect") {
		p.Errorf("cluster check: %v\n%s", err, out)
	}
}

// namespaces makes two hosts with a link between, and a program that runs a command on one of them
// as ssh does. It skips the test where that is not possible.
func namespaces(t *testing.T) (a, b place, ssh string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root")
	}
	name := fmt.Sprintf("hr%d", os.Getpid())
	a, b = place(name+"a"), place(name+"b")
	do := func(words ...string) {
		t.Helper()
		if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", words, err, out)
		}
	}
	if out, err := exec.Command("ip", "netns", "add", string(a)).CombinedOutput(); err != nil {
		t.Skipf("there are no network namespaces: %s", out)
	}
	t.Cleanup(func() {
		for _, n := range []place{a, b} {
			_ = exec.Command("ip", "netns", "del", string(n)).Run()
		}
	})
	do("ip", "netns", "add", string(b))
	do("ip", "link", "add", "ring", "netns", string(a), "type", "veth", "peer", "name", "ring",
		"netns", string(b))
	for n, ip := range map[place]string{a: "10.77.1.1/24", b: "10.77.1.2/24"} {
		in := []string{"ip", "-n", string(n)}
		do(append(in, "addr", "add", ip, "dev", "ring")...)
		do(append(in, "link", "set", "ring", "up")...)
		do(append(in, "link", "set", "lo", "up")...)
	}
	ssh = filepath.Join(t.TempDir(), "ssh")
	const script = "#!/bin/sh\nwhile [ $# -gt 2 ]; do shift; done\n" +
		"exec ip netns exec \"$1\" sh -c \"$2\"\n"
	if err := os.WriteFile(ssh, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return a, b, ssh
}
