package batch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"headroom/engine/problem"
)

// echo answers with the body of the request.
func echo(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	w.Header().Set("X-Request-Id", "req-"+r.URL.Path)
	_, _ = fmt.Fprintf(w, `{"got":%s}`+"\n", body)
}

// line returns a request with this custom_id.
func line(id string) string {
	return fmt.Sprintf(`{"custom_id":%q,"method":"POST","url":"/v1/chat/completions",`+
		`"body":{"model":"a","n":%q}}`, id, id)
}

// files writes the input, and returns its path and that of the output.
func files(t *testing.T, lines ...string) (in, out string) {
	t.Helper()
	dir := t.TempDir()
	in, out = filepath.Join(dir, "in.jsonl"), filepath.Join(dir, "out.jsonl")
	if err := os.WriteFile(in, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	return in, out
}

// answers returns the body of each custom_id of an output, or its error. No custom_id may be there
// twice.
func answers(t *testing.T, out string) map[string]string {
	t.Helper()
	data, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for line := range strings.Lines(string(data)) {
		var r Result
		if err := json.Unmarshal([]byte(line), &r); err != nil || !strings.HasSuffix(line, "\n") {
			t.Fatalf("line %q: %v", line, err)
		}
		if all[r.CustomID] != "" {
			t.Errorf("%s is answered twice", r.CustomID)
		}
		switch {
		case r.Error != nil:
			all[r.CustomID] = r.Error.Message
		default:
			all[r.CustomID] = fmt.Sprint(r.Response.StatusCode, " ", r.Response.RequestID, " ",
				string(r.Response.Body))
		}
	}
	return all
}

func TestAnswers(t *testing.T) {
	in, out := files(t, line("a"), "", "  "+line("b")+"  ",
		`{"custom_id":"c","url":"/v1/embeddings","body":{"input":"x","stream":false}}`,
		`{"custom_id":"d","url":"/v1/completions","body":{"stream":true}}`)
	got, err := Run(context.Background(), in, out, Options{Handler: http.HandlerFunc(echo)})
	if want := (Counts{Total: 4, Completed: 3, Failed: 1}); err != nil || got != want {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
	want := map[string]string{
		"a": `200 req-/v1/chat/completions {"got":{"model":"a","n":"a"}}`,
		"b": `200 req-/v1/chat/completions {"got":{"model":"a","n":"b"}}`,
		"c": `200 req-/v1/embeddings {"got":{"input":"x","stream":false}}`,
		"d": "stream: an answer of a batch is not streamed"}
	if all := answers(t, out); !maps.Equal(all, want) {
		t.Errorf("got %v", all)
	}
	if info, err := os.Stat(out); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}

// TestModel: with a model, it answers every request; all else in a body stays as it is.
func TestModel(t *testing.T) {
	in, out := files(t, `{"custom_id":"a","url":"/v1/completions","body":{"seed":`+
		`12345678901234567890,"model":"gpt-4o"}}`)
	_, err := Run(context.Background(), in, out, Options{Handler: http.HandlerFunc(echo),
		ModelFor: func(string) string { return "mine" }})
	if got := answers(t, out)["a"]; err != nil ||
		got != `200 req-/v1/completions {"got":{"model":"mine","seed":12345678901234567890}}` {
		t.Errorf("%v: %s", err, got)
	}
}

// TestRefused: what is wrong with the input or the output is said before any request runs.
func TestRefused(t *testing.T) {
	long := strings.Repeat("x", maxIDBytes+1)
	for _, c := range []struct{ name, lines, want string }{
		{"empty", "\n \n", "it has no line"},
		{"no JSON", line("a") + "\nx", "Line 2 of the batch is not a request"},
		{"UTF-16", "\xff\xfe{\x00", "the file is in UTF-16: save it as UTF-8"},
		{"an array", "[]", "it is no object"},
		{"no id", `{"url":"/v1/completions","body":{}}`, "it has no custom_id"},
		{"a number as id", `{"custom_id":1}`, "its custom_id is 1, expected a string"},
		{"a long id", line(long), "its custom_id has 513 bytes, expected at most 512"},
		{"twice", line("a") + "\n" + line("b") + "\n" + line("a"),
			`its custom_id "a" is that of line 1`},
		{"GET", `{"custom_id":"a","method":"GET","url":"/v1/completions","body":{}}`,
			`its method is "GET", expected POST`},
		{"another address", `{"custom_id":"a","url":"/v1/models","body":{}}`,
			`its url is "/v1/models", expected /v1/chat/completions`},
		{"no body", `{"custom_id":"a","url":"/v1/completions"}`, "its body is missing"},
		{"a text as body", `{"custom_id":"a","url":"/v1/completions","body":"{}"}`,
			"its body is missing or no object"},
		{"not UTF-8", "{\"custom_id\":\"\xff\"}", "it is not valid UTF-8"},
		{"a long line", line("a") + "\n" + strings.Repeat(" ", MaxLineBytes+1),
			"line 2 is longer than 16 MiB"},
	} {
		in, out := files(t, c.lines)
		_, err := Run(context.Background(), in, out, Options{Handler: http.HandlerFunc(
			func(http.ResponseWriter, *http.Request) { t.Errorf("%s: it runs", c.name) })})
		text := fmt.Sprint(err, problem.From(err))
		if err == nil || !strings.Contains(text, c.want) {
			t.Errorf("%s: %s, want %q", c.name, text, c.want)
		}
		if _, err := os.Stat(out); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: there is an output", c.name)
		}
	}
	in, out := files(t, line("a"))
	if err := os.WriteFile(out, []byte("my notes\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := Options{Handler: http.HandlerFunc(echo)}
	for path, want := range map[string]string{out: "is no answer of a batch",
		in: "The answers would replace the batch"} {
		before, _ := os.ReadFile(path)
		_, err := Run(context.Background(), in, path, o)
		if text := fmt.Sprint(err, problem.From(err)); err == nil || !strings.Contains(text, want) {
			t.Errorf("%s: %s, want %q", path, text, want)
		}
		if after, _ := os.ReadFile(path); !bytes.Equal(before, after) {
			t.Errorf("%s has changed", path)
		}
	}
	if _, err := Run(context.Background(), in+"x", out, o); problem.From(err).Code !=
		problem.NotFound {
		t.Errorf("no input: %v", err)
	}
}

// TestForeignOutputs: what is no output of a batch stays as it is.
func TestForeignOutputs(t *testing.T) {
	in, out := files(t, line("a"))
	o := Options{Handler: http.HandlerFunc(echo)}
	other := `{"id":"batch_req_1","custom_id":"b","response":{"status_code":200}}` + "\n"
	for _, text := range []string{"my only copy", `{"id":1}`, "{\n", `{"id":"batch_resq`, other} {
		if err := os.WriteFile(out, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Run(context.Background(), in, out, o)
		if now, _ := os.ReadFile(out); err == nil || string(now) != text {
			t.Errorf("%q: %v, then %q", text, err, now)
		}
	}
	pipe := filepath.Join(filepath.Dir(in), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skip(err)
	}
	for _, c := range [][2]string{{pipe, in + "2"}, {in, pipe}, {filepath.Dir(in), in + "2"}} {
		if _, err := Run(context.Background(), c[0], c[1], o); err == nil ||
			!strings.Contains(fmt.Sprint(problem.From(err)), "is no file") {
			t.Errorf("%v: %v", c, err)
		}
	}
	if _, err := os.Stat(in + "2"); err == nil {
		t.Error("there is an output")
	}
}

// TestLinkedOutput: a link stays a link, and the mode of its file stays.
func TestLinkedOutput(t *testing.T) {
	in, out := files(t, line("a"))
	link := out + ".link"
	if err := errors.Join(os.WriteFile(out, nil, 0o644), os.Symlink(out, link)); err != nil {
		t.Fatal(err)
	}
	_, err := Run(context.Background(), in, link, Options{Handler: http.HandlerFunc(echo)})
	info, statErr := os.Lstat(link)
	if err != nil || statErr != nil || info.Mode()&os.ModeSymlink == 0 ||
		len(answers(t, out)) != 1 {
		t.Errorf("%v, %v, %v", err, statErr, info)
	}
	if info, err := os.Stat(out); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("%v, %v", info, err)
	}
}

// TestOneRunAtATime: a second run with the same output is refused, and the first loses nothing.
func TestOneRunAtATime(t *testing.T) {
	in, out := files(t, line("a"), line("b"), line("c"))
	o := Options{Parallel: 1, Handler: http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			_, err := Run(context.Background(), in, out,
				Options{Handler: http.HandlerFunc(echo)})
			if problem.From(err).Code != problem.Busy {
				t.Errorf("a second run: %v", err)
			}
			echo(w, r)
		})}
	if got, err := Run(context.Background(), in, out, o); err != nil || got.Completed != 3 ||
		len(answers(t, out)) != 3 {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := Run(context.Background(), in, out, o); err != nil || got.Before != 3 {
		t.Errorf("afterwards: %+v, %v", got, err)
	}
}

// TestResumes interrupts runs at random places, also within a line of the output. In the end, each
// request is answered once, and none more often than it was interrupted.
func TestResumes(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 30 {
		var lines []string
		want := map[string]string{}
		for i := range 40 {
			id := fmt.Sprint("request ", i)
			lines = append(lines, line(id))
			want[id] = fmt.Sprintf(`200 req-/v1/chat/completions {"got":{"model":"a","n":%q}}`, id)
		}
		in, out := files(t, lines...)
		for done := false; !done; {
			ctx, cancel := context.WithCancel(context.Background())
			var asked atomic.Int32
			limit := 1 + r.Int32N(20)
			counts, err := Run(ctx, in, out, Options{Parallel: 1 + r.IntN(5),
				Handler: http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
					if asked.Add(1) == limit {
						cancel()
					}
					if ctx.Err() != nil {
						w.WriteHeader(http.StatusServiceUnavailable)
						return
					}
					echo(w, q)
				})})
			cancel()
			if err != nil && !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			if done = counts.Left() == 0 && err == nil; done {
				break
			}
			if data, err := os.ReadFile(out); err == nil && len(data) > 0 && r.IntN(2) == 0 {
				_ = os.WriteFile(out, data[:len(data)-1-r.IntN(min(30, len(data)))], 0o600)
			}
		}
		if all := answers(t, out); !maps.Equal(all, want) {
			t.Fatalf("got %v", all)
		}
	}
}

// TestFailuresAreTriedAgain: of an earlier run, answers and refusals stay, and what failed for
// reasons that may be gone is asked again.
func TestFailuresAreTriedAgain(t *testing.T) {
	in, out := files(t, line("200"), line("400"), line("429"), line("500"), line("503"))
	var asked []string
	status := func(w http.ResponseWriter, r *http.Request) {
		var body struct{ N string }
		_ = json.NewDecoder(r.Body).Decode(&body)
		asked = append(asked, body.N)
		var code int
		_, _ = fmt.Sscan(body.N, &code)
		w.WriteHeader(code)
		_, _ = w.Write([]byte("no JSON"))
	}
	o := Options{Parallel: 1, Handler: http.HandlerFunc(status)}
	if got, err := Run(context.Background(), in, out, o); err != nil ||
		got != (Counts{Total: 5, Completed: 1, Failed: 4}) {
		t.Errorf("%+v, %v", got, err)
	}
	asked = nil
	if got, err := Run(context.Background(), in, out, o); err != nil ||
		got != (Counts{Total: 5, Before: 2, Refused: 1, Failed: 3}) ||
		fmt.Sprint(asked) != "[429 500 503]" {
		t.Errorf("%+v, %v, asked %v", got, err, asked)
	}
	if got := answers(t, out)["400"]; got != `400  "no JSON"` {
		t.Errorf("got %s", got)
	}
}

// FuzzOutput: whatever the output has, it is refused or can be continued, and then has every answer
// once.
func FuzzOutput(f *testing.F) {
	f.Add([]byte(`{"id":"batch_req_1","custom_id":"a","response":{"status_code":200}}` + "\n"))
	f.Add([]byte(`{"id":"batch_req_1","custom_id":"b","error":{}}` + "\n{"))
	f.Add([]byte("\n"))
	f.Fuzz(func(t *testing.T, before []byte) {
		in, out := files(t, line("a"), line("b"))
		if err := os.WriteFile(out, before, 0o600); err != nil {
			t.Fatal(err)
		}
		counts, err := Run(context.Background(), in, out,
			Options{Handler: http.HandlerFunc(echo)})
		after, _ := os.ReadFile(out)
		switch {
		case err != nil && !bytes.Equal(before, after):
			t.Errorf("%v, but it was changed to %q", err, after)
		case err == nil && counts.Left() != 0:
			t.Errorf("%+v: %q", counts, after)
		case err == nil && bytes.Count(after, []byte("\n")) < 2:
			t.Errorf("%q", after)
		}
	})
}
