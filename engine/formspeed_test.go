package engine_test

// What forms of answers cost and save, with a model of random weights and a real vocabulary. The
// texts are given: the model's logits are replaced, so that it writes them, with a form and without
// one.

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"headroom/engine"
	"headroom/engine/batch"
	"headroom/engine/cache"
	"headroom/engine/models"
	"headroom/engine/ops"
	"headroom/engine/structured"
	"headroom/kernels"
)

// formCase is a schema and a text that fits it, as `go run ./build/schemas -speed` writes them.
type formCase struct {
	Schema json.RawMessage `json:"schema"`
	Text   string          `json:"text"`
}

// scripted is a model that goes on from a prompt by the tokens of a list.
type scripted struct {
	models.Model
	prompt int // tokens
	list   []int32
	next   int // position of the next token
}

func (m *scripted) Forward(c *ops.Context, b *batch.Batch, layers []cache.Layer) kernels.Tensor {
	last := b.Spans[len(b.Spans)-1]
	m.next = last.Pos + last.Rows - m.prompt
	return m.Model.Forward(c, b, layers)
}

func (m *scripted) Logits(c *ops.Context, x kernels.Tensor, rows []int32) kernels.Tensor {
	out := m.Model.Logits(c, x, rows)
	if out.Buffer.Bytes != nil && m.next < len(m.list) {
		out.Float32s()[m.list[m.next]] = 1e6
	}
	return out
}

// formPath is the way of a text through its form: its tokens, and those that are chosen.
type formPath struct {
	tokens []int32
	chosen int           // tokens that are not forced
	masks  time.Duration // of all masks and steps of the grammar, without compiling
}

// BenchmarkForms needs HEADROOM_FORMS, a file of formCases, and HEADROOM_VOCABULARY, a folder with
// the files of a tokenizer. HEADROOM_SHAPE is the config.json of the model.
//
//	free-ms/token    decoding without a form
//	mask-µs/token    masks and steps of the grammar, for each token that is chosen
//	mask-%           their share of a step without a form
//	times-as-fast    the answer with its form, compiling included, against the same text without
//	forced-%         tokens that need no step of their own
func BenchmarkForms(b *testing.B) {
	casesFile, vocabulary := os.Getenv("HEADROOM_FORMS"), os.Getenv("HEADROOM_VOCABULARY")
	if casesFile == "" || vocabulary == "" {
		b.Skip("HEADROOM_FORMS and HEADROOM_VOCABULARY are not set")
	}
	data, err := os.ReadFile(casesFile)
	if err != nil {
		b.Fatal(err)
	}
	var cases []formCase
	if err := json.Unmarshal(data, &cases); err != nil {
		b.Fatal(err)
	}
	shape := cmp.Or(os.Getenv("HEADROOM_SHAPE"), "../app/commands/shapes/qwen3-0.6b.json")
	e := openModel(b, engine.Source{Dir: randomModel(b, shape, vocabulary)},
		engine.Options{MaxSequences: 1, NoPrefixCache: true, ContextTokens: 2048})
	prompt := encode(e, "JSON:")
	script := &scripted{prompt: len(prompt)}
	e.ReplaceModel(func(m models.Model) models.Model {
		script.Model = m
		return script
	})
	run := func(tokens []int32, o *structured.Output) time.Duration {
		script.list = tokens
		began := time.Now()
		a := answerOf(b, e, engine.Request{Prompt: prompt, MaxTokens: len(tokens), IgnoreEOS: true,
			Output: o})
		took := time.Since(began)
		if !slices.Equal(a.tokens, tokens) {
			b.Fatalf("got %d tokens (%s, %v), expected %d: %.60q", len(a.tokens), a.finish, a.err,
				len(tokens), a.text)
		}
		return took
	}
	for b.Loop() {
		var free, formed, masks time.Duration
		tokens, chosen, steps := 0, 0, 0
		for i, c := range cases {
			o := structured.Output{Kind: structured.JSONSchema, Source: string(c.Schema)}
			p, err := pathOf(e, o, c.Text)
			if err != nil {
				b.Logf("case %d: %v", i, err)
				continue
			}
			if len(p.tokens) > 1500 || len(p.tokens) < 2 {
				continue
			}
			o.Source += " " // a grammar of its own, which has no states yet
			free += run(p.tokens, nil)
			formed += run(p.tokens, &o)
			masks += p.masks
			tokens, chosen, steps = tokens+len(p.tokens), chosen+p.chosen, steps+1
		}
		perToken := free.Seconds() / float64(tokens)
		mask := masks.Seconds() / float64(chosen)
		b.ReportMetric(float64(steps), "answers")
		b.ReportMetric(1e3*perToken, "free-ms/token")
		b.ReportMetric(1e6*mask, "mask-µs/token")
		b.ReportMetric(100*mask/perToken, "mask-%")
		b.ReportMetric(free.Seconds()/formed.Seconds(), "times-as-fast")
		b.ReportMetric(100*float64(tokens-chosen)/float64(tokens), "forced-%")
	}
}

// randomModel writes a model of random weights in the shape of a config.json, with the tokenizer of
// a folder. HEADROOM_VOCABULARY_SIZE replaces the size of qwen3-0.6b's vocabulary.
func randomModel(t testing.TB, shape, vocabulary string) (dir string) {
	t.Helper()
	config, err := os.ReadFile(shape)
	if err != nil {
		t.Fatal(err)
	}
	if size := os.Getenv("HEADROOM_VOCABULARY_SIZE"); size != "" {
		config = []byte(strings.Replace(string(config), `"vocab_size": 151936`,
			`"vocab_size": `+size, 1))
	}
	dir = t.TempDir()
	if err := engine.WriteRandom(dir, config); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"tokenizer.json", "tokenizer_config.json", "tiktoken.model"} {
		data, err := os.ReadFile(filepath.Join(vocabulary, name))
		if os.IsNotExist(err) {
			_ = os.Remove(filepath.Join(dir, name))
			continue
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// pathOf follows a text through a form, by the tokens that the tokenizer would choose.
func pathOf(e *engine.Engine, o structured.Output, text string) (p formPath, err error) {
	a, err := e.Compiler().NewAnswer(&o)
	if err != nil {
		return p, err
	}
	t := e.Tokenizer()
	for text != "" {
		began := time.Now()
		forced := slices.Clone(a.Forced())
		if len(forced) == 0 {
			mask, err := a.Mask()
			if err != nil {
				return p, err
			}
			p.masks += time.Since(began)
			id := int32(-1)
			for _, next := range encode(e, text[:min(len(text), 200)])[:1] {
				if mask.Allows(next) && strings.HasPrefix(text, string(t.TokenBytes(next))) {
					id = next
				}
			}
			for n := min(len(text), 16); n > 0 && id < 0; n-- {
				if ids := encode(e, text[:n]); len(ids) == 1 && mask.Allows(ids[0]) {
					id = ids[0]
				}
			}
			if id < 0 {
				return p, fmt.Errorf("no token of %.30q is allowed", text)
			}
			p.chosen++
			forced, began = []int32{id}, time.Now()
		}
		for _, id := range forced {
			if err := a.Accept(id, ""); err != nil {
				return p, err
			}
			p.tokens = append(p.tokens, id)
			text = strings.TrimPrefix(text, string(t.TokenBytes(id)))
			if text == "" {
				break
			}
		}
		p.masks += time.Since(began)
	}
	return p, nil
}
