package engine_test

import (
	"context"
	"encoding/json"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"headroom/engine"
	"headroom/engine/modelfile"
	"headroom/engine/tokenizer"
	"headroom/kernels/cpu"
)

// vectorModels has small models with random weights, and what sentence-transformers computes with
// them. build/oracle/embeddings makes them: make oracle-embeddings ARGS=--golden.
const vectorModels = "testdata/vectors"

// expectedVectors is the expected.json of such a model.
type expectedVectors struct {
	Query   string
	Texts   []string
	IDs     [][]int32
	Vectors [][]float64
	Scores  []float64
}

// eachVectorModel calls test for every model that computes vectors.
func eachVectorModel(t *testing.T, test func(t *testing.T, dir string, want expectedVectors)) {
	found := 0
	names, err := filepath.Glob(vectorModels + "/*/expected.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var want expectedVectors
		if err := json.Unmarshal(data, &want); err != nil {
			t.Fatal(err)
		}
		if want.Vectors == nil {
			continue
		}
		found++
		dir := filepath.Dir(name)
		t.Run(filepath.Base(dir), func(t *testing.T) { test(t, dir, want) })
	}
	if found < 6 {
		t.Errorf("%s has %d models, expected at least 6", vectorModels, found)
	}
}

// vectorOf reads a stream to its end and returns the vector.
func vectorOf(t *testing.T, s *engine.Stream) (vector []float32, done engine.Event) {
	t.Helper()
	for {
		e, err := s.Next(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		switch e.Type {
		case engine.Embedded:
			vector = e.Vector
		case engine.Done:
			return vector, e
		}
	}
}

// vectorTolerance returns how far a dimension of a vector may be from sentence-transformers'. On a
// matrix unit, products of split floats have errors of up to 2^-16 of their size
// (kernels/matmul/split.c), which layers of ModernBERT with random weights make larger.
func vectorTolerance() float64 {
	if cpu.Best() == cpu.AMX {
		return 3e-5
	}
	return 1e-5
}

// TestVectors checks tokens and vectors against those of sentence-transformers, with all texts at
// once.
func TestVectors(t *testing.T) {
	eachVectorModel(t, func(t *testing.T, dir string, want expectedVectors) {
		e := openDir(t, dir, engine.Options{})
		var streams []*engine.Stream
		for i, text := range want.Texts {
			ids := e.Tokenizer().Encode(text, tokenizer.EncodeOptions{AddSpecial: true})
			if !slices.Equal(ids, want.IDs[i]) {
				t.Errorf("text %d has the tokens %v, expected %v", i, ids, want.IDs[i])
			}
			streams = append(streams, submit(t, e, engine.Request{Prompt: want.IDs[i],
				Embed: true}))
		}
		for i, s := range streams {
			got, done := vectorOf(t, s)
			if len(got) != len(want.Vectors[i]) || len(got) != e.Info().Dimensions ||
				e.Info().Task != modelfile.Embed {
				t.Fatalf("text %d: %d dimensions of %d, task %q, expected %d; %v", i, len(got),
					e.Info().Dimensions, e.Info().Task, len(want.Vectors[i]), done.Err)
			}
			for k, x := range got {
				if math.Abs(float64(x)-want.Vectors[i][k]) > vectorTolerance() {
					t.Errorf("text %d: dimension %d is %g, expected %g", i, k, x,
						want.Vectors[i][k])
					break
				}
			}
			if done.Usage.PromptTokens != len(want.IDs[i]) || done.Usage.CompletionTokens != 0 {
				t.Errorf("text %d: %+v", i, done.Usage)
			}
		}
	})
}

// TestVectorBits checks that a vector has the same bits alone, beside others, in short chunks, and
// on a second try.
func TestVectorBits(t *testing.T) {
	eachVectorModel(t, func(t *testing.T, dir string, want expectedVectors) {
		alone := map[int][]float32{}
		for _, o := range []engine.Options{{MaxSequences: 1}, {}, {ChunkTokens: 7},
			{MaxSequences: 3}} {
			e := openDir(t, dir, o)
			for range 2 {
				var streams []*engine.Stream
				for i := range want.IDs {
					s := submit(t, e, engine.Request{Prompt: slices.Clone(want.IDs[i]),
						Embed: true})
					if o.MaxSequences != 1 {
						streams = append(streams, s)
						continue
					}
					v, _ := vectorOf(t, s)
					if before := alone[i]; before != nil && !slices.Equal(before, v) {
						t.Errorf("text %d: another vector on the second try", i)
					}
					alone[i] = v
				}
				for i, s := range streams {
					if v, _ := vectorOf(t, s); !slices.Equal(v, alone[i]) {
						t.Errorf("text %d with %+v: %v, alone %v", i, o, v, alone[i])
					}
				}
			}
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestVectorRequests checks what an embedding model and a language model refuse, and that a
// cancelled text ends.
func TestVectorRequests(t *testing.T) {
	e := openDir(t, vectorModels+"/modernbert", engine.Options{})
	for _, c := range []struct {
		request engine.Request
		want    string
	}{
		{engine.Request{Prompt: []int32{1, 5, 2}}, "is an embedding model and generates no text"},
		{engine.Request{Embed: true}, "The prompt is empty"},
		{engine.Request{Prompt: make([]int32, 513), Embed: true}, "context length is 512 tokens"},
		{engine.Request{Prompt: []int32{1, 1 << 20}, Embed: true}, "does not have"},
	} {
		if _, err := e.Submit(c.request); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, expected %q", err, c.want)
		}
	}
	s := submit(t, e, engine.Request{Prompt: make([]int32, 512), Embed: true})
	s.Cancel()
	if _, done := vectorOf(t, s); done.Err != nil {
		t.Error(done.Err)
	}
	if n := len(e.Recent()); n != 0 {
		t.Errorf("%d vectors among the recent requests", n)
	}
	other := open(t, engine.Options{})
	if _, err := other.Submit(engine.Request{Prompt: []int32{1}, Embed: true}); err == nil ||
		!strings.Contains(err.Error(), "generates text, not vectors") {
		t.Error(err)
	}
}

// TestMeanInChunks checks that the mean over a language model's hidden states has the same bits in
// chunks of any size, of several texts at once.
func TestMeanInChunks(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(vectorModels+"/qwen3")); err != nil {
		t.Fatal(err)
	}
	pooling := filepath.Join(dir, "1_Pooling", "config.json")
	if err := os.WriteFile(pooling, []byte(`{"pooling_mode": "mean"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	prompts := [][]int32{{5}, make([]int32, 40), {7, 8, 9, 10, 11, 12, 13, 14}}
	var whole [][]float32
	for _, chunk := range []int{512, 7, 3} {
		e := openDir(t, dir, engine.Options{ChunkTokens: chunk})
		var streams []*engine.Stream
		for _, p := range prompts {
			streams = append(streams, submit(t, e, engine.Request{Prompt: slices.Clone(p),
				Embed: true}))
		}
		for i, s := range streams {
			v, done := vectorOf(t, s)
			if chunk == 512 {
				whole = append(whole, v)
			}
			if len(v) != e.Info().Dimensions || !slices.Equal(v, whole[i]) {
				t.Errorf("text %d in chunks of %d: %v, whole %v; %v", i, chunk, v, whole[i],
					done.Err)
			}
		}
	}
}

// TestMetalVectors computes the vectors on the simulated Metal device, alone and with all texts at
// once. The bound is that of TestVectors.
func TestMetalVectors(t *testing.T) {
	const metalVectorError = 1e-5
	onMetalDevices(t, func(t *testing.T, device string) {
		eachVectorModel(t, func(t *testing.T, dir string, want expectedVectors) {
			e := openMetal(t, device, engine.Source{Dir: dir}, engine.Options{})
			largest := 0.0
			var streams []*engine.Stream
			for _, ids := range want.IDs {
				streams = append(streams, submit(t, e, engine.Request{Prompt: slices.Clone(ids),
					Embed: true}))
			}
			for i, s := range streams {
				got, done := vectorOf(t, s)
				alone, _ := vectorOf(t, submit(t, e, engine.Request{
					Prompt: slices.Clone(want.IDs[i]), Embed: true}))
				if done.Err != nil || !slices.Equal(got, alone) {
					t.Errorf("text %d: %v; %v, alone %v", i, done.Err, got, alone)
				}
				for k, x := range got {
					largest = max(largest, math.Abs(float64(x)-want.Vectors[i][k]))
				}
			}
			t.Logf("the largest difference is %.2g, with the kernels %v", largest,
				slices.Sorted(maps.Keys(e.MetalKernels())))
			if len(e.MetalKernels()) == 0 {
				t.Error("no kernel has run on the device")
			}
			if largest > metalVectorError && !compileOnly {
				t.Errorf("a dimension differs by %g", largest)
			}
		})
	})
}
