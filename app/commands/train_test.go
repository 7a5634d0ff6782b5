package commands

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"headroom/app/library"
	"headroom/app/train"
	"headroom/app/train/traintest"
	"headroom/engine/safetensors"
)

func TestCurves(t *testing.T) {
	if lines := (&curves{of: 10}).draw(20, 4); lines != nil {
		t.Errorf("without losses: %q", lines)
	}
	c := curves{of: 100, train: []point{{10, 3}, {50, 2}, {100, 1}},
		valid: []point{{0, 4}, {100, 1}}}
	want := []string{
		"Loss: · train, o validation",
		"   4.000 │o",
		"         │ ·",
		"         │     ·",
		"   1.000 │          o",
		"         └───────────",
		"          0       100",
	}
	if got := strings.Join(c.draw(11, 4), "\n"); got != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nexpected\n%s", got, strings.Join(want, "\n"))
	}
	flat := curves{of: 5, train: []point{{9, 2}}} // beyond the last iteration
	if got := flat.draw(5, 2)[2]; got != "   2.000 │    ·" {
		t.Errorf("got %q", got)
	}
}

// TestTrainView: without a terminal there are lines only. On one, the drawing is replaced.
func TestTrainView(t *testing.T) {
	loss := 1.5
	events := []train.Progress{
		{Event: train.Event{Kind: "started", Iterations: 4}, Of: 4},
		{Event: train.Event{Kind: "valid", ValidLoss: &loss}, Of: 4},
		{Event: train.Event{Kind: "valid"}, Of: 4},
		{Event: train.Event{Kind: "iteration", Iteration: 1}, Done: 1, Of: 4, Left: time.Minute},
		{Event: train.Event{Kind: "train", TrainLoss: &loss, Iteration: 2}, Done: 2, Of: 4,
			Left: time.Minute},
		{Event: train.Event{Kind: "saved", File: "a\x1b[2J"}, Done: 2, Of: 4},
		{Event: train.Event{Kind: "test", TestLoss: &loss}, Done: 4, Of: 4},
	}
	for _, onTerminal := range []bool{false, true} {
		var out bytes.Buffer
		v := &trainView{out: &out, onTerminal: onTerminal}
		for _, p := range events {
			v.show(p)
		}
		v.end()
		text := out.String()
		for _, want := range []string{"Iterations 1 to 4.", "0 of 4: validation loss 1.500\n",
			"the validation loss is no number", "train loss 1.500", ", 1m0s left", "saved a",
			"Test loss: 1.500\n"} {
			if !strings.Contains(text, want) {
				t.Errorf("on a terminal: %t: %q lacks %q", onTerminal, text, want)
			}
		}
		if strings.Contains(text, "\x1b") != onTerminal || strings.Contains(text, "\x1b[2J") ||
			strings.Contains(text, "Loss: ·") != onTerminal || !strings.HasSuffix(text, "\n") {
			t.Errorf("on a terminal: %t: %q", onTerminal, text)
		}
	}
}

// trainable puts a random model with the demo model's tokenizer into the models folder, and writes
// samples. It returns the folder of the data and that of the model.
func trainable(t *testing.T) (data, model string) {
	t.Helper()
	isolate(t)
	model = filepath.Join(library.Own(), "tiny")
	traintest.WriteModel(t, model, 2)
	data = t.TempDir()
	text := strings.Repeat(`{"prompt": "Hello", "completion": "Hello to you"}`+"\n", 4)
	if err := os.WriteFile(filepath.Join(data, "train.jsonl"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return data, model
}

// writeAdapter writes an adapter of the model's first layer, as mlx_lm.lora does.
func writeAdapter(t *testing.T, dir, model string) {
	t.Helper()
	one := func(name string, shape ...int) safetensors.Tensor {
		x := safetensors.Tensor{Name: "model.layers.0.mlp.down_proj." + name, Shape: shape,
			DType: safetensors.F32}
		for i := range x.Elements() {
			x.Data = binary.LittleEndian.AppendUint32(x.Data,
				math.Float32bits(float32(i%5)-2))
		}
		return x
	}
	var weights bytes.Buffer
	err := safetensors.Write(&weights, []safetensors.Tensor{one("lora_a", 64, 2),
		one("lora_b", 2, 64)}, nil)
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	for name, text := range map[string]string{"adapters.safetensors": weights.String(),
		"adapter_config.json": fmt.Sprintf(`{"fine_tune_type": "lora", "model": %q,
			"lora_parameters": {"rank": 2, "scale": 20.0}}`, model)} {
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestTrainChecks: data and memory are checked before anything is installed, and nothing is
// installed without asking.
func TestTrainChecks(t *testing.T) {
	data, _ := trainable(t)
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--check"}, 0, "train.jsonl: 4 samples (prompt and completion)"},
		{[]string{"--check"}, 0, "There is no valid.jsonl"},
		{[]string{"--check"}, 0, "The training needs about "},
		{nil, 1, "the Python environment is not installed"},
		{[]string{"--batch-size", "5"}, 1, "train.jsonl has 4 samples, and a batch has 5"},
		{[]string{"--num-layers", "99"}, 1, "--num-layers is 99, expected 1 to"},
		{[]string{"--resume"}, 1, "has no checkpoint to go on from"},
		{[]string{"--resume", "--force"}, 1, "--resume goes on and --force begins anew"},
		{[]string{"--fine-tune-type", "x"}, 2, "--fine-tune-type must be one of"},
	} {
		code, _, errOut := headroom("", append([]string{"train", "tiny", "--data", data},
			c.args...)...)
		if code != c.code || !strings.Contains(errOut, c.want) {
			t.Errorf("%q: exit %d, %s; expected %s", c.args, code, errOut, c.want)
		}
	}
	code, _, errOut := headroom("", "train", "tiny", "--data", filepath.Join(data, "none"))
	if code != 1 || !strings.Contains(errOut, "there is no folder") {
		t.Errorf("no data: exit %d, %s", code, errOut)
	}
	if code, _, errOut := answering(t, "n\n", "train", "tiny", "--data", data); code != 1 ||
		!strings.Contains(errOut, "Install it? [Y/n]") || train.DefaultEnvironment().Ready() {
		t.Errorf("no: exit %d, %s", code, errOut)
	}
}

// TestSingleFile: the check of a single file says which lines are for what.
func TestSingleFile(t *testing.T) {
	trainable(t)
	file := filepath.Join(t.TempDir(), "all.jsonl")
	for samples, want := range map[int]string{
		40: "all.jsonl, training (all lines but each tenth): 36 samples|" +
			"all.jsonl, validation (each tenth line): 4 samples",
		4: "all.jsonl, training (all lines): 4 samples|" +
			"There are too few samples for a validation with --batch-size 4: ",
		1: "all.jsonl has 1 sample, and a batch has 4",
	} {
		text := strings.Repeat(`{"prompt": "Hello", "completion": "Hello to you"}`+"\n", samples)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, _, errOut := headroom("", "train", "tiny", "--data", file, "--check")
		for _, part := range strings.Split(want, "|") {
			if !strings.Contains(errOut, part) {
				t.Errorf("%d samples: %s lacks %q", samples, errOut, part)
			}
		}
	}
}

// TestBundledModel: the bundled model can be trained, and run knows its adapter by name.
func TestBundledModel(t *testing.T) {
	data, _ := trainable(t)
	code, _, errOut := headroom("", "train", "headroom-demo", "--data", data, "--check")
	if code != 0 || !strings.Contains(errOut, "The training needs about ") {
		t.Errorf("exit %d, %s", code, errOut)
	}
	model, err := train.DefaultEnvironment().Bundled()
	if err != nil {
		t.Fatal(err)
	}
	adapter := filepath.Join(library.Own(), "adapters", "polite")
	writeAdapter(t, adapter, model)
	if name := listedAdapter(adapter); name != "headroom-demo+polite" {
		t.Errorf("the adapter is called %q", name)
	}
	// The adapter has the shapes of another model, so only an adapter that was found is refused.
	for name, want := range map[string]string{"headroom-demo+polite": "does not fit this model",
		"headroom-demo+rude": `has no adapter "rude"`} {
		code, _, errOut := headroom("", "run", "--model", name, "Hello")
		if code != 1 || !strings.Contains(errOut, want) {
			t.Errorf("%s: exit %d, %s", name, code, errOut)
		}
	}
}

// TestNamedAdapter: run knows an adapter in a models folder by the name that the list has.
func TestNamedAdapter(t *testing.T) {
	_, model := trainable(t)
	adapter := filepath.Join(library.Own(), "adapters", "polite")
	writeAdapter(t, adapter, model)
	if name := listedAdapter(adapter); name != "tiny+polite" {
		t.Errorf("the adapter is called %q", name)
	}
	run := func(args ...string) string {
		code, out, errOut := headroom("", append([]string{"run", "--temp", "0", "--max-tokens", "8",
			"Hello"}, args...)...)
		if code != 0 {
			t.Errorf("%q: exit %d, %s", args, code, errOut)
		}
		return out
	}
	plain, named := run("--model", "tiny"), run("--model", "tiny+polite")
	if flag := run("--model", "tiny", "--adapter", adapter); named != flag || named == plain {
		t.Errorf("by name %q, by flag %q, without %q", named, flag, plain)
	}
	long := strings.Repeat("The fox looked for the drum in the school. ", 30) + "\n"
	if code, _, errOut := headroom(long, "chat", "--model", "tiny+polite", "--max-tokens",
		"2"); code != 0 {
		t.Fatalf("chat: exit %d, %s", code, errOut)
	}
	if _, out, errOut := headroom("", "cache", "ls"); !strings.Contains(out, " tiny+polite ") {
		t.Errorf("cache ls does not name the adapter: %s%s", out, errOut)
	}
	if err := os.RemoveAll(adapter); err != nil {
		t.Fatal(err)
	}
	if _, out, errOut := headroom("", "cache", "ls"); !strings.Contains(out, " tiny, adapter ") {
		t.Errorf("an adapter that is gone: %s%s", out, errOut)
	}
	writeAdapter(t, adapter, model)
	for want, args := range map[string][]string{
		"has no adapter \"rude\"": {"--model", "tiny+rude"},
		"Leave one of them out":   {"--model", "tiny+polite", "--adapter", adapter},
	} {
		code, _, errOut := headroom("", append([]string{"run", "Hello"}, args...)...)
		if code != 1 || !strings.Contains(errOut, want) {
			t.Errorf("%q: exit %d, %s", args, code, errOut)
		}
	}
}
