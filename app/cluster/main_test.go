package cluster

// The tests' nodes, ranks and ssh are this program. A fake rank answers like mlx_lm.server.

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"headroom/engine/problem"
)

// folderVariable names the folder where fake ranks write their process IDs and read their faults.
const folderVariable = "MLX_TEST_FOLDER"

func TestMain(m *testing.M) {
	words := os.Args[1:]
	if len(words) > 0 {
		switch words[0] {
		case "node":
			fakeNode()
			return
		case "forward":
			port, _ := strconv.Atoi(words[1])
			if err := Forward(background(), port, os.Stdin, os.Stdout); err != nil {
				os.Exit(1)
			}
			return
		case "ssh":
			fakeSSH(words[len(words)-2], words[len(words)-1])
		case "rank":
			fakeRank(words[3:]) // after "-c" and the program
			return
		}
	}
	flag.Parse()
	os.Exit(m.Run())
}

func fakeNode() {
	node := newFakeNode()
	if text := os.Getenv("MLX_TEST_SILENCE"); text != "" {
		node.Silence, _ = time.ParseDuration(text)
	}
	_ = node.Serve(background(), os.Stdin, os.Stdout)
}

func newFakeNode() *Node {
	self, _ := os.Executable()
	return &Node{python: []string{self, "rank"}, Model: func(name string) (string, string, error) {
		if strings.Contains(name, "missing") {
			return "", "", problem.New(problem.ModelNotFound, "There is no model "+name, "", "")
		}
		return name, "tiny", nil
	}}
}

// emptyNode is a node whose answers to one operation have nothing in them.
func emptyNode(op string) {
	n := newFakeNode()
	n.out, n.ranks = &lines{out: os.Stdout}, map[*exec.Cmd]chan struct{}{}
	_ = readLines(os.Stdin, func(q *request) {
		if q.Op == op {
			n.reply(q, reply{}, nil)
			return
		}
		n.handle(background(), q)
	})
	n.end()
	os.Exit(0)
}

// fakeSSH runs a command line as the host's shell would.
func fakeSSH(host, script string) {
	switch host {
	case "refuses":
		fmt.Fprintln(os.Stderr, "ssh: connect to host refuses port 22: Connection refused")
		os.Exit(255)
	case "denies":
		fmt.Fprintln(os.Stderr, "me@denies: Permission denied (publickey,password).")
		os.Exit(255)
	case "chatty":
		fmt.Println("Welcome to chatty!")
	}
	if op, ok := strings.CutPrefix(host, "empty-"); ok {
		emptyNode(op)
	}
	err := syscall.Exec("/bin/sh", []string{"sh", "-c", script}, os.Environ())
	fmt.Fprintln(os.Stderr, err)
	os.Exit(255)
}

// fakeRank is rank.py with a server that repeats words of the prompt.
func fakeRank(args []string) {
	say := func(e Event) {
		text, _ := json.Marshal(e)
		fmt.Printf("%s%s\n", eventMark, text)
	}
	if args[0] == "probe" {
		say(Event{Kind: "probed", Parts: Parts{Tensor: true, Pipeline: true,
			Layers: []int64{10, 20, 30}, Other: 5}})
		return
	}
	folder, number := os.Getenv(folderVariable), os.Getenv("MLX_RANK")
	file := filepath.Join(folder, "rank"+number)
	_ = os.WriteFile(file, []byte(strconv.Itoa(os.Getpid())), 0o600)
	if _, err := os.Stat(filepath.Join(folder, "deaf")); err == nil {
		signal.Ignore(syscall.SIGPIPE) // the end of stdout
	} else {
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			os.Exit(1)
		}()
	}
	say(Event{Kind: "joined", PID: os.Getpid()})
	fmt.Println("a line of mlx-lm")
	if text, err := os.ReadFile(filepath.Join(folder, "fails")); err == nil {
		say(Event{Kind: "failed", Error: string(text)})
		os.Exit(1)
	}
	say(Event{Kind: "loaded", Memory: 100})
	if number == "0" {
		for i, word := range args {
			if word == "--port" {
				go func() { _ = http.ListenAndServe("127.0.0.1:"+args[i+1], fakeServer(args[1])) }()
			}
		}
	}
	for {
		idle := 0.0
		if _, err := os.Stat(filepath.Join(folder, "hangs"+number)); err == nil {
			idle = 1e6
		}
		say(Event{Kind: "beat", Idle: idle})
		time.Sleep(50 * time.Millisecond)
	}
}

// fakeServer answers a prompt with its words. "forever" never ends.
func fakeServer(id string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q struct {
			Model, Prompt string
			Stream        bool
		}
		text, _ := io.ReadAll(r.Body)
		if json.Unmarshal(text, &q) != nil || q.Model != id ||
			strings.Contains(string(text), "null") {
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprintf(w, `{"error": "rank 0 cannot read %d bytes"}`, len(text))
			return
		}
		if !q.Stream {
			if q.Prompt == "forever" {
				<-r.Context().Done()
			}
			fmt.Fprintf(w, `{"model": %q, "choices": [{"text": %q}]}`, q.Model, q.Prompt)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for i := 0; q.Prompt == "forever" && r.Context().Err() == nil || i < 3; i++ {
			fmt.Fprintf(w, "data: {\"text\": %q}\n\n", q.Prompt)
			w.(http.Flusher).Flush()
			time.Sleep(time.Millisecond)
		}
		fmt.Fprint(w, "data: [DONE]\n\n")
	})
}

// ranks is a folder of fake ranks.
type ranks struct {
	*testing.T
	dir string
}

func newRanks(t *testing.T) ranks {
	r := ranks{t, t.TempDir()}
	t.Setenv(folderVariable, r.dir)
	return r
}

// pid waits until a rank has started after another process ID, and returns its own.
func (r ranks) pid(rank, after int) (pid int) {
	r.Helper()
	eventually(r.T, "a new rank", func() bool {
		text, _ := os.ReadFile(filepath.Join(r.dir, fmt.Sprint("rank", rank)))
		pid, _ = strconv.Atoi(string(text))
		return pid != 0 && pid != after
	})
	return pid
}

func (r ranks) write(name, text string) {
	r.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o600); err != nil {
		r.Fatal(err)
	}
}

// model writes a model's folder.
func (r ranks) model() string {
	r.write("config.json", "{}")
	r.write("model.safetensors", "weights")
	return r.dir
}

// shell runs nodes of this program, also on hosts that its ssh reaches.
func (r ranks) shell() Shell {
	r.Helper()
	self, err := os.Executable()
	if err != nil {
		r.Fatal(err)
	}
	remote := filepath.Join(r.dir, "it's headroom")
	script := fmt.Sprintf("#!/bin/sh\nshift\nexec '%s' \"$@\"\n", self)
	if err := os.WriteFile(remote, []byte(script), 0o700); err != nil {
		r.Fatal(err)
	}
	return Shell{local: []string{self}, SSH: []string{self, "ssh"}, Remote: remote}
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !done(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited 30 s for %s", what)
		}
	}
}

// gone reports whether a process has ended; the one that is a zombie has.
func gone(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return true
	}
	state, err := exec.Command("ps", "-o", "state=", "-p", strconv.Itoa(pid)).Output()
	return err != nil || strings.HasPrefix(strings.TrimSpace(string(state)), "Z")
}

// events returns the events of a stream one by one, and "" at its end.
func events(body io.Reader) func() string {
	in := bufio.NewReader(body)
	return func() string {
		for {
			line, err := in.ReadString('\n')
			if text, ok := strings.CutPrefix(strings.TrimSpace(line), "data: "); ok {
				return text
			}
			if err != nil {
				return ""
			}
		}
	}
}
