package selftest

// The demo model answers two questions with greedy sampling, and the tokens are compared with those
// of the simulated device. So the kernels run in the engine's order, with the engine's shapes.

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"headroom/app/demo"
	"headroom/engine"
	"headroom/engine/safetensors"
	"headroom/engine/sample"
	"headroom/engine/tokenizer"
	"headroom/kernels/gpu"
)

// answersText has the questions and the tokens of their answers. TestAnswers writes it.
//
//go:embed answers.json
var answersText []byte

// answer is a question with the first tokens of its answer.
type answer struct {
	Question string  `json:"question"`
	Tokens   []int32 `json:"tokens"`
}

// wantAnswers returns the expected answers. Tests replace it.
var wantAnswers = answers

func answers() []answer {
	var all []answer
	if err := json.Unmarshal(answersText, &all); err != nil {
		panic("selftest: answers.json: " + err.Error()) // the file is embedded
	}
	return all
}

// shortTokens is how many tokens the short form compares. It asks only the first question.
const shortTokens = 4

// demo checks the demo model's answers, and whether the device uses mapped weights without copying
// them.
func (r *Report) demo(ctx context.Context, o *Options) {
	o.Say(groupDemo)
	if err := r.checkMapping(o); err != nil {
		r.add(groupDemo, "weights", err, "")
	}
	all := wantAnswers()
	if o.Short && len(all) > 0 {
		all = all[:1]
		all[0].Tokens = all[0].Tokens[:shortTokens]
	}
	e, err := openDemo(ctx, engine.Options{Device: engine.DeviceMetal, OpenMetal: o.Open})
	if err != nil {
		r.add(groupDemo, "opening", err, "")
		return
	}
	defer e.Close()
	for _, a := range all {
		got, err := generate(ctx, e, a.Question, len(a.Tokens))
		if err == nil && !slices.Equal(got, a.Tokens) {
			err = fmt.Errorf("tokens %v, expected %v (%q, expected %q)", got, a.Tokens,
				e.Tokenizer().Decode(got, false), e.Tokenizer().Decode(a.Tokens, false))
		}
		r.add(groupDemo, fmt.Sprintf("%q", a.Question), err, "")
	}
}

func demoFiles() fs.FS {
	files, err := fs.Sub(demo.Files, "model")
	if err != nil {
		panic("selftest: the demo model: " + err.Error()) // embedded
	}
	return files
}

// openDemo opens the demo model for one short conversation. The caller closes the engine.
func openDemo(ctx context.Context, o engine.Options) (*engine.Engine, error) {
	o.ContextTokens, o.MaxSequences, o.ChunkTokens, o.NoPrefixCache = 256, 1, 64, true
	return engine.Open(ctx, engine.Source{FS: demoFiles()}, o)
}

// generate returns the first tokens of an answer. It continues after an end-of-turn token.
func generate(ctx context.Context, e *engine.Engine, question string, tokens int) ([]int32, error) {
	text := "<|im_start|>user\n" + question +
		"<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
	s, err := e.Submit(engine.Request{Prompt: e.Tokenizer().Encode(text, tokenizer.EncodeOptions{}),
		MaxTokens: tokens, IgnoreEOS: true,
		Sampling: sample.Params{Logprobs: -1}})
	if err != nil {
		return nil, err
	}
	defer s.Cancel()
	var got []int32
	for {
		event, err := s.Next(ctx)
		switch {
		case err != nil:
			return got, err
		case event.Type == engine.Token:
			got = append(got, event.Token)
		case event.Type == engine.Done:
			return got, event.Err
		}
	}
}

// checkMapping checks whether the device uses weights in a mapped file without copying them. A
// device that copies them passes with a note.
func (r *Report) checkMapping(o *Options) error {
	dir, err := os.MkdirTemp("", "headroom-selftest-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.CopyFS(dir, demoFiles()); err != nil {
		return err
	}
	weights, err := safetensors.Open(filepath.Join(dir, "model.safetensors"))
	if err != nil {
		return err
	}
	defer weights.Close()
	m, err := o.Open()
	if err != nil {
		return err
	}
	defer m.Close()
	d, err := gpu.New(m)
	if err != nil {
		return err
	}
	defer d.Close()
	d.WrapBuffer(weights.Mapping())
	note := ""
	if bytes, reason := d.Copied(); bytes > 0 {
		note = fmt.Sprintf("the GPU cannot use mapped files directly (%v), so they are copied: "+
			"models need twice their size", reason)
	}
	r.add(groupDemo, "weights", nil, note)
	return d.Sync()
}
