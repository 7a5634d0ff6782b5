package main

import (
	"os"
	"strings"
	"testing"
)

// TestTable holds the table in API.md to results.json, and results.json to the lock files.
func TestTable(t *testing.T) {
	list, err := readResults("results.json")
	if err != nil {
		t.Fatal(err)
	}
	document, err := os.ReadFile("../../" + tablePath)
	if err != nil {
		t.Fatal(err)
	}
	want, err := withTable(string(document), list)
	if err != nil {
		t.Fatal(err)
	}
	if want != string(document) {
		t.Errorf("the table of clients in %s is not that of results.json; it would be\n%s",
			tablePath, table(list))
	}
	versions, err := lockedVersions(".")
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != len(clients) {
		t.Errorf("results.json has %d clients, the table in table.go %d", len(list), len(clients))
	}
	for i, c := range clients {
		if i >= len(list) {
			break
		}
		r := list[i]
		version := tools{versions: versions}.version(c)
		if version == "" {
			t.Errorf("%s: no lock file has %q", c.name, c.key())
		}
		if r.Client != c.name || r.Package != c.label() || r.Version != version || r.API != c.api ||
			len(r.Did) == 0 {
			t.Errorf("results.json has %+v for %s %s. Run go run ./build/clients -write", r, c.name,
				version)
		}
	}
}

func TestScript(t *testing.T) {
	s := &script{}
	s.begin([]rule{{after: "printed", tools: true, answer: "last"},
		{after: "one", tools: true, answer: "first"}, {after: "one", answer: "title"}})
	const system = "<|im_start|>system\n<tools>\n</tools><|im_end|>\n"
	const one = "<|im_start|>user\nstep one<|im_end|>\n"
	const rest = "<|im_start|>assistant\n<think>\n"
	turn := func(assistant, user string) string {
		return "<|im_start|>assistant\n" + assistant + "<|im_end|>\n<|im_start|>user\n" + user +
			"<|im_end|>\n"
	}
	for prompt, want := range map[string]string{
		system + one + rest: "first",
		one + rest:          "title",
		system + one + turn("call", "printed") + rest:  "last",
		system + one + turn("printed", "other") + rest: "",
		"": "",
	} {
		got, ok := s.rule(prompt)
		if got.answer != want || ok != (want != "") {
			t.Errorf("%q: got %q, %v, want %q", prompt, got.answer, ok, want)
		}
	}
}

func TestCall(t *testing.T) {
	want := "<tool_call>\n<function=f>\n<parameter=a>\n1\n</parameter>\n<parameter=b>\nx\n" +
		"</parameter>\n</function>\n</tool_call>"
	if got := call("f", "a", "1", "b", "x"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestLog(t *testing.T) {
	var l serverLog
	mark := l.mark()
	lines := []string{`time=1 level=INFO msg="model loaded" model=m`,
		`time=1 level=INFO msg=request method=POST path=/v1/messages status=200 model=m ` +
			`finish=stop prompt_tokens=12 cached_tokens=11`,
		`time=1 level=INFO msg=request method=GET path="/v1/a b" status=404 error="a \" status=500"`}
	if _, err := l.Write([]byte(strings.Join(lines, "\n") + "\n")); err != nil {
		t.Fatal(err)
	}
	got := l.requests(mark)
	want := []request{{"POST", "/v1/messages", 200, "stop", 12, 11, lines[1]},
		{"GET", `"/v1/a b"`, 404, "", 0, 0, lines[2]}}
	if len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := l.requests(l.mark()); len(got) != 0 {
		t.Errorf("after the end: %+v", got)
	}
}

func TestCached(t *testing.T) {
	full := []served{{"", 1000, 0}, {"", 1100, 1045}}
	if err := checkCached(full, 2); err != nil {
		t.Error(err)
	}
	if checkCached(full, 3) == nil {
		t.Error("two requests of three pass")
	}
	full[1].cached--
	if checkCached(full, 2) == nil {
		t.Error("too little cached passes")
	}
}

func TestChoose(t *testing.T) {
	for _, c := range []struct {
		names []string
		n     int // -1: an error
	}{{nil, len(clients)}, {[]string{"agents", "sdks"}, len(clients)}, {[]string{"codex", "PI"}, 2},
		{[]string{"agents", "codex"}, 5}, {[]string{"nobody"}, -1}} {
		got, err := choose(c.names)
		if (err != nil) != (c.n < 0) || err == nil && len(got) != c.n {
			t.Errorf("%q: %d clients, %v", c.names, len(got), err)
		}
	}
}

// TestCheckLog: the server's log must confirm what a script says of its second turn.
func TestCheckLog(t *testing.T) {
	turn := []string{"chat", fromCache + ", in both"}
	short := request{status: 200, prompt: 10}
	cached := request{status: 200, prompt: 2000, cached: 1950}
	computed := request{status: 200, prompt: 2000, cached: 1000}
	for _, c := range []struct {
		requests []request
		did      []string
		ok       bool
	}{
		{[]request{computed, cached, short}, turn, true},
		{[]request{cached, computed}, turn, false},
		{[]request{short}, turn, false},
		{[]request{computed}, turn[:1], true},
		{[]request{{status: 404}}, nil, true},
		{[]request{{status: 503}}, nil, false},
	} {
		if err := checkLog(c.requests, c.did); (err == nil) != c.ok {
			t.Errorf("%+v, %q: %v", c.requests, c.did, err)
		}
	}
}
