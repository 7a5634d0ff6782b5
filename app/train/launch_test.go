package train

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// mlxLM are modules in place of mlx-lm's: a training of 12 iterations that reports every 5, and
// computes speeds as mlx-lm does. Each iteration takes half a second of the clock in here.
var mlxLM = map[string]string{
	"mlx/__init__.py": "",
	"mlx/core.py": `
def array(x, *_): return x
uint64 = None
def save_safetensors(path, *_): open(path, "w").close()
def load(*_, **__): raise OSError
`,
	"mlx/utils.py": "def tree_flatten(x): return [(\"a\", 1)]\n" +
		"def tree_unflatten(x): return x\n",
	"mlx_lm/__init__.py":        "",
	"mlx_lm/tuner/__init__.py":  "",
	"mlx_lm/tuner/trainer.py":   "TrainUI = None\n",
	"mlx_lm/tuner/callbacks.py": "class TrainingCallback: pass\n",
	"mlx_lm/lora.py": `
import sys, types
from mlx_lm.tuner import trainer
class Model:
    def trainable_parameters(self): return {}
evaluate = get_reporting_callbacks = None
def train(model, args, optimizer, training_callback):
    ui, steps = trainer.TrainUI(args.iters), 0
    for it in range(1, args.iters + 1):
        steps += 1
        ui.advance()
        if it % args.steps_per_report == 0 or it == args.iters:
            training_callback.on_train_loss_report({"iteration": it, "train_loss": 1.0,
                "iterations_per_second": args.steps_per_report / (0.5 * steps)})
            steps = 0
def main():
    args = types.SimpleNamespace(iters=12, steps_per_report=5, steps_per_save=100,
        adapter_file=sys.argv[1])
    optimizer = types.SimpleNamespace(state={})
    train(model=Model(), args=args, optimizer=optimizer,
        training_callback=get_reporting_callbacks())
`,
}

// TestSpeed: the speed of each report is that of its iterations, also of the last report, which has
// fewer, and in a run that goes on.
func TestSpeed(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no Python")
	}
	dir := t.TempDir()
	for name, text := range mlxLM {
		path := filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(path), 0o700)
		if err == nil {
			err = os.WriteFile(path, []byte(text), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, before := range []int{0, 7} {
		c := exec.Command(python, "-c", launcher, fmt.Sprint(before),
			filepath.Join(dir, weightsName))
		c.Dir, c.Env = dir, append(os.Environ(), "PYTHONPATH="+dir)
		stdin, err := c.StdinPipe() // its end would pause the training
		if err != nil {
			t.Fatal(err)
		}
		var failed bytes.Buffer
		c.Stderr = &failed
		out, err := c.Output()
		_ = stdin.Close()
		if err != nil {
			t.Fatalf("%v\n%s%s", err, out, &failed)
		}
		var at []int
		for line := range bytes.Lines(out) {
			e, ok := parseEvent(string(line))
			if !ok || e.Kind != "train" {
				continue
			}
			at = append(at, e.Iteration-before)
			if e.PerSecond != 2 {
				t.Errorf("at iteration %d: %g iterations/s, expected 2", e.Iteration, e.PerSecond)
			}
		}
		if fmt.Sprint(at) != "[5 10 12]" {
			t.Errorf("reports after iterations %v, expected 5, 10 and 12", at)
		}
	}
}
