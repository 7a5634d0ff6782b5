package commands

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// mostGreedyBytes is the most memory that the server's process may take while it is under attack.
const mostGreedyBytes = 200 << 20

// mostShortBytes is the same for the few clients of the short test. They took about 100 MB, and 177
// to 201 MB without the budgets for bodies.
const mostShortBytes = 150 << 20

// mostLeftBytes is the most memory that the process may have soon after the attack.
const mostLeftBytes = 110 << 20

// mostUnread is how many clients do not read. With more than the queue has places, a normal client
// is refused until they are gone, which is right: nothing tells it from them.
const mostUnread = 30

// greedy are clients that take as much of a server as they can. Each returns when the server closes
// the connection, or when the test closes it.
var greedy = []struct {
	name string
	run  func(net.Conn)
}{
	{"a slow body", func(c net.Conn) {
		postHead(c, 16<<20)
		_, _ = io.WriteString(c, strings.Repeat(" ", 300<<10))
		for range time.Tick(200 * time.Millisecond) {
			if _, err := c.Write([]byte(" ")); err != nil {
				return
			}
		}
	}},
	{"a large body", func(c net.Conn) {
		text := `{"prompt":"` + "\x00" + `"}`
		head, tail, _ := strings.Cut(text, "\x00")
		const letters = 15 << 20
		postHead(c, len(text)-1+letters)
		_, _ = io.WriteString(c, head)
		part := bytes.Repeat([]byte("a"), 64<<10)
		for n := 0; n < letters; n += len(part) {
			if _, err := c.Write(part); err != nil {
				return
			}
		}
		_, _ = io.WriteString(c, tail)
		_, _ = io.Copy(io.Discard, c)
	}},
	{"many values", func(c net.Conn) {
		const n = 250_000
		postTo(c, "chat/completions", `{"messages":[{"role":"user","content":"a","x":[`+
			strings.Repeat("[],", n)+`[]]}],"max_tokens":1}`)
		_, _ = io.Copy(io.Discard, c)
	}},
	{"deep", func(c net.Conn) {
		postTo(c, "chat/completions", `{"messages":`+strings.Repeat("[", 500_000))
		_, _ = io.Copy(io.Discard, c)
	}},
	{"half open", func(c net.Conn) {
		_, _ = io.WriteString(c, "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nX: ")
		_, _ = io.Copy(io.Discard, c)
	}},
	{"not reading", func(c net.Conn) {
		postTo(c, "completions", `{"prompt":"Once upon a time","stream":true,`+
			`"logit_bias":{"2086":-100,"2084":-100}}`)
		var none [0]byte
		for err := error(nil); err == nil; _, err = c.Read(none[:]) { // until the test closes it
			time.Sleep(50 * time.Millisecond)
		}
	}},
}

// postHead sends the header of a request with a body of that length.
func postHead(c net.Conn, length int) {
	fmt.Fprintf(c, "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n",
		length)
}

func postTo(c net.Conn, route, body string) {
	fmt.Fprintf(c, "POST /v1/%s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", route,
		len(body), body)
}

// TestGreedyClients attacks a server with many of the worst clients at once. Its memory stays
// bounded and falls again, and a normal client is answered: in its turn, after those that do not
// read. With HEADROOM_LONG there are 500. Without it, the attack ends before those that do not read
// are given up; TestStuckReader tests that.
func TestGreedyClients(t *testing.T) {
	if testing.Short() {
		t.Skip("it measures memory, which the race detector multiplies")
	}
	clients, duration, most := 60, 4*time.Second, mostShortBytes
	if os.Getenv("HEADROOM_LONG") != "" {
		clients, duration, most = 500, 40*time.Second, mostGreedyBytes
	}
	isolate(t)
	s := startServer(t, "--context", "32768")
	pid, address := s.pid(), s.address
	if peakMemory(t, pid) == 0 {
		t.Skip("there is no /proc to measure memory in")
	}
	t.Logf("before: %d MB", peakMemory(t, pid)>>20)
	end := time.Now().Add(duration)
	var running sync.WaitGroup
	for i := range clients {
		running.Go(func() {
			for time.Now().Before(end) {
				conn, err := net.Dial("tcp", address)
				if err != nil {
					t.Error(err)
					return
				}
				closing := time.AfterFunc(time.Until(end), func() { conn.Close() })
				kind := i % len(greedy)
				if kind == len(greedy)-1 && i/len(greedy) >= mostUnread {
					kind = 0
				}
				greedy[kind].run(conn)
				closing.Stop()
				conn.Close()
			}
		})
	}
	longest := time.Duration(0)
	answered, refused := 0, 0
	for time.Now().Before(end) {
		begin := time.Now()
		answer, err := http.Post("http://"+address+"/v1/completions", "application/json",
			strings.NewReader(`{"prompt":"The","max_tokens":1}`))
		if err != nil {
			refused++ // the connection was closed: all others have requests
			continue
		}
		answer.Body.Close()
		if answer.StatusCode == 200 {
			answered++
		} else {
			refused++
		}
		longest = max(longest, time.Since(begin))
	}
	running.Wait()
	peak := peakMemory(t, pid)
	t.Logf("%d clients: %d MB at most; a normal client: %d answers, %d refusals, the longest "+
		"after %v", clients, peak>>20, answered, refused, longest.Round(time.Millisecond))
	if peak > most {
		t.Errorf("the server took %d MB, the limit is %d MB", peak>>20, most>>20)
	}
	if answered == 0 {
		t.Error("a normal client got no answer")
	}
	s.within("the memory has fallen again", func() bool {
		return memoryOf(t, pid, "VmRSS") < mostLeftBytes
	})
	t.Logf("afterwards: %d MB", memoryOf(t, pid, "VmRSS")>>20)
}

// peakMemory returns the most memory that a process had so far, 0 without /proc.
func peakMemory(t *testing.T, pid int) int { return memoryOf(t, pid, "VmHWM") }

// memoryOf returns a value of /proc/PID/status in bytes, 0 without /proc.
func memoryOf(t *testing.T, pid int, name string) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	m := regexp.MustCompile(name + `:\s+(\d+) kB`).FindSubmatch(status)
	if m == nil {
		t.Fatalf("no %s in %s", name, status)
	}
	kb, _ := strconv.Atoi(string(m[1]))
	return kb << 10
}

// TestStuckClients: eight clients that ask for long answers and do not read them have all sequences
// of the model. Another request waits only until their buffers are full and 3 s have passed.
func TestStuckClients(t *testing.T) {
	if os.Getenv("HEADROOM_LONG") == "" {
		t.Skip("takes half a minute; set HEADROOM_LONG=1. TestStuckReader tests the same rule")
	}
	isolate(t)
	address := startServer(t, "--context", "32768").address
	for range 8 {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.(*net.TCPConn).SetReadBuffer(4096)
		postTo(conn, "completions", `{"prompt":"Once upon a time","stream":true,`+
			`"logit_bias":{"2086":-100,"2084":-100}}`)
	}
	metric := regexp.MustCompile(`headroom_num_requests_running 8\n`)
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		answer, err := http.Get("http://" + address + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		if metric.Match(text) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the eight requests do not run")
		}
	}
	begin := time.Now()
	answer, err := http.Post("http://"+address+"/v1/completions", "application/json",
		strings.NewReader(`{"prompt":"The","max_tokens":1}`))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	took := time.Since(begin)
	t.Logf("the other request took %v", took)
	if answer.StatusCode != 200 || took > 20*time.Second {
		t.Errorf("status %d after %v, expected an answer within 20 s", answer.StatusCode, took)
	}
}
