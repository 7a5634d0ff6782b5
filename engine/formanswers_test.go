package engine_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"headroom/engine"
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

// TestFormAnswers answers random schemas with all samplers, in batches. Every answer that is not
// cut off is valid. With HEADROOM_LONG there are 10,000; with HEADROOM_PART=2/4, for example, the
// second quarter of them.
func TestFormAnswers(t *testing.T) {
	n, first := 60, 0
	if os.Getenv("HEADROOM_LONG") != "" {
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
	random := openModel(t, engine.Source{Dir: randomModel(t, "../app/demo/model/config.json",
		"../app/demo/model")}, engine.Options{MaxSequences: 4})
	models := []*engine.Engine{open(t, engine.Options{MaxSequences: 4}), random}
	var running sync.WaitGroup
	var mu sync.Mutex
	cutOff, tokens := 0, 0
	for worker := range 4 {
		running.Go(func() {
			for i := first + worker; i < n; i += 4 {
				r := rand.New(rand.NewPCG(uint64(i), 5))
				schema, err := json.Marshal(randomSchema(r, 3))
				if err != nil {
					t.Error(err)
					return
				}
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
				e := models[i/4%2]
				a := answerOf(t, e, engine.Request{Prompt: encode(e, question), MaxTokens: 400,
					Sampling: s, Output: &structured.Output{Kind: structured.JSONSchema,
						Source: string(schema), Strict: true, Whitespace: r.IntN(4) == 0}})
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
	for _, e := range models {
		if err := e.CheckMemory(); err != nil {
			t.Error(err)
		}
	}
}
