package main

// A server under test: its process, its endpoint and its control API.

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// patience is the longest time for a server to start, to end, or to answer again after a fault.
const patience = 5 * time.Minute

// server is a `headroom serve` with its own home folder. It keeps its port over restarts.
type server struct {
	program string
	home    string
	port    int
	args    []string
	token   string
	log     *os.File
	client  *http.Client

	mu    sync.Mutex
	cmd   *exec.Cmd
	ended chan struct{} // closed when cmd has ended
}

func newServer(program, home string, args ...string) (*server, error) {
	if err := os.MkdirAll(home, 0o700); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(home, "server.log"))
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	return &server{program: program, home: home, port: port, args: args, log: log,
		client: &http.Client{Timeout: patience}}, nil
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// start starts the process and waits until the model answers.
func (s *server) start(ctx context.Context) error {
	cmd := exec.Command(s.program, append([]string{"serve", "--port", strconv.Itoa(s.port)},
		s.args...)...)
	cmd.Env = append(os.Environ(), "HOME="+s.home,
		"XDG_CONFIG_HOME="+filepath.Join(s.home, "config"),
		"XDG_CACHE_HOME="+filepath.Join(s.home, "cache"),
		"XDG_DATA_HOME="+filepath.Join(s.home, "data"),
		"HF_HUB_CACHE=", "HF_HOME=", "HEADROOM_API_KEY=", "HF_ENDPOINT=http://127.0.0.1:9",
		"HEADROOM_MODELS="+filepath.Join(s.home, "models"))
	cmd.Stdout, cmd.Stderr = s.log, s.log
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	s.mu.Lock()
	s.cmd, s.ended = cmd, ended
	s.mu.Unlock()
	return s.await(ctx, "the server's start", func() error {
		token, err := os.ReadFile(filepath.Join(s.home, "config", "headroom", "token"))
		if err != nil {
			return err
		}
		s.token = strings.TrimSpace(string(token))
		_, err = s.ask(ctx, map[string]any{"max_tokens": 1,
			"messages": []message{{"user", "hello"}}})
		return err
	})
}

// stop ends the process: by SIGTERM, or by SIGKILL if kill is set.
func (s *server) stop(kill bool) error {
	s.mu.Lock()
	cmd, ended := s.cmd, s.ended
	s.mu.Unlock()
	if cmd == nil {
		return nil
	}
	if kill {
		_ = cmd.Process.Kill()
	} else {
		_ = cmd.Process.Signal(os.Interrupt)
	}
	select {
	case <-ended:
		return nil
	case <-time.After(patience):
		_ = cmd.Process.Kill()
		return fmt.Errorf("the server did not end within %s", patience)
	}
}

func (s *server) pid() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cmd.Process.Pid
}

// worker waits until only one model is loaded, and returns the ID of its process. A model that has
// been unloaded may still be ending.
func (s *server) worker(ctx context.Context) (pid int, err error) {
	err = s.await(ctx, "one worker", func() error {
		found, err := children(s.pid())
		if err == nil && len(found) != 1 {
			err = fmt.Errorf("the server has %d child processes, expected 1", len(found))
		}
		if err == nil {
			pid = found[0]
		}
		return err
	})
	return pid, err
}

// await calls try until it succeeds, or the patience has ended.
func (s *server) await(ctx context.Context, what string, try func() error) error {
	deadline := time.Now().Add(patience)
	for {
		err := try()
		if err == nil || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s: not within %s: %w", what, patience, err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (s *server) url(path string) string {
	return fmt.Sprintf("http://127.0.0.1:%d%s", s.port, path)
}

// ask requests a whole chat completion.
func (s *server) ask(ctx context.Context, body map[string]any) (answer, error) {
	data, err := s.send(ctx, http.MethodPost, "/v1/chat/completions", body)
	if err != nil {
		return answer{}, err
	}
	return readAnswer(data)
}

// leave requests a stream and disconnects after that many events.
func (s *server) leave(ctx context.Context, body map[string]any, events int) error {
	streamed := map[string]any{"stream": true}
	for name, value := range body {
		streamed[name] = value
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	response, err := s.open(ctx, http.MethodPost, "/v1/chat/completions", streamed)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	for range events {
		if !lines.Scan() {
			break
		}
	}
	return nil
}

// control sends a request to the control API and decodes the response into out, unless out is nil.
func (s *server) control(ctx context.Context, method, path string, body map[string]any,
	out any) error {
	data, err := s.send(ctx, method, path, body)
	if err != nil || out == nil {
		return err
	}
	return json.Unmarshal(data, out)
}

// refusal is an HTTP status other than success.
type refusal struct {
	status int
	body   string
}

func (r *refusal) Error() string { return fmt.Sprintf("status %d: %.300s", r.status, r.body) }

func (s *server) send(ctx context.Context, method, path string, body map[string]any) ([]byte,
	error) {
	response, err := s.open(ctx, method, path, body)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode/100 != 2 {
		err = &refusal{response.StatusCode, string(data)}
	}
	return data, err
}

func (s *server) open(ctx context.Context, method, path string, body map[string]any) (
	*http.Response, error) {
	var data []byte
	if body != nil {
		var err error
		if data, err = json.Marshal(body); err != nil {
			return nil, err
		}
	}
	request, err := http.NewRequestWithContext(ctx, method, s.url(path), bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	if strings.HasPrefix(path, "/control/") {
		request.Header.Set("X-Headroom-Token", s.token)
	}
	return s.client.Do(request)
}
