package commands

import (
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"headroom/app/host"
	"headroom/app/library"
	"headroom/app/memory"
	"headroom/app/service"
	"headroom/app/settings"
	"headroom/engine"
)

// TestServeWhileStarting sends a request as soon as the port is open, while the host still looks
// for the model of --model. It waits for the model, as requests do a moment later.
func TestServeWhileStarting(t *testing.T) {
	isolate(t)
	folder := tinyFolder(t)
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	c := &Serve{Model: folder}
	o := c.ModelFlags.ServiceOptions(ServiceUse{InProcess: true})
	o.Listen, o.Settings = "127.0.0.1", service.OpenSettings()
	hosts, answers := make(chan *host.Host, 1), make(chan string, 1)
	var once sync.Once
	ask := func() {
		h := <-hosts
		conn, err := net.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(
			h.State().Endpoint.UIURL, "http://"), "/"))
		if err != nil {
			t.Error(err)
			return
		}
		const body = `{"prompt":[5],"max_tokens":1}`
		_, err = io.WriteString(conn, "POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\n"+
			"Connection: close\r\nContent-Type: application/json\r\n"+
			"Content-Length: 29\r\n\r\n"+body)
		if err != nil {
			t.Error(err)
		}
		// A server that does not wait answers now. One that waits does not depend on this time.
		_ = conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		first := make([]byte, 1)
		n, _ := conn.Read(first)
		_ = conn.SetReadDeadline(time.Time{})
		go func() {
			defer conn.Close()
			rest, _ := io.ReadAll(conn)
			answers <- string(first[:n]) + string(rest)
		}()
	}
	o.NewHost = func(s *settings.File) *host.Host {
		models := library.NewPerModel(c.ModelFlags.roots(s.Get()),
			func(id string) engine.Options { return c.ModelFlags.options(s.Get(), id) },
			func(src engine.Source, o engine.Options) (engine.Description, error) {
				if src.Dir == folder {
					once.Do(ask)
				}
				return engine.Describe(src, o)
			})
		h := host.New(host.Options{Library: models, Meter: &memory.Meter{},
			Requests: func() host.RequestRules {
				return host.RequestRules{Load: true, Wait: patience}
			}})
		hosts <- h
		return h
	}
	ended := make(chan error, 1)
	go func() { ended <- c.serve(ctx, o, &terminal{out: io.Discard, err: io.Discard}) }()
	select {
	case answer := <-answers:
		if !strings.HasPrefix(answer, "HTTP/1.1 200 ") {
			t.Errorf("got %s, expected that the request waits for the model", answer)
		}
	case err := <-ended:
		t.Fatal("the server has ended:", err)
	}
	stop()
	<-ended
}
