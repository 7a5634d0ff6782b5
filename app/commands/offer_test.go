package commands

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// answering lets a person be asked, who types the given text.
func answering(t *testing.T, typed string, args ...string) (code int, out, errOut string) {
	t.Helper()
	before := canAsk
	canAsk = func(*terminal) bool { return true }
	defer func() { canAsk = before }()
	return headroom(typed, args...)
}

// TestOffer: run and chat offer to download a model that is not here, and go on with it.
func TestOffer(t *testing.T) {
	const asked = "demo/model is not on this machine. Looking for it at HUB.\n" +
		"It has 11.5 MB. It needs "
	for _, c := range []struct {
		name   string
		typed  string
		args   []string
		code   int
		answer bool // there is one
		want   string
	}{
		{"yes", "y\n", []string{"run", "--model", "demo/model", question}, 0, true,
			" are available.\nDownload it? [Y/n] "},
		{"just Return", "\n", []string{"run", "demo/model", question}, 0, true, asked},
		{"no", "no\n", []string{"run", "demo/model", question}, 1, false, "Download it? [Y/n] "},
		{"chat", "yes\n" + question + "\n", []string{"chat", "--model", "demo/model"}, 0, true,
			asked},
		{"the end of the input", "", []string{"chat", "demo/model"}, 1, false,
			"Download it? [Y/n] \n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			isolate(t)
			hub := demoHub(t, nil)
			t.Setenv("HF_ENDPOINT", hub)
			code, out, errOut := answering(t, c.typed, c.args...)
			if want := strings.ReplaceAll(c.want, "HUB", hub); code != c.code ||
				strings.Contains(out, "keys and values") != c.answer ||
				!strings.Contains(errOut, want) {
				t.Errorf("exit %d, %q, %s; expected %q", code, out, errOut, want)
			}
		})
	}
}

// TestOfferWithoutAsking: --yes downloads a model without a person. Without one and without --yes,
// the hub is not asked, and an error says what to do.
func TestOfferWithoutAsking(t *testing.T) {
	isolate(t)
	requests := 0
	hub := demoHub(t, func(http.ResponseWriter, *http.Request) { requests++ })
	code, out, errOut := headroom("", "run", "--endpoint", hub, "demo/model", question)
	if code != 1 || out != "" || requests > 0 || !strings.Contains(errOut,
		`There is no model "demo/model" here`) || !strings.Contains(errOut,
		"fix: To download it, add --yes, or run: headroom models download demo/model\n") {
		t.Errorf("without --yes: exit %d, %q, %s", code, out, errOut)
	}
	// The prompt comes from stdin, so nobody can be asked.
	if code, _, _ := answering(t, question, "run", "--endpoint", hub, "demo/model",
		"-"); code != 1 || requests > 0 {
		t.Errorf("with a prompt from stdin: exit %d, %d requests", code, requests)
	}
	code, out, errOut = headroom(question, "run", "--endpoint", hub, "--yes", "demo/model", "-")
	if code != 0 || !strings.Contains(out, "keys and values") ||
		strings.Contains(errOut, "Download it?") {
		t.Errorf("with --yes: exit %d, %q, %s", code, out, errOut)
	}
	code, _, errOut = headroom("", "run", "--endpoint", hub, "--yes", "demo/gone", question)
	if code != 1 || !strings.Contains(errOut, "The hub has no such repository") {
		t.Errorf("a model that the hub lacks: exit %d, %s", code, errOut)
	}
	before := requests
	if code, _, _ := headroom("", "run", "--endpoint", hub, "demo/model", question); code != 0 ||
		requests != before {
		t.Errorf("the second time: exit %d, %d requests of the hub", code, requests-before)
	}
}

// TestOfferOfTheRest: a model of which a part is here is offered, too.
func TestOfferOfTheRest(t *testing.T) {
	isolate(t)
	ctx, stop := context.WithCancel(t.Context())
	t.Setenv("HF_ENDPOINT", demoHub(t, func(_ http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.Header.Get("Range"), "bytes=8388608-") {
			stop()
		}
	}))
	var log bytes.Buffer
	c := ModelsDownload{Model: "demo/model"}
	if err := c.Run(ctx, &terminal{out: &log, err: &log}); err == nil {
		t.Fatal("the download was not stopped")
	}
	code, out, errOut := headroom("", "run", "demo/model", question)
	if code != 1 || !strings.Contains(errOut, "not complete yet") ||
		!strings.Contains(errOut, "add --yes") {
		t.Errorf("without --yes: exit %d, %q, %s", code, out, errOut)
	}
	if code, out, errOut = headroom("", "run", "--yes", "demo/model", question); code != 0 ||
		!strings.Contains(out, "keys and values") {
		t.Errorf("with --yes: exit %d, %q, %s", code, out, errOut)
	}
}

// TestOfferOfTooMuch: a model that does not fit is not downloaded with --yes, be it that its
// config.json says so or the size of its weights.
func TestOfferOfTooMuch(t *testing.T) {
	const config = `{"model_type":"llama","hidden_size":8192,"intermediate_size":28672,
		"num_hidden_layers":2000,"num_attention_heads":64,"num_key_value_heads":8,"head_dim":128,
		"rms_norm_eps":1e-5,"vocab_size":128000,"max_position_embeddings":4096,
		"rope_theta":10000,"tie_word_embeddings":false`
	for end, want := range map[string]string{
		`,"quantization":{"bits":4,"group_size":64}}`: "It needs 9",
		"}": "It needs at least 4096.0 GB"} {
		home := isolate(t)
		dir := filepath.Join(home, "huge")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{"config.json": config + end,
			"model.safetensors": "", "tokenizer.json": "{}"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Truncate(filepath.Join(dir, "model.safetensors"), 1<<42); err != nil {
			t.Skip(err) // the disk has no sparse files of this size
		}
		hub := hubOfFolder(t, dir, "demo/model", nil)
		code, _, errOut := headroom("", "run", "--endpoint", hub, "--yes", "demo/model", question)
		if code != 1 || !strings.Contains(errOut, want) ||
			!strings.Contains(errOut, "and does not fit") ||
			!strings.Contains(errOut, "demo/model was not downloaded") {
			t.Errorf("exit %d, %s; expected %q", code, errOut, want)
		}
	}
}
