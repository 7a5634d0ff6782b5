package engine_test

// How another program uses the engine. Every example runs the demo model, or a tiny model with
// random weights, and its output is checked.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"math"
	"path/filepath"
	"strings"

	"headroom/app/demo"
	"headroom/engine"
	"headroom/engine/chat"
	"headroom/engine/sample"
	"headroom/engine/tokenizer"
)

// demoModel opens the demo model. A model on disk is engine.Source{Dir: "its folder"}.
func demoModel(o engine.Options) *engine.Engine {
	files, err := fs.Sub(demo.Files, "model")
	if err != nil {
		log.Fatal(err)
	}
	e, err := engine.Open(context.Background(), engine.Source{FS: files}, o)
	if err != nil {
		log.Fatal(err)
	}
	return e
}

// promptOf renders a question with the model's chat template.
func promptOf(e *engine.Engine, messages ...chat.Message) []int32 {
	prompt, err := e.Template().Render(context.Background(), chat.Input{Messages: messages,
		AddGenerationPrompt: true, Kwargs: map[string]any{"enable_thinking": false}})
	if err != nil {
		log.Fatal(err)
	}
	return e.Tokenizer().Encode(prompt, tokenizer.EncodeOptions{})
}

// wait reads a stream to its end. It returns the text and the last event.
func wait(s *engine.Stream, err error) (text string, done engine.Event) {
	for err == nil {
		var event engine.Event
		if event, err = s.Next(context.Background()); err == nil {
			text, done = text+event.Text, event
		}
	}
	if !errors.Is(err, io.EOF) {
		log.Fatal(err)
	}
	return text, done
}

// Load a model, ask a question, and wait for the whole answer.
func Example() {
	e := demoModel(engine.Options{})
	defer e.Close()
	s, err := e.Submit(engine.Request{MaxTokens: 50,
		Prompt: promptOf(e, chat.Message{Role: "user", Content: "What is 76 - 27?"})})
	text, done := wait(s, err)
	fmt.Println(text)
	fmt.Println(done.Finish, done.Usage.PromptTokens)
	// Output:
	// 76 - 27 = 49.
	// stop 22
}

// Print the text as it comes.
func Example_stream() {
	e := demoModel(engine.Options{})
	defer e.Close()
	s, err := e.Submit(engine.Request{
		Prompt: promptOf(e, chat.Message{Role: "user", Content: "What is 76 - 27?"})})
	for err == nil {
		var event engine.Event
		if event, err = s.Next(context.Background()); err == nil && event.Type == engine.Token {
			fmt.Print(event.Text, "|")
		}
	}
	// Output: 7|6| -| |2|7| =| |4|9|.||
}

// A conversation: the second turn computes only what is new. A Splitter would separate reasoning
// and calls of tools from the content; see engine/chat.
func Example_chat() {
	e := demoModel(engine.Options{})
	defer e.Close()
	messages := []chat.Message{{Role: "user", Content: "What is 76 - 27?"}}
	for _, next := range []string{"What is 5 + 6?", ""} {
		s, err := e.Submit(engine.Request{Prompt: promptOf(e, messages...), MaxTokens: 50})
		text, done := wait(s, err)
		fmt.Println(text, "reused:", done.Usage.CachedTokens > 0)
		messages = append(messages, chat.Message{Role: "assistant", Content: text},
			chat.Message{Role: "user", Content: next})
	}
	// Output:
	// 76 - 27 = 49. reused: false
	// 5 + 6 = 11. reused: true
}

// Requests that are submitted together run in one batch. Each answer has the bits that it has
// alone.
func Example_batch() {
	e := demoModel(engine.Options{MaxSequences: 3})
	defer e.Close()
	var streams []*engine.Stream
	for _, question := range []string{"What is 76 - 27?", "What is 5 + 6?", "What is 9 + 9?"} {
		s, err := e.Submit(engine.Request{MaxTokens: 50,
			Prompt: promptOf(e, chat.Message{Role: "user", Content: question})})
		if err != nil {
			log.Fatal(err)
		}
		streams = append(streams, s)
	}
	for _, s := range streams {
		text, _ := wait(s, nil)
		fmt.Println(text)
	}
	// Output:
	// 76 - 27 = 49.
	// 5 + 6 = 11.
	// 9 + 9 = 18.
}

// Several requests with one long prefix: it is computed once, and its pages are shared.
func Example_sharedPrefix() {
	e := demoModel(engine.Options{})
	defer e.Close()
	system := chat.Message{Role: "system", Content: strings.Repeat("Answer briefly. ", 100)}
	for _, question := range []string{"What is 76 - 27?", "What is 5 + 6?"} {
		s, err := e.Submit(engine.Request{MaxTokens: 50,
			Prompt: promptOf(e, system, chat.Message{Role: "user", Content: question})})
		_, done := wait(s, err)
		fmt.Println(done.Usage.CachedTokens > 300)
	}
	// Output:
	// false
	// true
}

// A function that changes the logits, here so that no token with a digit is chosen.
func Example_logitsProcessor() {
	e := demoModel(engine.Options{})
	defer e.Close()
	digits := e.Containing(strings.Split("0123456789", ""))
	ban := func(_ []int32, logits []float32) {
		for token := range logits {
			if token/64 < len(digits) && digits[token/64]>>(token%64)&1 == 1 {
				logits[token] = float32(math.Inf(-1))
			}
		}
	}
	s, err := e.Submit(engine.Request{MaxTokens: 8,
		Prompt:   promptOf(e, chat.Message{Role: "user", Content: "What is 76 - 27?"}),
		Sampling: sample.Params{Custom: sample.Custom{Process: ban}}})
	text, _ := wait(s, err)
	fmt.Println(strings.ContainsAny(text, "0123456789"))
	// Output: false
}

// A sampler of one's own, here the most likely token.
func Example_sampler() {
	e := demoModel(engine.Options{})
	defer e.Close()
	likeliest := func(_ []int32, logits []float32) (best int32) {
		for token, x := range logits {
			if x > logits[best] {
				best = int32(token)
			}
		}
		return best
	}
	s, err := e.Submit(engine.Request{MaxTokens: 50,
		Prompt:   promptOf(e, chat.Message{Role: "user", Content: "What is 76 - 27?"}),
		Sampling: sample.Params{Custom: sample.Custom{Choose: likeliest}}})
	text, _ := wait(s, err)
	fmt.Println(text)
	// Output: 76 - 27 = 49.
}

// The vector of a text, by an embedding model. Vectors have length 1.
func Example_embedding() {
	dir := filepath.Join("testdata", "vectors", "modernbert")
	e, err := engine.Open(context.Background(), engine.Source{Dir: dir}, engine.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer e.Close()
	s, err := e.Submit(engine.Request{Embed: true,
		Prompt: e.Tokenizer().Encode("a text", tokenizer.EncodeOptions{AddSpecial: true})})
	for err == nil {
		var event engine.Event
		if event, err = s.Next(context.Background()); event.Type == engine.Embedded {
			var sum float64
			for _, x := range event.Vector {
				sum += float64(x) * float64(x)
			}
			fmt.Printf("%d numbers, of length %.3f\n", len(event.Vector), math.Sqrt(sum))
		}
	}
	// Output: 32 numbers, of length 1.000
}

// Two engines in one process share nothing.
func Example_twoEngines() {
	one, two := demoModel(engine.Options{}), demoModel(engine.Options{KVFormat: "f16"})
	defer two.Close()
	request := engine.Request{MaxTokens: 50,
		Prompt: promptOf(one, chat.Message{Role: "user", Content: "What is 5 + 6?"})}
	first, _ := wait(one.Submit(request))
	one.Close()
	second, _ := wait(two.Submit(request))
	fmt.Println(first == second)
	// Output: true
}
