package train_test

// What a trained adapter computes in Headroom's engine, compared with mlx-lm in the environment.

import (
	"encoding/json"
	"errors"
	"io"
	"math"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"headroom/app/train"
	"headroom/engine"
	"headroom/engine/chat"
	"headroom/engine/convert"
	"headroom/engine/sample"
	"headroom/engine/textproc"
	"headroom/engine/tokenizer"
)

// tolerance is the largest difference of log-probabilities, both computed in float32; it is that of
// build/oracle/models. minChange is how much a training changes them at least.
const tolerance, minChange = 5e-4, 0.5

// peer prints mlx-lm's log-probability of each token after the first.
const peer = `
import json, sys
import mlx.core as mx
from mlx_lm import load

model, _ = load(sys.argv[1], adapter_path=sys.argv[2])
model.set_dtype(mx.float32)
ids = json.loads(sys.argv[3])
logits = model(mx.array([ids]))[0].astype(mx.float32)
all = logits - mx.logsumexp(logits, axis=-1, keepdims=True)
print(json.dumps([all[i, t].item() for i, t in enumerate(ids[1:])]))
`

// sameOutputs compares the model with the adapter in mlx-lm and in the engine. Of full fine-tuning,
// the engine runs the fused model.
func sameOutputs(t *testing.T, e train.Environment, kind, model string, a train.Adapter,
	p *textproc.Processor) {
	t.Helper()
	text, err := p.Template().Render(t.Context(), chat.Input{Messages: []chat.Message{
		{Role: "user", Content: "Count to 7."},
		{Role: "assistant", Content: "One, two, three, and so on."}}})
	if err != nil {
		t.Fatal(err)
	}
	ids := p.Tokenizer().Encode(text, tokenizer.EncodeOptions{})
	prompt, _ := json.Marshal(ids)
	args := append(e.Command(), "-c", peer, model, a.Dir, string(prompt))
	out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).Output()
	if err != nil {
		var exit *exec.ExitError
		errors.As(err, &exit)
		t.Fatalf("%v: %s", err, exit.Stderr)
	}
	var want []float64
	if err := json.Unmarshal(out, &want); err != nil {
		t.Fatal(err)
	}
	plain := logprobs(t, model, nil, ids)
	adapter := &engine.Adapter{Name: "a", Dir: a.Dir}
	if kind == "full" {
		fused := filepath.Join(t.TempDir(), "fused")
		if _, err := convert.Run(t.Context(), engine.Source{Dir: model}, fused,
			convert.Options{Adapter: a.Dir}); err != nil {
			t.Fatal(err)
		}
		model, adapter = fused, nil
	}
	got := logprobs(t, model, adapter, ids)
	worst, change := 0.0, 0.0
	for i := range want {
		worst = max(worst, math.Abs(got[i]-want[i]))
		change = max(change, math.Abs(got[i]-plain[i]))
	}
	t.Logf("log-probabilities differ from mlx-lm's by %.1e; training has changed them by %.2g",
		worst, change)
	if !(worst <= tolerance) || change < minChange {
		t.Errorf("expected at most %g, and a change of at least %g", tolerance, minChange)
	}
}

// logprobs returns the log-probability of each token after the first.
func logprobs(t *testing.T, model string, a *engine.Adapter, ids []int32) (all []float64) {
	t.Helper()
	e, err := engine.Open(t.Context(), engine.Source{Dir: model}, engine.Options{
		Device: engine.DeviceCPU, ContextTokens: 256, Float32Activations: true, KVFormat: "f32"})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	s, err := e.Submit(engine.Request{Prompt: slices.Clone(ids), Adapter: a, ScorePrompt: true,
		NoAnswer: true, Sampling: sample.Params{Logprobs: 1}})
	if err != nil {
		t.Fatal(err)
	}
	for {
		event, err := s.Next(t.Context())
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil && event.Type == engine.Done {
			err = event.Err
		}
		if err != nil {
			t.Fatal(err)
		}
		if event.Type != engine.Scored {
			continue
		}
		for _, score := range event.Scores {
			all = append(all, float64(score.Logprob))
		}
	}
	if len(all) != len(ids)-1 {
		t.Fatalf("%d log-probabilities, expected %d", len(all), len(ids)-1)
	}
	return all
}
