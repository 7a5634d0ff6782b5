package commands

// Model folders are not trusted: whatever one contains, the server stays alive and responsive, its
// other models answer as before, and the work for a request ends when its client has left.

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

const (
	// maxFolderCPU is the CPU time that the server may use after a client has left, until it idles.
	// That is a second of work, and the collection of what the work has left.
	maxFolderCPU = 2500 * time.Millisecond
	maxFolderRSS = 1500 << 20
	// maxHealth is how long /health may take. It is a second, and more if the machine is busy with
	// other tests.
	maxHealth = 5 * time.Second
	// maxReported is how long a client that does not leave waits for the answer of a reported
	// folder. It is a second, on an idle machine.
	maxReported = 15 * time.Second
)

// TestHostileFolders starts hostile models one after another and asks each a question: those that
// were reported, and some at random. Clients leave soon. Those that were reported are asked again
// by clients that wait, so that neither the bounds nor a request's end alone make the test pass.
// With HEADROOM_LONG set, it plants 500 folders. HEADROOM_SEED selects other seeds, and
// HEADROOM_FOLDERS their number.
func TestHostileFolders(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("reads /proc")
	}
	seed, count := number(t, "HEADROOM_SEED", 0), number(t, "HEADROOM_FOLDERS", 20)
	if os.Getenv("HEADROOM_LONG") != "" && os.Getenv("HEADROOM_FOLDERS") == "" {
		count = 500
	}
	h := newHostile(t)
	testFolders(t, len(reported), h.plantReported, (*hostileServer).wait)
	const together = 100 // folders that exist at the same time
	for from := 0; from < count && !t.Failed(); from += together {
		testFolders(t, min(together, count-from), func(i int, dir string) string {
			n := seed + from + i
			return fmt.Sprintf("seed %d: %s", n, h.plant(dir, uint64(n)))
		}, nil)
	}
}

func number(t *testing.T, variable string, otherwise int) int {
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", variable, err)
	}
	return n
}

// testFolders plants folders, starts a server and uses each folder. plant returns what is wrong
// with a folder. also, if not nil, uses the folder again and returns what came of it.
func testFolders(t *testing.T, count int, plant func(i int, dir string) string,
	also func(s *hostileServer, i int, name string) string) {
	home := isolate(t)
	root := filepath.Join(home, "hostile")
	faults := map[string]string{}
	for i := range count {
		name := fmt.Sprintf("h%d", i)
		faults[name] = plant(i, filepath.Join(root, name))
	}
	defer os.RemoveAll(root)
	s := startHostile(t, root)
	defer s.stop()
	want := s.demoAnswer()
	for i := 0; i < count && !t.Failed(); i++ {
		name := fmt.Sprintf("h%d", i)
		outcome := s.use(name)
		if also != nil && s.fault() == nil {
			outcome += also(s, i, name)
		}
		if testing.Verbose() || t.Failed() { // of a test that fails, hundreds would hide the rest
			t.Logf("%s: %s: %s", name, faults[name], outcome)
		}
		if i%10 == 9 || i == count-1 {
			if got := s.demoAnswer(); got != want {
				t.Errorf("%s: the demo model answers %q, want %q", name, got, want)
			}
		}
		if err := s.fault(); err != nil {
			t.Errorf("%s: %v\n%s", faults[name], err, s.log.Bytes())
			return
		}
	}
	t.Logf("/health took at most %v; memory was at most %d MB", time.Duration(s.slowest.Load()),
		s.largest.Load()>>20)
}

// hostileServer is a server process, and what a watcher has seen of it.
type hostileServer struct {
	*serverProcess
	endWatch context.CancelFunc
	watched  chan struct{}

	slowest, largest atomic.Int64 // time of /health; bytes of memory
	unhealthy        atomic.Value // string: why /health failed
}

func startHostile(t *testing.T, root string) *hostileServer {
	s := &hostileServer{watched: make(chan struct{}), serverProcess: startServer(t, "--models-dir",
		root, "--context", "4096", "--no-ssd-cache", "--log-level", "warn")}
	var ctx context.Context
	ctx, s.endWatch = context.WithCancel(context.Background())
	go s.watch(ctx)
	return s
}

func (s *hostileServer) stop() {
	s.endWatch()
	<-s.watched
	s.serverProcess.stop()
}

// watch asks for /health and measures the memory all the time. It kills a server that takes too
// much, so that the machine is safe.
func (s *hostileServer) watch(ctx context.Context) {
	defer close(s.watched)
	for ctx.Err() == nil {
		begin := time.Now()
		limited, cancel := context.WithTimeout(ctx, 2*maxHealth)
		status, text := s.request(limited, "GET", "/health", nil)
		cancel()
		if took := time.Since(begin); ctx.Err() == nil {
			s.slowest.Store(max(s.slowest.Load(), int64(took)))
			if status != http.StatusOK || took > maxHealth {
				s.unhealthy.Store(fmt.Sprintf("/health: %d after %v: %s", status, took, text))
			}
		}
		var pages int64
		statm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/statm", s.pid()))
		_, _ = fmt.Sscan(string(statm), new(int64), &pages)
		rss := pages * int64(os.Getpagesize())
		s.largest.Store(max(s.largest.Load(), rss))
		if rss > maxFolderRSS {
			s.unhealthy.Store(fmt.Sprintf("the server has %d MB in memory", rss>>20))
			_ = s.command.Process.Kill()
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// fault returns why the server is not as it should be.
func (s *hostileServer) fault() error {
	if why, ok := s.unhealthy.Load().(string); ok {
		return fmt.Errorf("%s", why)
	}
	select {
	case <-s.ended:
		return fmt.Errorf("the server has ended: %v", s.command.ProcessState)
	default:
		return nil
	}
}

// use starts a model, asks it a question, leaves soon, stops it, and waits until the server idles.
func (s *hostileServer) use(name string) string {
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	outcome := s.load(ctx, name)
	body := hostileQuestion(name)
	leaving, leave := context.WithTimeout(ctx, 100*time.Millisecond)
	status, text := s.request(leaving, "POST", "/v1/chat/completions", body)
	leave()
	before := s.cpu()
	s.request(ctx, "POST", "/control/engine/stop", nil)
	if status == 0 {
		outcome += "; left"
	} else {
		outcome += fmt.Sprintf("; asked %d: %.150s", status, text)
	}
	used, idle := s.idle(ctx, before)
	if s.fault() == nil && (!idle || used > maxFolderCPU) {
		s.t.Errorf("%s: the server used %v of CPU after the client had left, idle %t: %s", name,
			used, idle, outcome)
	}
	return outcome + fmt.Sprintf("; %v of CPU", used)
}

// wait starts the model of a reported folder and asks it a question, whose answer must come.
func (s *hostileServer) wait(i int, name string) string {
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	s.load(ctx, name)
	begin := time.Now()
	limited, leave := context.WithTimeout(ctx, maxReported)
	defer leave()
	status, text := s.request(limited, "POST", "/v1/chat/completions", hostileQuestion(name))
	took := time.Since(begin)
	if want := reported[i].answer; status == 0 || !strings.Contains(string(text), want) {
		s.t.Errorf("%s: after %v it answers %d %.200s, want %q", name, took, status, text, want)
	}
	s.request(ctx, "POST", "/control/engine/stop", nil)
	return fmt.Sprintf("; waited %v: %d %.150s", took.Round(time.Millisecond), status, text)
}

// hostileQuestion is the body of a request that takes exponential time in the worst expressions.
func hostileQuestion(model string) []byte {
	question := strings.Repeat("a", 40) + "! " + "Tell me about KV caches."
	body, _ := json.Marshal(map[string]any{"model": model, "max_tokens": 20,
		"messages": []map[string]string{{"role": "user", "content": question}}})
	return body
}

// load starts a model, and waits a little until it is loaded. It returns what came of it.
func (s *hostileServer) load(ctx context.Context, name string) string {
	body, _ := json.Marshal(map[string]any{"model": name})
	status, text := s.request(ctx, "POST", "/control/engine/start", body)
	if len(text) > 16<<10 {
		s.t.Errorf("%s: an answer of %d bytes", name, len(text))
	}
	if status != http.StatusAccepted {
		return fmt.Sprintf("start %d: %.150s", status, text)
	}
	loaded := "loading"
	for i := 0; loaded == "loading" && i < 500 && s.fault() == nil; i++ {
		time.Sleep(10 * time.Millisecond)
		loaded = s.status(ctx)
	}
	return loaded
}

// idle waits until the server uses less than a quarter of what a thread of this test gets that
// computes all the time, and returns the CPU time that it has used until then. On a machine under
// load, a server that computes without end may get hardly any CPU time for a while, and so does the
// thread.
func (s *hostileServer) idle(ctx context.Context, before time.Duration) (time.Duration, bool) {
	const window = 50 * time.Millisecond
	for quiet := 0; ctx.Err() == nil && s.fault() == nil; {
		last := s.ran()
		if got := spin(window); got < window/10 {
			continue // too little to compare with
		} else if s.ran()-last <= got/4 { // /health is asked meanwhile
			quiet++
		} else {
			quiet = 0
		}
		if quiet == 2 {
			return s.cpu() - before, true
		}
	}
	return s.cpu() - before, false
}

// spin computes for a time, and returns the CPU time that it got.
func spin(d time.Duration) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const own = "/proc/thread-self/schedstat"
	last, begin := ranOf(own), time.Now()
	for time.Since(begin) < d {
	}
	if last == 0 {
		return d // a kernel without statistics
	}
	return ranOf(own) - last
}

// ran returns how long the threads of the server have run.
func (s *hostileServer) ran() (sum time.Duration) {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", s.pid()))
	for _, path := range threads {
		sum += ranOf(path)
	}
	if sum == 0 {
		return s.cpu() // a kernel without statistics
	}
	return sum
}

func ranOf(schedstat string) time.Duration {
	var ran int64
	text, _ := os.ReadFile(schedstat)
	_, _ = fmt.Sscan(string(text), &ran)
	return time.Duration(ran)
}

// cpu returns the CPU time of the server, without its children.
func (s *hostileServer) cpu() time.Duration {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.pid()))
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond // a tick is 1/100 s
}

func (s *hostileServer) status(ctx context.Context) string {
	var state struct{ Engine struct{ Status string } }
	_, text := s.request(ctx, "GET", "/control/state", nil)
	_ = json.Unmarshal(text, &state)
	return state.Engine.Status
}

// demoAnswer returns the demo model's answer to a question.
func (s *hostileServer) demoAnswer() string {
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	s.load(ctx, "headroom-demo")
	body, _ := json.Marshal(map[string]any{"model": "headroom-demo", "temperature": 0,
		"max_tokens": 30, "messages": []map[string]string{{"role": "user", "content": question}}})
	status, text := s.request(ctx, "POST", "/v1/chat/completions", body)
	var answer struct {
		Choices []struct{ Message struct{ Content string } }
	}
	if err := json.Unmarshal(text, &answer); err != nil || len(answer.Choices) != 1 {
		return fmt.Sprintf("%d %s", status, text)
	}
	return answer.Choices[0].Message.Content
}
