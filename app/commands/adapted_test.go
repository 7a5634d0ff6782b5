package commands

import (
	"bufio"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"headroom/app/library"
)

// adapted puts a model and two adapters into the models folder: tiny+one and tiny+two. It returns
// the folders of the data for a training, the model, and the adapter one.
func adapted(t *testing.T) (data, model, adapter string) {
	t.Helper()
	data, model = trainable(t)
	adapter = filepath.Join(library.Own(), "adapters", "one")
	writeAdapter(t, adapter, model)
	writeAdapter(t, filepath.Join(library.Own(), "adapters", "two"), model)
	return data, model, adapter
}

// TestPipeToAdapter: a text that is piped is the prompt after a model with an adapter, too.
func TestPipeToAdapter(t *testing.T) {
	adapted(t)
	flags := []string{"--temp", "0", "--max-tokens", "8"}
	_, want, _ := headroom("", append([]string{"run", "--model", "tiny+one", "Hello"}, flags...)...)
	code, out, errOut := headroom("Hello\n", append([]string{"run", "tiny+one"}, flags...)...)
	if code != 0 || out != want || want == "" {
		t.Errorf("exit %d, %q, want %q: %s", code, out, want, errOut)
	}
	for name, why := range map[string]string{"tiny+one+two": "runs with one adapter at a time",
		"tiny+three": "its adapters are two, one"} {
		for _, args := range [][]string{{"run", "--model", name, "Hello"}, {"run", name}} {
			code, _, errOut := headroom("Hello\n", args...)
			if code != 1 || !strings.Contains(errOut, why) {
				t.Errorf("%q: exit %d, %s", args, code, errOut)
			}
		}
	}
}

// TestFuseNamed: an adapter of the list is fused by its name, as by its folder.
func TestFuseNamed(t *testing.T) {
	_, _, adapter := adapted(t)
	home := t.TempDir()
	t.Chdir(home)
	weights := func(name string, args ...string) string {
		code, _, errOut := headroom("", append([]string{"fuse"}, args...)...)
		if code != 0 {
			t.Errorf("%q: exit %d, %s", args, code, errOut)
		}
		text, err := os.ReadFile(filepath.Join(home, name, "model.safetensors"))
		if err != nil {
			t.Error(err)
		}
		return string(text)
	}
	want := weights("a", "tiny", adapter, "a")
	for name, args := range map[string][]string{"b": {"tiny+one", "b"}, "c": {"tiny", "one", "c"},
		"d": {"--model", "tiny+one", "--save-path", "d"}, "fused_model": {"tiny+one"}} {
		if weights(name, args...) != want {
			t.Errorf("%q: other weights", args)
		}
	}
	code, _, errOut := headroom("", "fuse", "tiny+three", "e")
	if code != 1 || !strings.Contains(errOut, `tiny has no adapter "three"`) {
		t.Errorf("exit %d, %s", code, errOut)
	}
}

// TestModelAlone: commands that take no adapter say so of one of the list.
func TestModelAlone(t *testing.T) {
	data, _, _ := adapted(t)
	for want, args := range map[string][]string{
		"run: headroom fuse tiny+one DIR":   {"convert", "tiny+one", data, "-q"},
		"parity takes a model without an ":  {"parity", "tiny+one"},
		"train begins a new adapter of":     {"train", "tiny+one", "--data", data},
		"bench takes a model without an a":  {"bench", "speed", "tiny+one"},
		`"tiny+one+two" names several adap`: {"parity", "tiny+one+two"},
	} {
		code, _, errOut := headroom("", args...)
		if code != 1 || !strings.Contains(errOut, want) {
			t.Errorf("%q: exit %d, %s", args, code, errOut)
		}
	}
}

// TestDeleteAdapter: the adapter goes to the Trash, after a question; its model stays.
func TestDeleteAdapter(t *testing.T) {
	_, model, adapter := adapted(t)
	if code, _, errOut := headroom("", "models", "delete", "tiny+one"); code != 1 ||
		!strings.Contains(errOut, "Add --yes") || !exists(adapter) {
		t.Errorf("exit %d, %s", code, errOut)
	}
	if code, _, errOut := headroom("", "models", "delete", "tiny+three", "--yes"); code != 1 ||
		!strings.Contains(errOut, `has no adapter "three"`) || !exists(model) {
		t.Errorf("exit %d, %s", code, errOut)
	}
	code, out, errOut := headroom("", "models", "delete", "tiny+one", "--yes")
	trash := filepath.Join(os.Getenv("XDG_DATA_HOME"), "Trash", "files", "one")
	if code != 0 || exists(adapter) || !exists(trash) || !exists(model) ||
		!exists(filepath.Join(filepath.Dir(adapter), "two")) || !strings.Contains(out, adapter) {
		t.Errorf("exit %d, %s%s", code, out, errOut)
	}
}

// TestAgentWithAdapter: an agent may use a model with an adapter, as the endpoint serves it.
func TestAgentWithAdapter(t *testing.T) {
	_, _, adapter := adapted(t)
	serving(t, "tiny")
	code, out, errOut := headroom("", "agents", "show", "codex", "--model", "tiny+one")
	if code != 0 || !strings.Contains(out, "tiny+one") {
		t.Errorf("exit %d, %s%s", code, out, errOut)
	}
	code, _, errOut = headroom("", "models", "delete", "tiny+one", "--yes")
	if code != 1 || !strings.Contains(errOut, "tiny is loaded by the server") || !exists(adapter) {
		t.Errorf("exit %d, %s", code, errOut)
	}
}

// TestReadyWithAdapter: a server that was started with an adapter names it.
func TestReadyWithAdapter(t *testing.T) {
	adapted(t)
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	reader, writer := io.Pipe()
	ended := make(chan error, 1)
	c := &Serve{Host: "127.0.0.1", Model: "tiny+two", InProcess: true}
	go func() {
		ended <- c.Run(ctx, &terminal{out: writer, err: io.Discard})
		writer.Close()
	}()
	text := ""
	for lines := bufio.NewScanner(reader); !strings.Contains(text, "try: ") && lines.Scan(); {
		text += lines.Text() + "\n"
	}
	if !strings.Contains(text, ": tiny+two is ready (") ||
		!strings.Contains(text, `"model":"tiny+two"`) {
		t.Error(text)
	}
	stop()
	<-ended
}

// TestHintOfDownload: every command says how a model of the hub is downloaded.
func TestHintOfDownload(t *testing.T) {
	data, _, _ := adapted(t)
	for _, args := range [][]string{{"serve", "org/name", "--port", "0"},
		{"convert", "--hf-path", "org/name", "--mlx-path", filepath.Join(data, "new"), "-q"},
		{"train", "org/name", "--data", data}, {"parity", "org/name"}} {
		code, _, errOut := headroom("", args...)
		if code != 1 || !strings.Contains(errOut, "run: headroom models download org/name\n") {
			t.Errorf("%q: exit %d, %s", args, code, errOut)
		}
	}
}
