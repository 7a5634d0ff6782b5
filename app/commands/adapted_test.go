package commands

import (
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
