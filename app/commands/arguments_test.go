package commands

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestModelWithoutPrompt: one word that is the name of a model is not sent to the demo model.
func TestModelWithoutPrompt(t *testing.T) {
	isolate(t)
	folder := demoFolder(t, filepath.Join(t.TempDir(), "some model"))
	for word, want := range map[string]string{
		"headroom-demo": `"headroom-demo" is the name of a model, and there is no prompt`,
		"HEADROOM-demo:latest": `is the name of a model, and there is no prompt
  fix: For one answer: headroom run HEADROOM-demo:latest "...". For a conversation: headroom chat ` +
			`HEADROOM-demo:latest. To send this word to the demo model: headroom run --model ` +
			"headroom-demo HEADROOM-demo:latest.\n",
		"mlx-community/Qwen3-0.6B-4bit": "looks like the name of a model",
		filepath.Dir(folder) + "/link":  "is the name of a model",
	} {
		if strings.HasSuffix(word, "/link") {
			if err := os.Symlink(folder, word); err != nil {
				t.Fatal(err)
			}
		}
		if code, out, errOut := headroom("", "run", word); code != 1 || out != "" ||
			!strings.Contains(errOut, want) {
			t.Errorf("%s: exit %d, %q, %s", word, code, out, errOut)
		}
	}
	for name, args := range map[string][]string{"a word": {"run", "hi"},
		"by flag":        {"run", "--model", "headroom-demo", "headroom-demo"},
		"from stdin":     {"run", "-"},
		"by flag prompt": {"run", "--prompt", "headroom-demo"}} {
		if code, out, errOut := headroom("headroom-demo", append(args, "--max-tokens",
			"2")...); code != 0 || !speedLine.MatchString(errOut) {
			t.Errorf("%s: exit %d, %q, %s", name, code, out, errOut)
		}
	}
}

// TestPipedPrompt: a text that is piped is the prompt if there is no other, also after a model.
func TestPipedPrompt(t *testing.T) {
	isolate(t)
	short := []string{"--temp", "0", "--max-tokens", "5"}
	_, want, _ := headroom("", append([]string{"run", question}, short...)...)
	for _, args := range [][]string{{"run"}, {"run", "headroom-demo"}, {"run", "--model",
		"headroom-demo"}, {"run", "-"}} {
		code, out, errOut := headroom(question+"\n", append(args, short...)...)
		if code != 0 || out != want || want == "" {
			t.Errorf("%q: exit %d, %q, %s; expected %q", args, code, out, errOut, want)
		}
	}
	// A word that is no model is the prompt, whatever is piped.
	if _, out, _ := headroom("Count to nine.", append([]string{"run", "KV?"}, short...)...); out ==
		want {
		t.Errorf("the prompt was not used: %q", out)
	}
	if code, _, errOut := headroom("", "run"); code != 2 ||
		!strings.Contains(errOut, `expected a prompt, as in: headroom run "What`) ||
		!strings.Contains(errOut, "Try: headroom run --help") {
		t.Errorf("exit %d, %s", code, errOut)
	}
}

// TestMissingFiles: a file that is not there is named in a sentence, without the system's words.
func TestMissingFiles(t *testing.T) {
	home := isolate(t)
	t.Chdir(home)
	none := filepath.Join(home, "none")
	for line, want := range map[string]string{
		"run --prompt-cache-file none hi": "There is no file " + none + "\n",
		"parity --prompts none": "--prompts: there is no file " +
			none + "\n",
		"convert headroom-demo new --bits 6 --calibrate " + home: "it is a folder",
	} {
		code, _, errOut := headroom("", strings.Fields(line)...)
		if code == 0 || !strings.Contains(errOut, want) ||
			strings.Contains(errOut, "no such file or directory") {
			t.Errorf("%s: exit %d, %s", line, code, errOut)
		}
	}
	_, _, errOut := headroom("/load none\n/save none/none.json\n", "chat")
	if !strings.Contains(errOut, "There is no file "+none+"\n") ||
		!strings.Contains(errOut, "There is no folder "+none+"\n") ||
		strings.Contains(errOut, "no such file or directory") {
		t.Errorf("chat: %s", errOut)
	}
}

// TestFlagsAnywhere: flags may stand before, between and after the model and the prompt, and never
// become a part of the prompt.
func TestFlagsAnywhere(t *testing.T) {
	isolate(t)
	prompt := regexp.MustCompile(`prompt \d+ tokens`)
	_, want, wantErr := headroom("", "run", "--temperature=0", "--max-tokens=5", question)
	for _, args := range [][]string{
		{question, "--temp", "0", "--max-tokens", "5"},
		{"headroom-demo", "--temp", "0", question, "--max-tokens", "5"},
		{"--max-tokens=5", "headroom-demo", question, "--temp=0"},
		{"headroom-demo", "--max-tokens=5", "--temp=0", "--", question},
		{"headroom-demo", "--max-tokens=5", "--temp=0", "--prompt", question},
		{"--max-tokens=5", "--temp=0", "--prompt", "-"},
		{"--max-tokens=5", "--temp=0", "--presence-penalty", "-0", question},
	} {
		code, out, errOut := headroom(question, append([]string{"run"}, args...)...)
		if code != 0 || out != want || prompt.FindString(errOut) != prompt.FindString(wantErr) {
			t.Errorf("%q: exit %d, %q, expected %q; %s", args, code, out, want, errOut)
		}
	}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"hi", "--tempo", "0"}, 2, "unknown flag --tempo"},
		{[]string{"headroom-demo", "hi", "--temp", "0", "more"}, 2,
			"unexpected argument more: put the prompt into quotes"},
		{[]string{"-1 + 2?"}, 2, `put -- before a prompt that begins with -`},
		{[]string{"hi", "--temp", "-1"}, 2, "--temp: must be between 0 and 2, got -1"},
		{[]string{"hi", "--top-p", "2"}, 2, "--top-p: must be between 0 and 1, got 2"},
		{[]string{"hi", "--top-k", "-7"}, 2, "--top-k: must be at least 1"},
		{[]string{"hi", "--logit-bias", "5=200"}, 2, "--logit-bias: expected the ID of a token"},
		{[]string{"hi", "--logit-bias", "five=2"}, 2, "--logit-bias"},
		{[]string{"hi", "--repetition-context-size", "0"}, 2,
			"--repetition-context-size: must be between 1 and 1048576, got 0"},
		{[]string{"hi", "--xtc-threshold", "0.2"}, 2,
			"--xtc-threshold has no effect without --xtc-probability"},
		{[]string{"hi", "--dry-base", "2"}, 2, "--dry-base has no effect without --dry-multiplier"},
		{[]string{"hi", "--mirostat", "2"}, 2,
			"--mirostat is not supported: Headroom does not have Mirostat\n"},
		{[]string{"hi", "--typical-p=0.8"}, 2,
			"--typical-p is not supported: Headroom does not have typical sampling\n"},
		{[]string{"hi", "--xtc-probability", "2"}, 2,
			"--xtc-probability: must be between 0 and 1, got 2"},
		{[]string{"hi", "--dry-allowed-length=0"}, 2,
			"--dry-allowed-length: must be between 1 and 1048576, got 0"},
		{[]string{"hi", "--presence-context-size=-1"}, 2,
			"--presence-context-size: must be between 1 and 1048576, got -1"},
		{[]string{"hi", "--dry-sequence-breaker="}, 2,
			"--dry-sequence-breaker: expected texts of 1 to 256 bytes, got one of 0"},
		{[]string{"hi", "--image", "x.png"}, 2,
			"--image is not supported: Headroom reads text only\n"},
		{[]string{"hi", "--chat-template-args", "[]"}, 2,
			"--chat-template-args: expected a JSON object"},
		{[]string{"hi", "--ignore-chat-template", "--system", "x"}, 2,
			"--system has no effect together with --ignore-chat-template"},
		{[]string{"--prompt", "a", "b", "c"}, 1, "got 3 words"},
		{[]string{"hi", "--adapter", "a", "--adapter-path=b"}, 2,
			"--adapter-path: given several times, expected once"},
	} {
		code, out, errOut := headroom("", append([]string{"run"}, c.args...)...)
		if code != c.code || out != "" || !strings.Contains(errOut, c.want) {
			t.Errorf("%q: exit %d, %q, %s; expected %q", c.args, code, out, errOut, c.want)
		}
	}
}

// TestSamplingFlags: each flag of the sampler reaches the request.
func TestSamplingFlags(t *testing.T) {
	isolate(t)
	ask := func(args ...string) string {
		t.Helper()
		code, out, errOut := headroom("", append([]string{"run", "--max-tokens=12", "--seed=3",
			question}, args...)...)
		if code != 0 {
			t.Fatalf("%q: exit %d, %s", args, code, errOut)
		}
		return out
	}
	greedy, hot := ask("--temp=0"), ask("--temp=2")
	if greedy == hot {
		t.Fatalf("at temperature 2 the answer is the likeliest one: %q", hot)
	}
	for _, flag := range []string{"--top-k=1", "--top-p=0", "--min-p=1"} {
		if got := ask("--temp=2", flag); got != greedy {
			t.Errorf("%s: %q, expected the likeliest answer, %q", flag, got, greedy)
		}
	}
	long := ask("--temp=2", "--max-tokens=40")
	for _, flag := range []string{"--repetition-penalty=3", "--presence-penalty=2",
		"--frequency-penalty=2"} {
		got := ask(flag, "--temp=2", "--max-tokens=40", "--repetition-context-size=60")
		if got == long {
			t.Errorf("%s: the answer is that without a penalty", flag)
		}
	}
	if a, b := ask("--temp=0", "--repetition-penalty=3"), ask("--temp=0", "--repetition-penalty=3",
		"--repeat-last-n=1"); a == b {
		t.Error("the length of the penalty's context has no effect")
	}
	if got := ask("--temp=2", "--max-tokens=40", "--xtc-probability=1",
		"--xtc-threshold=0.01"); got == long {
		t.Error("XTC has no effect")
	}
	again := []string{"--temp=0", "--max-tokens=40", "--logit-bias=70=100"}
	loop := ask(again...)
	if got := ask(append(again, "--dry-multiplier=50")...); got == loop {
		t.Errorf("DRY has no effect on %q", loop)
	}
	if got := ask(append(again, "--dry-multiplier=50", "--dry-penalty-last-n=0")...); got != loop {
		t.Errorf("DRY that looks at no token: %q, expected %q", got, loop)
	}
	word := strings.Fields(greedy)[1]
	if got := ask("--temp=0", "--stop", word); got != greedy[:strings.Index(greedy, word)]+"\n" {
		t.Errorf("with the stop text %q: %q", word, got)
	}
	if got := ask("--temp=0", "--stop", "no such text"); got != greedy {
		t.Errorf("with a stop text that does not come: %q, expected %q", got, greedy)
	}
}

// TestLogitBiasFlag: a token with the largest bias comes at once.
func TestLogitBiasFlag(t *testing.T) {
	isolate(t)
	_, plain, _ := headroom("", "run", "--temp=0", "--max-tokens=3", question)
	code, out, errOut := headroom("", "run", "--temp=0", "--max-tokens=3",
		"--logit-bias=70=100,71=-100", "--logit-bias", "72=-5", question)
	if code != 0 || out == plain {
		t.Errorf("exit %d, %q, as without a bias; %s", code, out, errOut)
	}
}

// TestJSONAnswer: --json prints one object, and nothing else.
func TestJSONAnswer(t *testing.T) {
	isolate(t)
	_, text, _ := headroom("", "run", "--temp=0", "--max-tokens=9", question)
	code, out, errOut := headroom("", "run", "--json", "--temp=0", "--max-tokens=9", question)
	var got answerDocument
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != 0 || errOut != "" {
		t.Fatalf("exit %d, %v: %q; %s", code, err, out, errOut)
	}
	if got.Model != "headroom-demo" || got.Content+"\n" != text || got.FinishReason != "length" ||
		got.Usage.CompletionTokens != 9 || got.Usage.PromptTokens == 0 ||
		got.Usage.TokensPerSecond <= 0 || got.Usage.PromptTokensPerSecond <= 0 {
		t.Errorf("got %+v, expected the text %q", got, text)
	}
	_, out, _ = headroom("", "run", "--json", "--think", "Sort: pear, apple, fig")
	if err := json.Unmarshal([]byte(out), &got); err != nil || got.Reasoning == "" ||
		got.FinishReason != "stop" || strings.Contains(got.Content, "think>") {
		t.Errorf("with reasoning: %+v, %v", got, err)
	}
}

var verboseLines = regexp.MustCompile(`^Prompt: \d+ tokens, \d+\.\d{3} tokens-per-sec
Generation: 3 tokens, \d+\.\d{3} tokens-per-sec
Peak memory: 0\.\d{3} GB
(Drafts: .*
)?$`)

func TestVerbose(t *testing.T) {
	isolate(t)
	code, _, errOut := headroom("", "run", "--verbose", "--max-tokens=3", question)
	if code != 0 || !verboseLines.MatchString(errOut) {
		t.Errorf("exit %d, %q", code, errOut)
	}
}

// TestTemplateFlags: variables reach the chat template, and without it the prompt is plain text.
func TestTemplateFlags(t *testing.T) {
	isolate(t)
	const sort = "Sort: pear, apple, fig"
	_, plain, _ := headroom("", "run", "--no-think", "--temp=0", sort)
	for variable, want := range map[string]bool{`{"enable_thinking": true}`: true,
		`{"enable_thinking": false}`: false} {
		code, out, errOut := headroom("", "run", "--chat-template-args", variable, "--temp=0", sort)
		if code != 0 || strings.HasPrefix(out, "<think>") != want || (out == plain) == want {
			t.Errorf("%s: exit %d, %q, without thinking %q; %s", variable, code, out, plain, errOut)
		}
	}
	prompts := func(args ...string) string {
		_, _, errOut := headroom("", append([]string{"run", "--max-tokens=1", "fox"}, args...)...)
		return regexp.MustCompile(`prompt \d+ tokens`).FindString(errOut)
	}
	if plain := prompts("--ignore-chat-template"); plain != "prompt 1 tokens" ||
		plain == prompts() {
		t.Errorf("without the template: %s; with it: %s", plain, prompts())
	}
	if code, out, _ := headroom("", "run", "--ignore-chat-template", "--temp=0", "--max-tokens=20",
		"--stop", "e", "Once upon a tim"); code != 0 || strings.Contains(out, "e") {
		t.Errorf("a stop text without the template: exit %d, %q", code, out)
	}
}
