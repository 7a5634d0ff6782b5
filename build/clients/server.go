package main

// The two servers: the service in this process with the scripted model, and bin/headroom.

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"headroom/app/cache"
	"headroom/app/demo"
	"headroom/app/host"
	"headroom/app/library"
	"headroom/app/memory"
	"headroom/app/service"
	"headroom/app/settings"
	"headroom/engine"
)

// contextTokens is the context for agents. That of the demo model, 32,768, is too short for some of
// their prompts, so a copy of it has a longer one.
const contextTokens = 131072

// model is the name of the model for agents.
const model = "headroom-demo-long"

// scriptedServer is a service with the scripted model.
type scriptedServer struct {
	script  script
	log     serverLog
	service *service.Service
	end     func() // ends Serve
	ended   chan error
}

// startScripted starts the service. It changes the environment of this process, so that the service
// has a home folder of its own.
func startScripted(ctx context.Context, b *bench) (*scriptedServer, error) {
	home := filepath.Join(b.dir, "server")
	for _, variable := range homeVariables(home) {
		name, value, _ := strings.Cut(variable, "=")
		if err := os.Setenv(name, value); err != nil {
			return nil, err
		}
	}
	models := filepath.Join(home, "models")
	if err := copyDemo(filepath.Join(models, model)); err != nil {
		return nil, err
	}
	s := &scriptedServer{ended: make(chan error, 1)}
	s.log.verbose = b.verbose
	slog.SetDefault(slog.New(slog.NewTextHandler(&s.log, nil)))
	options := engine.Options{ContextTokens: contextTokens}
	var err error
	s.service, err = service.New(service.Options{Listen: "127.0.0.1",
		NewHost: func(*settings.File) *host.Host {
			return host.New(host.Options{Library: library.New([]string{models}, options,
				engine.Describe), Meter: &memory.Meter{}, Open: s.script.open,
				Engine:    func(string) engine.Options { return options },
				LastModel: model})
		},
		NewMover: func(*host.Host, *settings.File) (*cache.Mover, error) {
			return nil, errors.New("not in this test")
		}})
	if err != nil {
		return nil, err
	}
	serving, end := context.WithCancel(context.WithoutCancel(ctx))
	s.end = end
	go func() { s.ended <- s.service.Serve(serving) }()
	if err := s.service.Host.Start(model); err != nil {
		s.stop()
		return nil, err
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		state := s.service.Host.State().Engine
		if state.Status == host.Ready {
			return s, nil
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			s.stop()
			return nil, fmt.Errorf("the scripted model was not loaded: %+v", state)
		}
	}
}

func (s *scriptedServer) stop() {
	s.end()
	<-s.ended
	s.service.Close()
}

// url returns the address of the endpoint without a path.
func (s *scriptedServer) url() string { return "http://" + s.service.Address }

// copyDemo copies the demo model, with a longer context.
func copyDemo(to string) error {
	files, err := fs.Sub(demo.Files, "model")
	if err != nil {
		return err
	}
	if err := os.CopyFS(to, files); err != nil {
		return err
	}
	path := filepath.Join(to, "config.json")
	config, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	longer := regexp.MustCompile(`"max_position_embeddings": *\d+`).ReplaceAll(config,
		fmt.Appendf(nil, `"max_position_embeddings": %d`, contextTokens))
	if bytes.Equal(longer, config) {
		return fmt.Errorf("%s has no max_position_embeddings", path)
	}
	return os.WriteFile(path, longer, 0o600)
}

// homeVariables returns the environment of a program with this home folder.
func homeVariables(home string) []string {
	return []string{"HOME=" + home, "XDG_CONFIG_HOME=" + filepath.Join(home, "config"),
		"XDG_CACHE_HOME=" + filepath.Join(home, "cache"),
		"XDG_DATA_HOME=" + filepath.Join(home, "data"),
		"XDG_STATE_HOME=" + filepath.Join(home, "state"),
		"HF_HUB_CACHE=", "HF_HOME=", "HF_TOKEN=", "HEADROOM_API_KEY=", "HEADROOM_MODELS="}
}

// program is bin/headroom, running as a server.
type program struct {
	cmd   *exec.Cmd
	log   serverLog
	url   string // of the endpoint, without a path
	token string // of the control API
	ended chan error
}

// startProgram starts bin/headroom with the demo model and waits until it is loaded.
func startProgram(ctx context.Context, b *bench) (*program, error) {
	const path = "bin/headroom"
	home := filepath.Join(b.dir, "program")
	if err := os.MkdirAll(home, 0o700); err != nil {
		return nil, err
	}
	p := &program{cmd: exec.Command(path, "serve", "--port", "0"), ended: make(chan error, 1)}
	p.log.verbose = b.verbose
	p.cmd.Env = append(os.Environ(), homeVariables(home)...)
	p.cmd.Env = append(p.cmd.Env, "HF_ENDPOINT=http://127.0.0.1:9") // nothing is downloaded
	p.cmd.Stderr = &p.log
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("%w; make bin/headroom builds it", err)
	}
	address := make(chan string, 1)
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if found, ok := strings.CutPrefix(lines.Text(), "endpoint: "); ok {
				address <- strings.TrimSuffix(found, "/v1")
			}
		}
		_, _ = io.Copy(io.Discard, out)
		p.ended <- p.cmd.Wait()
	}()
	select {
	case p.url = <-address:
	case err := <-p.ended:
		return nil, fmt.Errorf("%s ended: %v\n%s", path, err, p.log.tail())
	case <-time.After(time.Minute):
		p.stop()
		return nil, fmt.Errorf("%s did not start within a minute\n%s", path, p.log.tail())
	case <-ctx.Done():
		p.stop()
		return nil, ctx.Err()
	}
	token, err := os.ReadFile(filepath.Join(home, "config/headroom/token"))
	p.token = strings.TrimSpace(string(token))
	return p, err
}

func (p *program) stop() {
	_ = p.cmd.Process.Signal(os.Interrupt)
	select {
	case <-p.ended:
	case <-time.After(20 * time.Second):
		_ = p.cmd.Process.Kill()
	}
}

// serverLog collects the lines of a server's log.
type serverLog struct {
	verbose bool
	mu      sync.Mutex
	text    bytes.Buffer
}

// Write adds to the log.
func (l *serverLog) Write(data []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.verbose {
		os.Stderr.Write(data)
	}
	return l.text.Write(data)
}

// mark returns the end of the log so far.
func (l *serverLog) mark() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Len()
}

// tail returns the last lines.
func (l *serverLog) tail() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	const most = 4000
	text := l.text.String()
	return text[max(0, len(text)-most):]
}

// request is a line of the log about a request.
type request struct {
	method, path string
	status       int
	finish       string
	prompt       int // tokens
	cached       int
	line         string
}

var field = regexp.MustCompile(`(\w+)=("(?:[^"\\]|\\.)*"|\S+)`)

// since returns the log since mark.
func (l *serverLog) since(mark int) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()[mark:]
}

// requests returns the requests that have ended since mark. Successful GET requests are not logged.
func (l *serverLog) requests(mark int) []request {
	var list []request
	for line := range strings.Lines(l.since(mark)) {
		fields := map[string]string{}
		for _, found := range field.FindAllStringSubmatch(line, -1) {
			fields[found[1]] = found[2]
		}
		if fields["msg"] != "request" {
			continue
		}
		number := func(name string) int { n, _ := strconv.Atoi(fields[name]); return n }
		list = append(list, request{method: fields["method"], path: fields["path"],
			status: number("status"), finish: fields["finish"], prompt: number("prompt_tokens"),
			cached: number("cached_tokens"), line: strings.TrimSpace(line)})
	}
	return list
}
