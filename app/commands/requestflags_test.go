package commands

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// TestFlagsOfOtherServers starts a server with every flag of mlx_lm.server that has a meaning here,
// and those of its forks with a cache on disk, as they are written there. Requests that leave out
// parameters get those of the flags.
func TestFlagsOfOtherServers(t *testing.T) {
	home := isolate(t)
	s := startServer(t, "--model", "headroom-demo", "--host", "127.0.0.1", "--log-level", "INFO",
		"--trust-remote-code", "--temp", "0", "--top-p", "1", "--top-k", "0", "--min-p", "0",
		"--max-tokens", "5", "--chat-template-args", `{"enable_thinking":true}`,
		"--decode-concurrency", "4", "--prompt-concurrency", "2", "--prefill-step-size", "512",
		"--prompt-cache-size", "10", "--prompt-cache-bytes", "1G", "--num-draft-tokens", "3",
		"--kv-bits", "(8, 4)", "--kv-group-size", "64", "--quantized-kv-start", "5000",
		"--kv-boundary-layers", "1", "--kv-boundary-bits", "(8, 8)",
		"--block-ssd-cache-dir", filepath.Join(home, "blocks"), "--block-ssd-cache-max-size", "50")
	ask := func(fields string) (content, reasoning, finish string) {
		t.Helper()
		body := `{"messages":[{"role":"user","content":"Sort: pear, apple, fig"}]` + fields + `}`
		r, err := http.Post("http://"+s.address+"/v1/chat/completions", "application/json",
			strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		var answer struct {
			Choices []struct {
				FinishReason string `json:"finish_reason"`
				Message      struct {
					Content          string
					ReasoningContent string `json:"reasoning_content"`
				}
			}
		}
		if err := json.NewDecoder(r.Body).Decode(&answer); err != nil ||
			len(answer.Choices) != 1 {
			t.Fatalf("%s: %v, %+v", r.Status, err, answer)
		}
		c := answer.Choices[0]
		return c.Message.Content, c.Message.ReasoningContent, c.FinishReason
	}
	content, reasoning, finish := ask("")
	if content != "" || reasoning == "" || finish != "length" {
		t.Errorf("with the flags: %q, reasoning %q, %s; expected 5 tokens of reasoning", content,
			reasoning, finish)
	}
	if _, again, _ := ask(""); again != reasoning {
		t.Errorf("at temperature 0: %q, then %q", reasoning, again)
	}
	content, reasoning, finish = ask(`,"max_tokens":200,` +
		`"chat_template_kwargs":{"enable_thinking":false}`)
	if content == "" || reasoning != "" || finish != "stop" {
		t.Errorf("with fields of its own: %q, reasoning %q, %s", content, reasoning, finish)
	}
	s.stop()
	for _, want := range []string{"--prompt-concurrency has no effect",
		"--prefill-step-size has no effect", "--trust-remote-code has no effect"} {
		if !strings.Contains(string(s.log.Bytes()), want) {
			t.Errorf("the log lacks %q:\n%s", want, s.log.Bytes())
		}
	}
}

// TestWrongFlagsOfServe: what serve does not take gets a sentence.
func TestWrongFlagsOfServe(t *testing.T) {
	isolate(t)
	for _, c := range []struct {
		flags []string
		want  string
	}{
		{[]string{"--temp", "-1"}, "--temperature: must be between 0 and 2, got -1"},
		{[]string{"--max-tokens", "-3"}, "--max-tokens: must be at least 1, got -3"},
		{[]string{"--chat-template-args", "[]"}, "--chat-template-args: expected a JSON object"},
		{[]string{"--kv-boundary-bits", "(8, 4)"}, "keys and values of boundary layers have the " +
			"same bits: give one number, such as 8"},
		{[]string{"--kv-boundary-bits", "8,8"}, `a pair such as "(8, 8)", got "8,8"`},
		{[]string{"--kv-boundary-bits", "(x)"}, `a pair such as "(8, 8)", got "(x)"`},
		{[]string{"--adapter-path", "x"}, "This folder has no adapter"},
		{[]string{"--chat-template", "x"}, "put it there as chat_template.jinja"},
		{[]string{"--use-default-chat-template"}, "put it there as chat_template.jinja"},
		{[]string{"--pipeline"}, "a model runs on one machine"},
		{[]string{"--allowed-origins", "*"}, "--allow-origin * is not valid"},
	} {
		code, out, errOut := headroom("", append([]string{"serve", "--port", "0"}, c.flags...)...)
		if code == 0 || out != "" || !strings.Contains(errOut, c.want) {
			t.Errorf("%q: exit %d, %q, %s; expected %q", c.flags, code, out, errOut, c.want)
		}
	}
}
