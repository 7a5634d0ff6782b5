package engine_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"headroom/engine"
	"headroom/engine/draft"
	"headroom/engine/sample"
	"headroom/engine/structured"
)

// randomSchema returns a random JSON Schema whose values are finite in number and short.
func randomSchema(r *rand.Rand, depth int) map[string]any {
	kind := r.IntN(9)
	if depth == 0 {
		kind = r.IntN(6)
	}
	switch kind {
	case 0:
		low := r.IntN(40) - 20
		return map[string]any{"type": "integer", "minimum": low, "maximum": low + r.IntN(300)}
	case 1:
		least := r.IntN(3)
		return map[string]any{"type": "string", "minLength": least, "maxLength": least + r.IntN(9)}
	case 2:
		values := []any{"red", "green", 3, nil, true, []any{1, "x"}}
		return map[string]any{"enum": values[:1+r.IntN(6)]}
	case 3:
		return map[string]any{"type": []any{"boolean", "null"}[:1+r.IntN(2)]}
	case 4:
		patterns := []string{"^[a-c]{1,5}$", "^(ab|cd)?x[0-9]{2}$", "^[^aeiou]{2,6}$"}
		return map[string]any{"type": "string", "pattern": patterns[r.IntN(len(patterns))]}
	case 5:
		formats := []string{"date", "ipv4", "uuid", "time"}
		return map[string]any{"type": "string", "format": formats[r.IntN(len(formats))]}
	case 6:
		return map[string]any{"anyOf": []any{randomSchema(r, depth-1), randomSchema(r, depth-1)}}
	case 7:
		least := r.IntN(2)
		return map[string]any{"type": "array", "items": randomSchema(r, depth-1),
			"minItems": least, "maxItems": least + r.IntN(3)}
	}
	properties, required := map[string]any{}, []any{}
	for i := range 1 + r.IntN(4) {
		name := fmt.Sprintf("%c%d", 'a'+r.IntN(3), i)
		properties[name] = randomSchema(r, depth-1)
		if r.IntN(3) > 0 {
			required = append(required, name)
		}
	}
	return map[string]any{"type": "object", "properties": properties, "required": required,
		"additionalProperties": false}
}

// validatorOf compiles a schema with an independent library, which also enforces formats.
func validatorOf(t testing.TB, schema []byte) *jsonschema.Schema {
	t.Helper()
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(string(schema)))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("schema.json", document); err != nil {
		t.Fatal(err)
	}
	return c.MustCompile("schema.json")
}

// formModel is a model that answers in plain decoding, and with drafts of what it has answered.
type formModel struct {
	plain, ahead *engine.Engine
	drafts       *drafter
}

// maxFormAnswers is how many answers of a formModel are in progress at once.
const maxFormAnswers = 4

func newFormModel(t *testing.T, src engine.Source, seed uint64) *formModel {
	t.Helper()
	o := engine.Options{MaxSequences: maxFormAnswers}
	m := &formModel{plain: openModel(t, src, o)}
	o.Speculate = engine.SpeculateAuto
	m.ahead = openModel(t, src, o)
	m.drafts = &drafter{r: rand.New(rand.NewPCG(seed, 9)), depth: draft.MaxTokens, wrong: 0.2,
		vocab: int32(m.plain.Tokenizer().VocabSize()), answers: make([][]int32, maxFormAnswers)}
	m.ahead.AlwaysDraft(m.drafts.propose)
	return m
}

// answer answers r twice. The drafts of the second time are tokens of the first one, a fifth of
// them replaced by others. worker is below maxFormAnswers and has one answer at a time.
func (m *formModel) answer(t *testing.T, worker int, r engine.Request) formAnswer {
	t.Helper()
	know := func(tokens []int32) {
		m.drafts.mu.Lock()
		defer m.drafts.mu.Unlock()
		m.drafts.answers[worker] = tokens
	}
	a := answerOf(t, m.plain, r)
	know(slices.Concat(r.Prompt, a.tokens))
	defer know(nil)
	if b := answerOf(t, m.ahead, r); !equalAnswers(a, b) {
		t.Errorf("%s: plain %q (%s), with drafts %q (%s, %v)", r.Output.Source, a.text, a.finish,
			b.text, b.finish, b.err)
	}
	return a
}

// check reports whether drafts were right and wrong, and what is left in memory.
func (m *formModel) check(t *testing.T) {
	t.Helper()
	s := m.ahead.Stats()
	t.Logf("%d of %d drafts were right", s.AcceptedTokens, s.DraftTokens)
	if s.AcceptedTokens == 0 || s.AcceptedTokens >= s.DraftTokens {
		t.Errorf("%d of %d drafts were right, expected some of them", s.AcceptedTokens,
			s.DraftTokens)
	}
	for _, e := range []*engine.Engine{m.plain, m.ahead} {
		if err := e.CheckMemory(); err != nil {
			t.Error(err)
		}
	}
}

// TestFormAnswers answers random schemas with all samplers, in batches, in plain decoding and with
// drafts, right and wrong ones. The answers are the same, and every one that is not cut off is
// valid. With HEADROOM_LONG there are 10,000; with HEADROOM_PART=2/4, for example, the second
// quarter of them.
func TestFormAnswers(t *testing.T) {
	n, first := 60, 0
	if long() {
		n = 10_000
	}
	if testing.Short() {
		n = 12
	}
	var part, parts int
	if _, err := fmt.Sscanf(os.Getenv("HEADROOM_PART"), "%d/%d", &part, &parts); err == nil {
		first, n = (part-1)*n/parts, part*n/parts
	}
	// Every other answer is of a model of random weights, which chooses from all that is allowed.
	random := engine.Source{Dir: randomModel(t, "../app/demo/model/config.json",
		"../app/demo/model")}
	models := []*formModel{newFormModel(t, demoSource(t), 1), newFormModel(t, random, 2)}
	var running sync.WaitGroup
	var mu sync.Mutex
	cutOff, tokens := 0, 0
	for worker := range maxFormAnswers {
		running.Go(func() {
			for i := first + worker; i < n; i += maxFormAnswers {
				r := rand.New(rand.NewPCG(uint64(i), 5))
				schema, err := json.Marshal(randomSchema(r, 3))
				if err != nil {
					t.Error(err)
					return
				}
				m := models[i/4%2]
				a := m.answer(t, worker, engine.Request{Prompt: encode(m.plain, question),
					MaxTokens: 400, Sampling: randomSampling(r), Output: &structured.Output{
						Kind: structured.JSONSchema, Source: string(schema), Strict: true,
						Whitespace: r.IntN(4) == 0}})
				mu.Lock()
				tokens += len(a.tokens)
				if a.finish == engine.FinishLength {
					cutOff++
				}
				mu.Unlock()
				if a.finish == engine.FinishLength {
					continue
				}
				value, err := jsonschema.UnmarshalJSON(strings.NewReader(a.text))
				if err == nil {
					err = validatorOf(t, schema).Validate(value)
				}
				if err != nil || a.finish != engine.FinishStop {
					t.Errorf("%d, %s: %q (%s): %v %v", i, schema, a.text, a.finish, err, a.err)
				}
			}
		})
	}
	running.Wait()
	t.Logf("%d answers with %d tokens, %d of them cut off", n-first, tokens, cutOff)
	if cutOff > (n-first)/5 {
		t.Errorf("%d of %d answers were cut off", cutOff, n-first)
	}
	for _, m := range models {
		m.check(t)
	}
}

// randomSampling returns the parameters of a random sampler.
func randomSampling(r *rand.Rand) sample.Params {
	s := sample.Params{Temperature: float32(r.IntN(5)) / 2, Seed: new(r.Uint64())}
	switch r.IntN(5) {
	case 0:
		s.TopP = 0.9
	case 1:
		s.TopK = 5
	case 2:
		s.MinP = 0.05
	case 3:
		s.RepetitionPenalty, s.PresencePenalty = 1.2, 0.5
	}
	return s
}
