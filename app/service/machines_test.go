package service

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"headroom/app/cache"
	"headroom/app/host"
	"headroom/app/library"
	"headroom/app/machines"
	"headroom/app/memory"
	"headroom/app/settings"
	"headroom/engine"
)

// station is a service with the bundled model, as on a machine of its own.
type station struct {
	*Service
	machines *machines.Store
	stop     func()
}

func newStation(t *testing.T) *station {
	t.Helper()
	options := engine.Options{Device: engine.DeviceCPU, Threads: 1, ContextTokens: 4096}
	store, err := machines.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(Options{Listen: "127.0.0.1", Machines: store,
		NewHost: func(*settings.File) *host.Host {
			return host.New(host.Options{Library: library.New(nil, options, engine.Describe),
				Engine: func(string) engine.Options { return options }, Meter: &memory.Meter{},
				Requests: func() host.RequestRules { return host.RequestRules{Load: true} }})
		},
		NewMover: func(*host.Host, *settings.File) (*cache.Mover, error) {
			return nil, errors.New("not in this test")
		}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx) }()
	one := &station{Service: s, machines: store}
	ended := false
	one.stop = func() {
		if ended {
			return
		}
		ended = true
		end()
		if err := <-served; err != nil {
			t.Error(err)
		}
		s.Close()
	}
	t.Cleanup(one.stop)
	if err := s.Host.Start(""); err != nil {
		t.Fatal(err)
	}
	waiting, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := s.Host.Wait(waiting); err != nil {
		t.Fatal(err)
	}
	return one
}

type said struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// answered is an answer to a conversation.
type answered struct {
	text, machine  string // "": this machine
	prompt, cached int
}

// ask sends a conversation and returns the answer.
func (s *station) ask(t *testing.T, conversation []said) (a answered) {
	t.Helper()
	body, _ := json.Marshal(map[string]any{"model": "headroom-demo", "messages": conversation,
		"max_tokens": 40, "temperature": 0})
	response, err := http.Post("http://"+s.Address+"/v1/chat/completions", "application/json",
		bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	var answer struct {
		Choices []struct{ Message said }
		Usage   struct {
			Prompt  int `json:"prompt_tokens"`
			Details struct {
				Cached int `json:"cached_tokens"`
			} `json:"prompt_tokens_details"`
		}
	}
	if err == nil {
		err = json.Unmarshal(data, &answer)
	}
	if err != nil || response.StatusCode != http.StatusOK || len(answer.Choices) != 1 {
		t.Fatalf("%s: %s, %v", response.Status, data, err)
	}
	return answered{answer.Choices[0].Message.Content, response.Header.Get("Headroom-Machine"),
		answer.Usage.Prompt, answer.Usage.Details.Cached}
}

// TestMachines: three Headrooms behind one. Conversations return to the machine with their cache,
// every answer is the one that a machine gives alone, and when a machine goes, its conversations go
// on elsewhere.
func TestMachines(t *testing.T) {
	home := t.TempDir()
	for _, name := range []string{"HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"} {
		t.Setenv(name, home)
	}
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "autolaunch:")
	was := slog.Default()
	slog.SetDefault(slog.New(slog.DiscardHandler))
	t.Cleanup(func() { slog.SetDefault(was) })
	front, alone := newStation(t), newStation(t)
	others := map[string]*station{"b": newStation(t), "c": newStation(t)}
	for name, s := range others {
		if _, err := front.machines.Add(machines.Machine{Name: name, Kind: machines.Headroom,
			URL: "http://" + s.Address}, ""); err != nil {
			t.Fatal(err)
		}
	}
	await(t, func() bool {
		list := front.models(t)
		return len(list) == 1 && len(list[0].Machines) == 2
	})
	conversations := make([][]said, 6)
	for i := range conversations {
		conversations[i] = []said{{"system", strings.Repeat(string(rune('a'+i))+" is a letter. ",
			60)}}
	}
	prompt, cached, possible := 0, 0, 0
	by := map[string]int{}
	turn := func(number int, i int) answered {
		c := append(conversations[i], said{"user", strings.Repeat("And then? ", 3*number+1)})
		got, want := front.ask(t, c), alone.ask(t, c)
		prompt, cached, possible = prompt+got.prompt, cached+got.cached, possible+want.cached
		if got.text != want.text {
			t.Errorf("conversation %d, turn %d: %q, alone %q", i, number, got.text, want.text)
		}
		conversations[i] = append(c, said{"assistant", got.text})
		return got
	}
	for number := range 4 {
		for i := range conversations {
			by[turn(number, i).machine]++
		}
	}
	t.Logf("of %d prompt tokens, %d were cached, alone %d; answers by machine: %v", prompt, cached,
		possible, by)
	if cached < possible*95/100 {
		t.Errorf("%d prompt tokens were cached, alone %d of %d", cached, possible, prompt)
	}
	if len(by) != 3 {
		t.Errorf("not all machines have answered: %v", by)
	}
	others["b"].stop()
	for i := range conversations {
		if a := turn(4, i); a.machine == "b" {
			t.Errorf("conversation %d was answered by a machine that is gone", i)
		}
	}
	await(t, func() bool { return len(front.models(t)[0].Machines) == 1 })
}

func await(t *testing.T, is func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it does not happen")
		}
	}
}

type listedModel struct{ Machines []string }

// models returns what GET /v1/models lists.
func (s *station) models(t *testing.T) []listedModel {
	t.Helper()
	response, err := http.Get("http://" + s.Address + "/v1/models")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var list struct{ Data []listedModel }
	if err := json.NewDecoder(response.Body).Decode(&list); err != nil {
		t.Fatal(err)
	}
	return list.Data
}
