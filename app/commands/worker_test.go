package commands

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"headroom/app/host"
	"headroom/app/service"
	"headroom/app/worker"
	"headroom/engine/problem"
)

// asCommand is an environment variable that makes the test binary run as headroom, with any
// arguments.
const asCommand = "HEADROOM_TEST_AS_COMMAND"

// TestMain runs the test binary as headroom when a server starts a worker or a benchmark starts a
// child.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == worker.Argument || os.Args[1] == "bench" ||
		os.Getenv(asCommand) != "") {
		os.Exit(Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// children returns the child processes that have not been reaped.
func children(t *testing.T) (pids []int) {
	t.Helper()
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	if len(stats) == 0 {
		t.Skip("there is no /proc to look for processes in")
	}
	for _, path := range stats {
		data, err := os.ReadFile(path)
		if err != nil {
			continue // the process has ended
		}
		var pid, parent int
		var state string
		_, rest, _ := strings.Cut(string(data), ") ") // the name may contain anything
		_, _ = fmt.Sscan(string(data), &pid)
		if _, err := fmt.Sscan(rest, &state, &parent); err == nil && parent == os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids
}

// TestServeSurvivesItsWorker: the model's process is killed in the middle of an answer. The client
// gets an error, the next request is answered, and no process is left at the end.
func TestServeSurvivesItsWorker(t *testing.T) {
	isolate(t)
	o := ModelFlags{Device: "cpu", Threads: 1, Context: 32768}.ServiceOptions(ServiceUse{})
	o.Listen = "127.0.0.1"
	s, err := service.New(o)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(t.Context()) }()
	defer func() {
		s.Close()
		<-served
		if left := children(t); len(left) > 0 {
			t.Errorf("processes %v are left", left)
		}
	}()
	if err := s.Host.Start(""); err != nil {
		t.Fatal(err)
	}
	if err := s.Host.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	model, err := s.Host.Acquire("")
	if err != nil {
		t.Fatal(err)
	}
	endless := map[string]int{} // forbids the end tokens
	for _, token := range model.Engine.Defaults().EOSTokenIDs {
		endless[fmt.Sprint(token)] = -100
	}
	ask := func(stream bool, most int) *http.Response {
		t.Helper()
		body, _ := json.Marshal(
			map[string]any{"prompt": "Once upon a time", "max_tokens": most, "stream": stream,
				"logit_bias": endless})
		answer, err := http.Post("http://"+s.Address+"/v1/completions", "application/json",
			bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { answer.Body.Close() })
		return answer
	}
	streamed := bufio.NewScanner(ask(true, 30000).Body)
	for n := 0; n < 5 && streamed.Scan(); n++ { // it is generating
	}
	pids := children(t)
	if len(pids) != 1 {
		t.Fatalf("processes %v, want only the model's", pids)
	}
	if ledger := s.Host.State().Memory; ledger.TotalBytes == 0 {
		t.Error("no memory is shown")
	}
	if err := syscall.Kill(pids[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	last := ""
	for streamed.Scan() {
		if streamed.Text() != "" {
			last = streamed.Text()
		}
	}
	if !strings.HasPrefix(last, "data: {\"error\"") ||
		!strings.Contains(last, string(problem.Crashed)) || !strings.Contains(last, "killed") {
		t.Errorf("the stream ends with %q, want the error", last)
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		// retry like a client that gets Retry-After
		answer := ask(false, 3)
		text, _ := io.ReadAll(answer.Body)
		if answer.StatusCode == http.StatusOK {
			break
		}
		if answer.StatusCode != http.StatusServiceUnavailable ||
			answer.Header.Get("Retry-After") == "" || time.Now().After(deadline) {
			t.Fatalf("%d %s", answer.StatusCode, text)
		}
	}
	state := s.Host.State()
	if n := state.Engine.Notice; state.Engine.Status != host.Ready &&
		state.Engine.Status != host.Busy || n == nil || n.Code != problem.Crashed {
		t.Errorf("afterwards: %+v, %+v", state.Engine, n)
	}
	if again := children(t); len(again) != 1 || again[0] == pids[0] {
		t.Errorf("processes %v, before %v", again, pids)
	}
}

// TestInProcess: with --in-process there is no worker process.
func TestInProcess(t *testing.T) {
	isolate(t)
	flags := ModelFlags{Device: "cpu", Threads: 1, Context: 4096}
	o := flags.ServiceOptions(ServiceUse{InProcess: true})
	o.Listen = "127.0.0.1"
	s, err := service.New(o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Host.Start(""); err != nil {
		t.Fatal(err)
	}
	if err := s.Host.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if pids := children(t); len(pids) > 0 {
		t.Errorf("processes %v", pids)
	}
}

// TestWorkerByHand: starting the worker by hand fails with an explanation, and the help does not
// list it.
func TestWorkerByHand(t *testing.T) {
	out, err := exec.Command(os.Args[0], worker.Argument).CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != int(exitUsage) ||
		!strings.Contains(string(out), "Headroom starts this command itself") {
		t.Errorf("%v, output %s", err, out)
	}
	if _, help, _ := headroom("", "--help"); strings.Contains(help, worker.Argument) {
		t.Errorf("the help shows it:\n%s", help)
	}
}
