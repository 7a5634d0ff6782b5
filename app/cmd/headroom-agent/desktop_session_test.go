//go:build e2e

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/png"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"headroom/app/control"
	"headroom/app/host"
)

// timeout bounds every wait. WebKit's first start on a loaded machine takes longest.
const timeout = 30 * time.Second

// desktop is the session that build/desktop/run starts, with a home folder for this test.
type desktop struct {
	t    *testing.T
	home string
	port int // the port in the settings
}

func newDesktop(t *testing.T) *desktop {
	t.Helper()
	if os.Getenv("HEADROOM_DESKTOP") == "" {
		t.Skip("this test needs a virtual desktop: run build/test desktop, or " +
			"build/desktop/run go test -tags e2e,...")
	}
	home, err := os.MkdirTemp("", "headroom-desktop-")
	if err != nil {
		t.Fatal(err)
	}
	// Ignore errors: WebKit's processes may still write.
	t.Cleanup(func() { os.RemoveAll(home) })
	d := &desktop{t: t, home: home, port: freePort(t)}
	dir := filepath.Join(home, "config", "headroom")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	first := fmt.Sprintf(`{"version":1,"port":%d,"welcomed":true}`, d.port)
	if err := os.WriteFile(filepath.Join(dir, "settings.json"), []byte(first), 0o600); err != nil {
		t.Fatal(err)
	}
	return d
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// takePort occupies the port in the settings for the rest of the test.
func (d *desktop) takePort() string {
	d.t.Helper()
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", d.port))
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { l.Close() })
	return strconv.Itoa(d.port)
}

// eventually polls until the condition is true.
func (d *desktop) eventually(what string, condition func() bool) {
	d.t.Helper()
	for deadline := time.Now().Add(timeout); !condition(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			d.screenshot("failed-" + strings.ReplaceAll(d.t.Name(), "/", "-"))
			d.t.Fatalf("waited %v until %s", timeout, what)
		}
	}
}

// output runs a command on the desktop and returns its output.
func (d *desktop) output(name string, args ...string) []byte {
	d.t.Helper()
	out, err := exec.Command(name, args...).Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		d.t.Fatalf("%s %s: %v", name, strings.Join(args, " "), err)
	}
	return out
}

// readmeScreenshot calls prepare and takes a screenshot for the README, if HEADROOM_SCREENSHOTS
// names a folder:
//
//	HEADROOM_SCREENSHOTS=$PWD/build/screenshots build/test desktop
func (d *desktop) readmeScreenshot(name string, prepare func()) {
	d.t.Helper()
	if os.Getenv("HEADROOM_SCREENSHOTS") == "" {
		return
	}
	// Set a background, which is black otherwise. The display command always exits with 1.
	_ = exec.Command("display", "-size", "1280x860", "-window", "root", "xc:#3d5654").Run()
	prepare()
	d.screenshot(name)
	d.output("xdotool", "key", "Escape") // close an open menu
}

// openMenu clicks the icon in the panel. It finds the icon by the accent color, which nothing else
// in the panel has.
func (d *desktop) openMenu() {
	d.t.Helper()
	picture, err := png.Decode(
		bytes.NewReader(d.output("import", "-window", "root", "-crop", "x32+0+0", "+repage",
			"png:-")))
	if err != nil {
		d.t.Fatal(err)
	}
	points := teal(picture)
	if len(points) == 0 {
		d.t.Fatal("no icon in the panel")
	}
	middle := points[len(points)/2]
	d.output("xdotool", "mousemove", strconv.Itoa(middle.X), strconv.Itoa(middle.Y), "click", "1")
	d.eventually("the menu is open", func() bool {
		out, _ := exec.Command("xdotool", "search", "--onlyvisible", "--class",
			"wrapper|xfce4-panel").Output()
		return len(strings.Fields(string(out))) > 1
	})
}

// teal returns the points in about the accent color. Not all points of the icon have it exactly,
// because panels smooth the icons that they scale.
func teal(picture image.Image) (points []image.Point) {
	for y := picture.Bounds().Min.Y; y < picture.Bounds().Max.Y; y++ {
		for x := picture.Bounds().Min.X; x < picture.Bounds().Max.X; x++ {
			r, g, b, _ := picture.At(x, y).RGBA()
			if r>>8 < 0x30 && g>>8 > 0x90 && g>>8 < 0xB0 && b>>8 > 0x88 && b>>8 < 0xA8 {
				points = append(points, image.Pt(x, y))
			}
		}
	}
	return points
}

// screenshot saves a picture of the whole screen in the folder HEADROOM_SCREENSHOTS.
func (d *desktop) screenshot(name string) {
	d.t.Helper()
	if dir := os.Getenv("HEADROOM_SCREENSHOTS"); dir != "" {
		d.output("import", "-window", "root", "+dither", "-colors", "96", "-strip",
			"png8:"+filepath.Join(dir, name+".png"))
	}
}

func (d *desktop) waitClipboard(want string) {
	d.t.Helper()
	var got []byte
	d.eventually("the clipboard holds "+want, func() bool {
		// xclip fails while the clipboard is empty.
		got, _ = exec.Command("xclip", "-out", "-selection", "clipboard").Output()
		return string(got) == want
	})
}

// program is an agent process that the test started.
type program struct {
	*desktop
	command *exec.Cmd
	log     string // path of the log file
	ended   chan struct{}
}

// start runs bin/headroom-agent with the test's home folder.
func (d *desktop) start(args ...string) *program {
	d.t.Helper()
	bin, err := filepath.Abs("../../../bin/headroom-agent")
	if err != nil {
		d.t.Fatal(err)
	}
	return d.startProgram(bin, args...)
}

// environment returns the environment of a program with the test's home folder.
func (d *desktop) environment() []string {
	return append(os.Environ(), "HOME="+d.home, "XDG_CONFIG_HOME="+filepath.Join(d.home, "config"),
		"XDG_CACHE_HOME="+filepath.Join(d.home, "cache"),
		"XDG_DATA_HOME="+filepath.Join(d.home, "data"), // where the window keeps its page
		"TMPDIR="+d.home, "HEADROOM_MODELS=", "HF_HOME=", "HF_HUB_CACHE=")
}

// startProgram runs the agent at path.
func (d *desktop) startProgram(bin string, args ...string) *program {
	d.t.Helper()
	p := &program{desktop: d, command: exec.Command(bin, args...), ended: make(chan struct{})}
	p.command.Env = d.environment()
	// Use a file: Wait on a pipe would also wait for the window and WebKit's helpers, which inherit
	// it.
	log, err := os.CreateTemp(d.home, "log-*")
	if err != nil {
		d.t.Fatal(err)
	}
	defer log.Close()
	p.log = log.Name()
	p.command.Stdout, p.command.Stderr = log, log
	if err := p.command.Start(); err != nil {
		d.t.Fatalf("%v. Build it first: make build", err)
	}
	go func() {
		_ = p.command.Wait()
		close(p.ended)
	}()
	d.t.Cleanup(func() {
		_ = p.command.Process.Kill()
		<-p.ended
		if d.t.Failed() {
			output, _ := os.ReadFile(p.log)
			d.t.Logf("output of the agent %v:\n%s", args, output)
		}
	})
	return p
}

func (p *program) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.command.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// waitEnd waits until the program has ended and checks the exit code; -1 means a signal.
func (p *program) waitEnd(code int) {
	p.t.Helper()
	p.eventually("the agent has ended", func() bool {
		select {
		case <-p.ended:
			return true
		default:
			return false
		}
	})
	if got := p.command.ProcessState.ExitCode(); got != code {
		p.t.Errorf("exit code %d, want %d", got, code)
	}
}

// base returns the agent's address, "" until it is known.
func (p *program) base() string {
	url, err := addressOfFirst(filepath.Join(p.home, "config", "headroom"))
	if err != nil {
		return ""
	}
	return url
}

func (p *program) endpoint() string {
	p.t.Helper()
	p.eventually("the agent has written its address", func() bool { return p.base() != "" })
	return p.base() + "v1"
}

// request sends a request to the control API or the endpoint.
func (p *program) request(method, path, body string) (*http.Response, error) {
	token, err := os.ReadFile(filepath.Join(p.home, "config", "headroom", "token"))
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequest(method, p.base()+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set(control.TokenHeader, strings.TrimSpace(string(token)))
	r.Header.Set("Content-Type", "application/json")
	return client.Do(r)
}

// send sends a request, which must succeed, and returns the response body.
func (p *program) send(method, path, body string) string {
	p.t.Helper()
	p.endpoint()
	var text []byte
	p.eventually(method+" "+path, func() bool {
		answer, err := p.request(method, path, body)
		if err != nil {
			return false
		}
		defer answer.Body.Close()
		if text, err = io.ReadAll(answer.Body); err != nil || answer.StatusCode >= 300 {
			p.t.Fatalf("%s %s: %s: %s, %v", method, path, answer.Status, text, err)
		}
		return true
	})
	return string(text)
}

func (p *program) get(path string) string        { p.t.Helper(); return p.send("GET", path, "") }
func (p *program) put(path, body string) string  { p.t.Helper(); return p.send("PUT", path, body) }
func (p *program) post(path, body string) string { p.t.Helper(); return p.send("POST", path, body) }

// client has a timeout for a port on which another program listens without answering.
var client = &http.Client{Transport: &http.Transport{ResponseHeaderTimeout: 5 * time.Second}}

func (p *program) answers() bool {
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", p.port))
	if err == nil {
		conn.Close()
	}
	return err == nil
}

// state returns the agent's state, the zero value if the agent does not answer.
func (p *program) state() (s host.State) {
	answer, err := p.request("GET", "control/state", "")
	if err != nil {
		return host.State{}
	}
	defer answer.Body.Close()
	if json.NewDecoder(answer.Body).Decode(&s) != nil {
		return host.State{}
	}
	return s
}

func (p *program) status() string { return string(p.state().Engine.Status) }

// waitSamples waits until the charts have that many more points.
func (p *program) waitSamples(more int) {
	p.t.Helper()
	want := len(p.state().Speed.History) + more
	p.eventually("the charts have more points",
		func() bool { return len(p.state().Speed.History) >= want })
}

func (p *program) waitStatus(want string) {
	p.t.Helper()
	p.eventually("the engine is "+want, func() bool { return p.status() == want })
}

// startRequest starts a request that does not end by itself, because its end tokens are forbidden.
// It returns a function that cancels the request.
func (p *program) startRequest() (cancel func()) {
	p.t.Helper()
	answer, err := p.request("POST", "v1/chat/completions", endlessRequest(p.t))
	if err != nil {
		p.t.Fatal(err)
	}
	if answer.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(answer.Body)
		p.t.Fatalf("%s: %s", answer.Status, body)
	}
	return func() { answer.Body.Close() }
}

// endlessRequest returns a chat request whose logit_bias forbids the demo model's end tokens.
func endlessRequest(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile("../../demo/model/generation_config.json")
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		End json.RawMessage `json:"eos_token_id"`
	}
	if err := json.Unmarshal(data, &config); err != nil {
		t.Fatal(err)
	}
	bias := map[string]int{}
	for _, id := range regexp.MustCompile(`\d+`).FindAllString(string(config.End), -1) {
		bias[id] = -100
	}
	text, _ := json.Marshal(map[string]any{"model": "headroom-demo", "stream": true,
		"max_tokens": 30000, "logit_bias": bias,
		"messages": []map[string]string{{"role": "user", "content": "What is a KV cache?"}}})
	return string(text)
}

// lastRequest returns the agent's last log line about a request.
func (p *program) lastRequest() (line string) {
	p.t.Helper()
	log, err := os.ReadFile(p.log)
	if err != nil {
		p.t.Fatal(err)
	}
	for l := range strings.Lines(string(log)) {
		if strings.Contains(l, "msg=request") {
			line = l
		}
	}
	return line
}

// endedRequests returns how many chat requests have ended, including cancelled ones.
func (p *program) endedRequests() (ended int) {
	p.t.Helper()
	answer, err := p.request("GET", "metrics", "")
	if err != nil {
		p.t.Fatal(err)
	}
	defer answer.Body.Close()
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), "} ")
		if n, err := strconv.Atoi(value); err == nil &&
			strings.HasPrefix(name, "headroom_http_requests_total{") &&
			strings.Contains(name, "chat") {
			ended += n
		}
	}
	return ended
}

// alive reports whether a process runs. A zombie does not.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, after, _ := strings.Cut(string(stat), ") ")
	return err == nil && !strings.HasPrefix(after, "Z")
}
