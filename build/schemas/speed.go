package main

// The time of masks: for the valid instances of JSONSchemaBench's medium set, token by token, with
// the vocabulary of a file in tiktoken's format. speed.py measures llguidance with the same texts.

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"headroom/engine/grammar"
	"headroom/engine/grammar/jsonschema"
	"headroom/engine/tokenizer"
)

// speedCase is a schema and a text that fits it, for speed.py.
type speedCase struct {
	Name   string          `json:"name"`
	Schema json.RawMessage `json:"schema"`
	Text   string          `json:"text"`
}

// times are durations in microseconds.
type times []float64

func (t *times) add(d time.Duration) { *t = append(*t, float64(d.Nanoseconds())/1000) }

// String returns the mean and some quantiles.
func (t times) String() string {
	if len(t) == 0 {
		return "none"
	}
	s := slices.Sorted(slices.Values(t))
	sum := 0.0
	for _, v := range s {
		sum += v
	}
	at := func(share float64) float64 { return s[min(len(s)-1, int(share*float64(len(s))))] }
	return fmt.Sprintf("mean %.0f µs, median %.0f, 95 %% %.0f, 99 %% %.0f, longest %.0f",
		sum/float64(len(s)), at(0.5), at(0.95), at(0.99), s[len(s)-1])
}

// speed is what runSpeed measures.
type speed struct {
	vocabulary     *grammar.Vocabulary
	tokens         *tokenizer.Tokenizer
	first, steps   times // to the first mask with compiling; each later mask with its Accept
	forced, chosen int
	cases          []speedCase
}

// runSpeed measures n schemas of a set. If out is not empty, it is the file for speed.py.
func runSpeed(vocabulary, given, set string, n int, out string) error {
	data, err := os.ReadFile(vocabulary)
	if err != nil {
		return err
	}
	s := speed{}
	if path.Ext(vocabulary) == ".json" {
		s.tokens, err = tokenizer.Parse(data)
	} else {
		s.tokens, err = tokenizer.ParseTiktoken(data, &tokenizer.Config{})
	}
	if err != nil {
		return err
	}
	tokens := make([][]byte, s.tokens.VocabSize())
	for id := range tokens {
		if !s.tokens.IsSpecial(int32(id)) {
			tokens[id] = s.tokens.TokenBytes(int32(id))
		}
	}
	began := time.Now()
	s.vocabulary = grammar.NewVocabulary(tokens, []int32{int32(len(tokens) - 1)}, s.encode)
	fmt.Printf("%d tokens, their tries in %v\n", len(tokens), time.Since(began))
	if given != "" {
		err = s.measureCases(given)
	} else {
		err = s.measureSet(set, n)
	}
	if err != nil {
		return err
	}
	fmt.Printf("%d schemas\n", len(s.cases))
	fmt.Println("compiling and the first mask:", s.first)
	within := 0
	for _, v := range s.first {
		if v <= 10_000 {
			within++
		}
	}
	fmt.Printf("  %.1f %% of them within 10 ms\n", 100*float64(within)/float64(len(s.first)))
	fmt.Println("a later mask, with the step before it:", s.steps)
	fmt.Printf("tokens: %d, %.0f %% of them forced\n", s.forced+s.chosen,
		100*float64(s.forced)/float64(max(1, s.forced+s.chosen)))
	if out == "" {
		return nil
	}
	data, err = json.Marshal(s.cases)
	if err != nil {
		return err
	}
	return os.WriteFile(out, data, 0o644)
}

// measureSet measures n schemas of a set of JSONSchemaBench, each with its first valid instance.
func (s *speed) measureSet(set string, n int) error {
	if err := benchSuite.fetch(); err != nil {
		return err
	}
	files, _, err := benchSuite.files("maskbench/data")
	if err != nil {
		return err
	}
	files = slices.DeleteFunc(files, func(f file) bool {
		return !strings.HasPrefix(path.Base(f.path), set)
	})
	for _, f := range every(files, n) {
		if err := s.measure(f); err != nil {
			return fmt.Errorf("%s: %w", f.path, err)
		}
	}
	return nil
}

// measureCases measures the schemas and texts of a file.
func (s *speed) measureCases(name string) error {
	data, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	var list []speedCase
	if err := json.Unmarshal(data, &list); err != nil {
		return err
	}
	for _, c := range list {
		if err := s.measureCase(c); err != nil {
			return fmt.Errorf("%s: %w", c.Name, err)
		}
	}
	return nil
}

// measureCase measures a schema with a text that fits it.
func (s *speed) measureCase(c speedCase) error {
	began := time.Now()
	g, _, err := compile(c.Schema, jsonschema.Options{})
	if err != nil {
		return err
	}
	compiled := time.Since(began)
	g.SetVocabulary(s.vocabulary)
	s.cases = append(s.cases, c)
	return s.follow(g, c.Text, compiled)
}

func (s *speed) encode(text string) []int32 {
	return s.tokens.Encode(strings.ToValidUTF8(text, ""), tokenizer.EncodeOptions{})
}

// measure measures one schema with its first valid instance.
func (s *speed) measure(f file) error {
	var c benchCase
	if err := json.Unmarshal(f.data, &c); err != nil {
		return err
	}
	schema, err := decode(c.Schema)
	if err != nil {
		return err
	}
	g, _, err := compile(c.Schema, jsonschema.Options{})
	if err != nil {
		return nil // refused
	}
	for _, test := range c.Tests {
		instance, err := decode(test.Data)
		if err != nil || !test.Valid {
			continue
		}
		ok, text := takes(g, ordersOf(schema), instance)
		if !ok || len(text) > 20_000 {
			continue
		}
		return s.measureCase(speedCase{path.Base(f.path), c.Schema, text})
	}
	return nil
}

// follow follows a text through a grammar, by the tokens that a model would choose.
func (s *speed) follow(g *grammar.Grammar, text string, compiled time.Duration) error {
	m := g.NewMatcher()
	began := time.Now()
	first := true
	for text != "" {
		forced := m.Forced()
		for len(forced) > 0 && text != "" {
			id := forced[0]
			if err := m.Accept(id); err != nil {
				return err
			}
			s.forced++
			text = strings.TrimPrefix(text, string(s.tokens.TokenBytes(id)))
			forced = m.Forced()
		}
		if text == "" {
			return nil
		}
		mask, err := m.Mask()
		if err != nil {
			return err
		}
		took := time.Since(began)
		if first {
			s.first.add(compiled + took)
		} else {
			s.steps.add(took)
		}
		id := s.choose(mask, text)
		if id < 0 {
			return fmt.Errorf("no token of %.40q is allowed", text)
		}
		s.chosen++
		first, text = false, text[len(s.tokens.TokenBytes(id)):]
		began = time.Now()
		if err := m.Accept(id); err != nil {
			return err
		}
	}
	return nil
}

// choose returns the token that comes next in text: that of the tokenizer, or else the longest one
// that is allowed; -1: none is.
func (s *speed) choose(mask *grammar.Mask, text string) int32 {
	if ids := s.encode(text[:min(len(text), 200)]); len(ids) > 0 && mask.Allows(ids[0]) &&
		strings.HasPrefix(text, string(s.tokens.TokenBytes(ids[0]))) {
		return ids[0]
	}
	best, length := int32(-1), 0
	for id := range int32(s.tokens.VocabSize()) {
		if token := string(s.tokens.TokenBytes(id)); mask.Allows(id) && len(token) > length &&
			strings.HasPrefix(text, token) {
			best, length = id, len(token)
		}
	}
	return best
}
