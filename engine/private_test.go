package engine_test

import (
	"bytes"
	"encoding/binary"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"headroom/engine"
)

// privateModels are a recurrent model, one with sliding windows, and one whose full attention is in
// rings.
func privateModels(t *testing.T) map[string]func(engine.Options) *engine.Engine {
	gemma := func(o engine.Options) *engine.Engine {
		return openModel(t, tinySource(t, "gemma3_text"), o)
	}
	return map[string]func(engine.Options) *engine.Engine{
		"recurrent": func(o engine.Options) *engine.Engine { return open(t, o) },
		"start pages": func(o engine.Options) *engine.Engine {
			o.KVStartTokens = 256
			return open(t, o)
		},
		"windows": gemma,
		"float16": func(o engine.Options) *engine.Engine {
			o.KVFormat = "f16"
			return gemma(o)
		},
		"rings": func(o engine.Options) *engine.Engine {
			o.MaxKVTokens = 300
			return gemma(o)
		},
	}
}

func privateOptions(t *testing.T, dir string) engine.Options {
	return engine.Options{MaxSequences: 2, ChunkTokens: 64, KeptStates: 6, ContextTokens: 1024,
		BlockStore: openStore(t, dir), History: engine.NewHistory()}
}

// entryFiles returns the content of the store's files by name, without the JSON header, which has
// the time.
func entryFiles(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".safetensors") {
			return err
		}
		data, err := os.ReadFile(path)
		const checksum = 4
		header := 8 + int(binary.LittleEndian.Uint64(data))
		files[filepath.Base(path)] = data[header : len(data)-checksum]
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// littleEndian returns the bytes of tokens as files have them.
func littleEndian(tokens []int32) []byte {
	b, _ := binary.Append(nil, binary.LittleEndian, tokens)
	return b
}

// TestPrivateRequestsLeaveNothingOnDisk ends private requests in several ways, while the model runs
// and when it closes. No file may have any of their tokens, and a restart knows nothing of them.
func TestPrivateRequestsLeaveNothingOnDisk(t *testing.T) {
	for name, start := range privateModels(t) {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			o := privateOptions(t, dir)
			e := start(o)
			prompt := someIDs(7, 400)
			r := engine.Request{Prompt: prompt, MaxTokens: 20, IgnoreEOS: true, Private: true,
				Client: "curl", Key: "ci"}
			first := run(t, e, r, 0)
			r.Prompt = slices.Concat(prompt, first.tokens, someIDs(8, 50))
			second := run(t, e, r, 0)
			if second.done.Usage.CachedTokens < len(prompt) {
				t.Errorf("%d tokens were cached in memory, expected the first turn's",
					second.done.Usage.CachedTokens)
			}
			r.Private, r.Uncached = false, true // which implies Private
			if third := run(t, e, r, 0); third.done.Usage.CachedTokens != 0 ||
				!slices.Equal(third.tokens, second.tokens) {
				t.Errorf("an uncached request resumed %d tokens; tokens %v, expected %v",
					third.done.Usage.CachedTokens, third.tokens, second.tokens)
			}
			r.Private, r.Uncached = true, false
			r.Prompt, r.MaxTokens = someIDs(9, 300), 100
			run(t, e, r, 3) // cancelled
			for _, p := range e.CachedPrefixes() {
				if !p.Private {
					t.Errorf("a prefix of %d tokens is not listed as private", len(p.Tokens))
				}
			}
			for _, f := range e.Recent() {
				if !f.Private || f.Report.Before+f.Report.Was+f.Report.Is != "" ||
					f.Title+f.Client+f.Key != "" || f.BlockWrites != 0 {
					t.Errorf("finished: %+v, expected a private one without texts", f)
				}
			}
			if n, _ := o.History.Len(); n != 0 {
				t.Errorf("the history has %d sequences, expected none", n)
			}
			r.NoCache = true
			r.Prompt = someIDs(10, 300)
			run(t, e, r, 0)
			if again := run(t, e, r, 0); again.done.Usage.CachedTokens != 0 {
				t.Errorf("without a cache, %d tokens were cached", again.done.Usage.CachedTokens)
			}
			if err := e.CheckMemory(); err != nil {
				t.Error(err)
			}
			if err := e.Close(); err != nil { // writes the ends of conversations
				t.Fatal(err)
			}
			s := o.BlockStore.Stats()
			if s.Entries != 0 || s.Misses != 0 || s.WrittenBytes != 0 {
				t.Errorf("the store has %+v, expected nothing", s)
			}
			o.BlockStore.Close()
			some := littleEndian(prompt[100:104])
			err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
				if err != nil || d.IsDir() {
					return err
				}
				data, err := os.ReadFile(path)
				if bytes.Contains(data, some) {
					t.Errorf("%s has tokens of the prompt", path)
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			e = start(privateOptions(t, dir))
			if got := run(t, e, engine.Request{Prompt: prompt, MaxTokens: 1}, 0); got.done.Usage.
				CachedTokens != 0 {
				t.Errorf("after a restart, %d tokens are cached", got.done.Usage.CachedTokens)
			}
		})
	}
}

// TestStoredFilesHoldNothingOfOthers stores a conversation whose pages, slots and rings were used
// by private requests before, during and after it. Its files must have the same bits as if there
// had been no private requests: also where the conversation ends inside a page.
func TestStoredFilesHoldNothingOfOthers(t *testing.T) {
	for name, start := range privateModels(t) {
		t.Run(name, func(t *testing.T) {
			prompt := someIDs(1, 300)
			stored := func(private bool) map[string][]byte {
				dir := t.TempDir()
				o := privateOptions(t, dir)
				e := start(o)
				hide := func(prompt []int32) {
					if private {
						run(t, e, engine.Request{Prompt: prompt, MaxTokens: 30, IgnoreEOS: true,
							Private: true}, 0)
					}
				}
				hide(someIDs(2, 700)) // leaves its bytes in pages that are used again
				if private {
					e.ForgetAll()
				}
				hide(slices.Concat(prompt, someIDs(3, 70))) // computes the prefix of the prompt
				r := engine.Request{Prompt: prompt, MaxTokens: 5, IgnoreEOS: true}
				got := run(t, e, r, 0)
				hide(slices.Concat(prompt, got.tokens, someIDs(4, 70))) // continues its last page
				if err := e.Close(); err != nil {
					t.Fatal(err)
				}
				o.BlockStore.Close()
				return entryFiles(t, dir)
			}
			want, got := stored(false), stored(true)
			if len(want) < 2 {
				t.Fatalf("%d files, expected a block and a tail", len(want))
			}
			for key, bits := range want {
				if other, ok := got[key]; !ok || !bytes.Equal(bits, other) {
					t.Errorf("file %s (of %d bytes) differs after private requests, or is missing",
						key, len(bits))
				}
			}
			for key, bits := range got {
				if _, ok := want[key]; !ok && bytes.Contains(bits, littleEndian(someIDs(3, 2))) {
					t.Errorf("file %s has tokens of a private request", key)
				}
			}
		})
	}
}
