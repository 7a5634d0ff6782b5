package engine_test

// These tests cover known faults of other block caches for MLX, from their issue trackers and code:
// keys of tokens that were never computed, blocks that each hold the whole cache, states from the
// wrong position, mixed formats, and caching of system prompts only.

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"headroom/engine"
)

// finished holds everything that a client received from an ended request.
type finished struct {
	tokens   []int32
	logprobs []float32
	done     engine.Event
}

// run submits a request and reads its stream to the end. It cancels the request after cancelAfter
// tokens; 0: never.
func run(t *testing.T, e *engine.Engine, r engine.Request, cancelAfter int) (f finished) {
	t.Helper()
	s := submit(t, e, r)
	for ev, err := s.Next(context.Background()); err == nil; ev,
		err = s.Next(context.Background()) {
		switch ev.Type {
		case engine.Token:
			f.tokens, f.logprobs = append(f.tokens, ev.Token), append(f.logprobs, ev.Logprob)
			if len(f.tokens) == cancelAfter {
				s.Cancel()
			}
		case engine.Done:
			f.done = ev
		}
	}
	return f
}

// TestEndsAreStoredAsComputed ends an answer in every possible way. The next turn must resume after
// exactly the computed tokens, both in memory and after a restart. It must have the same bits as
// without a cache.
func TestEndsAreStoredAsComputed(t *testing.T) {
	head := system("Answer briefly. ", 100)
	for _, c := range []struct {
		name    string
		request engine.Request
		cancel  int
		finish  engine.FinishReason
	}{
		{"stop token", engine.Request{}, 0, engine.FinishStop},
		{"stop text", engine.Request{Stop: []string{"a"}}, 0, engine.FinishStop},
		{"length", engine.Request{MaxTokens: 7, IgnoreEOS: true}, 0, engine.FinishLength},
		{"one token", engine.Request{MaxTokens: 1}, 0, engine.FinishLength},
		{"past the end token", engine.Request{MaxTokens: 60, IgnoreEOS: true}, 0,
			engine.FinishLength},
		{"cancelled", engine.Request{IgnoreEOS: true}, 5, engine.FinishCancelled},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			o := engine.Options{BlockStore: openStore(t, dir)}
			e := open(t, o)
			c.request.Prompt = encode(e,
				head+
					"<|im_start|>user\nWhat is a KV "+
					"cache?<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n")
			first := run(t, e, c.request, c.cancel)
			if first.done.Finish != c.finish {
				t.Fatalf("finish %q, expected %q", first.done.Finish, c.finish)
			}
			// The last token was sampled, but did not go through the model.
			computed := len(c.request.Prompt) + len(first.tokens) - 1
			next := engine.Request{MaxTokens: 20, IgnoreEOS: true,
				Prompt: slices.Concat(c.request.Prompt, first.tokens,
					encode(e,
						"<|im_end|>\n<|im_start|>user\nGo on.<|im_end|>\n<|im_start|>assistant\n"))}
			inMemory := run(t, e, next, 0)
			if got := inMemory.done.Usage.CachedTokens; got != computed {
				t.Errorf("%d tokens were cached in memory, expected the %d computed ones", got,
					computed)
			}
			e.Close()
			o.BlockStore.Close()

			o.BlockStore = openStore(t, dir)
			e = open(t, o)
			fromDisk := run(t, e, next, 0)
			if got := fromDisk.done.Usage; got.StoredTokens < computed ||
				got.StoredTokens != got.CachedTokens {
				t.Errorf("%d of %d cached tokens were read from disk, expected all and at least %d",
					got.StoredTokens, got.CachedTokens, computed)
			}
			cold := run(t, open(t, engine.Options{NoPrefixCache: true}), next, 0)
			if !slices.Equal(inMemory.logprobs, cold.logprobs) ||
				!slices.Equal(fromDisk.logprobs, cold.logprobs) {
				t.Errorf("log-probabilities equal a cold start's: from memory %t, from disk %t; "+
					"expected true for both",
					slices.Equal(inMemory.logprobs, cold.logprobs),
					slices.Equal(fromDisk.logprobs, cold.logprobs))
			}
		})
	}
}

// TestBlocksHoldTheirTokens checks the sizes of the files. Each file must hold the keys and values
// of one block, or one state, however long the prompt is.
func TestBlocksHoldTheirTokens(t *testing.T) {
	dir := t.TempDir()
	o := engine.Options{BlockStore: openStore(t, dir)}
	e := open(t, o)
	run(t, e, engine.Request{Prompt: encode(e, system("Answer briefly. ", 1500)), MaxTokens: 2}, 0)
	info := e.Info()
	e.Close()
	o.BlockStore.Close()
	const overhead = 8 << 10 // header, tokens, checksum
	block, state := 256*info.KVBytesPerToken, info.StateBytesPerSeq
	files, err := filepath.Glob(filepath.Join(dir, "blocks", "*", "*.safetensors"))
	if err != nil || len(files) < 15 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	blocks := 0
	for _, name := range files {
		f, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		switch n := f.Size(); {
		case n >= block && n < block+overhead:
			blocks++
		case n >= state && n < state+overhead || n < block: // a state, or the tail
		default:
			t.Errorf("%s has %d bytes, expected about %d for a block or %d for a state",
				filepath.Base(name), n, block, state)
		}
	}
	if want := e.Stats().PromptTokens / 256; int64(blocks) != want {
		t.Errorf("%d blocks were written, expected %d", blocks, want)
	}
}

// TestFormatsDoNotMix checks that an engine with another cache format, or with float32 activations,
// uses none of the stored blocks and gives the answer of a cold start.
func TestFormatsDoNotMix(t *testing.T) {
	dir := t.TempDir()
	prompt := system("Answer briefly. ", 100) +
		"<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n"
	for i, o := range []engine.Options{{}, {KVFormat: "q8_0"}, {KVBits: "(8, 3)"},
		{KVBoundaryLayers: 1}, {StateFormat: "bf16"}, {Float32Activations: true},
		{KVStartTokens: 512}, {}} {
		cold := o
		cold.NoPrefixCache = true
		c := open(t, cold)
		want := run(t, c, engine.Request{Prompt: encode(c, prompt), MaxTokens: 8}, 0)
		c.Close()
		o.BlockStore = openStore(t, dir)
		e := open(t, o)
		got := run(t, e, engine.Request{Prompt: encode(e, prompt), MaxTokens: 8}, 0)
		e.Close()
		o.BlockStore.Close()
		if !slices.Equal(got.logprobs, want.logprobs) {
			t.Errorf("engine %d: the log-probabilities differ from those of a cold start", i)
		}
		if stored := got.done.Usage.StoredTokens; (stored > 0) != (i == 7) {
			// Only the last engine has the format of an earlier one, the first.
			t.Errorf("engine %d: %d tokens were read from disk, expected some only in engine 7", i,
				stored)
		}
	}
}
