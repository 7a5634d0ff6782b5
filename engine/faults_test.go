package engine_test

// Faults in the model's files and faults inside a pass must be reported clearly. They must end only
// the requests that they affect.

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"headroom/app/demo"
	"headroom/engine"
	"headroom/engine/batch"
	"headroom/engine/cache"
	"headroom/engine/models"
	"headroom/engine/ops"
	"headroom/engine/problem"
	"headroom/engine/safetensors"
	"headroom/kernels"
)

// copyDemo writes the demo model into a temporary folder.
func copyDemo(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"config.json", "generation_config.json", "tokenizer.json",
		"tokenizer_config.json", "chat_template.jinja", "model.safetensors"} {
		data, err := fs.ReadFile(demo.Files, "model/"+name)
		if err != nil {
			t.Fatal(err)
		}
		write(t, dir, name, data)
	}
	return dir
}

func write(t testing.TB, dir, name string, data []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t testing.TB, dir, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestBadFolders checks that each kind of damage gives the right error code, and a message that
// names the file.
func TestBadFolders(t *testing.T) {
	replace := func(name, old, new string) func(testing.TB, string) {
		return func(t testing.TB, dir string) {
			data := read(t, dir, name)
			if !bytes.Contains(data, []byte(old)) {
				t.Fatalf("%s does not contain %q", name, old)
			}
			write(t, dir, name, bytes.Replace(data, []byte(old), []byte(new), 1))
		}
	}
	put := func(name, text string) func(testing.TB, string) {
		return func(t testing.TB, dir string) { write(t, dir, name, []byte(text)) }
	}
	remove := func(name string) func(testing.TB, string) {
		return func(t testing.TB, dir string) {
			if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, c := range []struct {
		name   string
		damage func(testing.TB, string)
		code   problem.Code
		says   string
	}{
		{"no folder", remove("."), problem.ModelNotFound, "does not exist"},
		{"no config", remove("config.json"), problem.ModelNotFound, "config.json"},
		{"config is not JSON", put("config.json", "{"), problem.ModelBroken, "config.json"},
		{"config is an array", put("config.json", "[]"), problem.ModelBroken, "config.json"},
		{"unknown architecture", put("config.json", `{"model_type": "perceptron"}`),
			problem.UnknownArchitecture, "`headroom models --help` lists"},
		{"config with another hidden size",
			replace("config.json", `"hidden_size": 256`, `"hidden_size": 512`), problem.ModelBroken,
			"embed_tokens"},
		{"absurd size", replace("config.json", `"num_hidden_layers": 12`,
			`"num_hidden_layers": 1000000000000`), problem.ModelBroken, "num_hidden_layers"},
		{"head dimension without a kernel", oddHeads, problem.UnknownArchitecture,
			"multiple of 16"},
		{"no weights", remove("model.safetensors"), problem.ModelBroken, "model*.safetensors"},
		{"truncated weights", truncate, problem.ModelBroken, "model.safetensors"},
		{"weights without a header", put("model.safetensors", "x"), problem.ModelBroken,
			"model.safetensors"},
		{"header longer than the file", lyingLength, problem.ModelBroken, "model.safetensors"},
		{"header with a wrong shape",
			replace("model.safetensors", `"shape":[256]`, `"shape":[257]`), problem.ModelBroken,
			"model.safetensors"},
		{"tensor under another name",
			replace("model.safetensors", `"language_model.model.norm.weight"`,
				`"language_model.model.morn.weight"`), problem.ModelBroken,
			"language_model.model.norm.weight"},
		{"packed norm", packedNorm, problem.ModelBroken, "language_model.model.norm.weight"},
		{"missing shard", put("model.safetensors.index.json",
			`{"weight_map": {"lm_head.weight": "model-00002-of-00002.safetensors"}}`),
			problem.ModelBroken, "model-00002-of-00002.safetensors"},
		{"index is not JSON", put("model.safetensors.index.json", `{`), problem.ModelBroken,
			"model.safetensors.index.json"},
		{"no tokenizer", remove("tokenizer.json"), problem.ModelBroken, "tokenizer.json"},
		{"broken tokenizer", put("tokenizer.json", `{"model": 1}`), problem.ModelBroken,
			"tokenizer.json"},
		{"broken template", put("chat_template.jinja", "{% if %}"), problem.ModelBroken,
			"chat_template.jinja"},
		{"broken generation config", put("generation_config.json", `{"temperature": "warm"}`),
			problem.ModelBroken, "generation_config.json"},
		{"foreign quantization", replace("config.json", `"mode": "affine"`, `"mode": "nvfp6"`),
			problem.UnknownArchitecture, `"nvfp6"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := copyDemo(t)
			c.damage(t, dir)
			e, err := engine.Open(context.Background(), engine.Source{Dir: dir},
				engine.Options{AvailableBytes: 1 << 30})
			if err == nil {
				e.Close()
				t.Fatal("the model opened, expected an error")
			}
			if p := problem.From(err); p.Code != c.code || !strings.Contains(p.Error(), c.says) {
				t.Errorf("got %s: %v, expected %s saying %q", p.Code, err, c.code, c.says)
			}
		})
	}
}

func truncate(t testing.TB, dir string) {
	data := read(t, dir, "model.safetensors")
	write(t, dir, "model.safetensors", data[:len(data)-1])
}

func lyingLength(t testing.TB, dir string) {
	data := read(t, dir, "model.safetensors")
	binary.LittleEndian.PutUint64(data, 1<<40)
	write(t, dir, "model.safetensors", data)
}

// edit rewrites the weights, tensor by tensor.
func edit(t testing.TB, dir string, change func(*safetensors.Tensor)) {
	t.Helper()
	c, err := safetensors.OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var all []safetensors.Tensor
	for _, name := range c.Names() {
		tensor, _ := c.Tensor(name)
		change(&tensor)
		all = append(all, tensor)
	}
	var out bytes.Buffer
	if err := safetensors.Write(&out, all, nil); err != nil {
		t.Fatal(err)
	}
	// The file is replaced, not overwritten, because its old content is still mapped.
	if err := os.Remove(filepath.Join(dir, "model.safetensors")); err != nil {
		t.Fatal(err)
	}
	write(t, dir, "model.safetensors", out.Bytes())
}

// packedNorm gives a norm the type of packed weights, with the same number of elements.
func packedNorm(t testing.TB, dir string) {
	edit(t, dir, func(x *safetensors.Tensor) {
		if x.Name == "language_model.model.norm.weight" {
			x.DType, x.Data = safetensors.U32, make([]byte, 4*x.Elements())
		}
	})
}

// oddHeads writes a small model whose heads have 20 dimensions, which no kernel supports.
func oddHeads(t testing.TB, dir string) {
	write(t, dir, "config.json", []byte(`{"model_type": "qwen3", "vocab_size": 8, "hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1,
		"num_attention_heads": 1, "num_key_value_heads": 1, "head_dim": 20, "max_position_embeddings": 64, "tie_word_embeddings": true}`))
	var all []safetensors.Tensor
	for name, shape := range map[string][]int{
		"embed_tokens": {8, 8}, "norm": {8}, "layers.0.input_layernorm": {8},
		"layers.0.post_attention_layernorm": {8},
		"layers.0.self_attn.q_proj":         {20, 8}, "layers.0.self_attn.k_proj": {20, 8},
		"layers.0.self_attn.v_proj": {20, 8}, "layers.0.self_attn.o_proj": {8, 20},
		"layers.0.self_attn.q_norm": {20}, "layers.0.self_attn.k_norm": {20},
		"layers.0.mlp.gate_proj": {8, 8}, "layers.0.mlp.up_proj": {8, 8},
		"layers.0.mlp.down_proj": {8, 8},
	} {
		x := safetensors.Tensor{Name: "model." + name + ".weight", DType: safetensors.F32,
			Shape: shape}
		x.Data = make([]byte, 4*x.Elements())
		all = append(all, x)
	}
	var out bytes.Buffer
	if err := safetensors.Write(&out, all, nil); err != nil {
		t.Fatal(err)
	}
	write(t, dir, "model.safetensors", out.Bytes())
}

// TestMemoryRefused checks that a failed allocation is a Problem, not a panic.
func TestMemoryRefused(t *testing.T) {
	_, err := engine.Open(context.Background(), demoSource(t),
		engine.Options{AvailableBytes: 1 << 62, MaxSequences: 1 << 27})
	if p := problem.From(err); err == nil || p.Code != problem.DoesNotFit {
		t.Errorf("got %v, expected %s", err, problem.DoesNotFit)
	}
}

func openDir(t testing.TB, dir string, o engine.Options) *engine.Engine {
	t.Helper()
	e, err := engine.Open(context.Background(), engine.Source{Dir: dir}, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// TestFilesDeletedWhileRunning checks that deleting the files does not change the answer, because
// the engine has mapped them.
func TestFilesDeletedWhileRunning(t *testing.T) {
	dir := copyDemo(t)
	e := openDir(t, dir, engine.Options{})
	want, _, _ := collect(t,
		submit(t, e, engine.Request{Prompt: encode(e, question), MaxTokens: 60, IgnoreEOS: true}))
	s := submit(t, e, engine.Request{Prompt: encode(e, question), MaxTokens: 60, IgnoreEOS: true})
	if _, err := s.Next(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if got, _, done := collect(t, s); done.Finish != engine.FinishLength ||
		!slices.Equal(got, want[len(want)-len(got):]) || len(got) < len(want)-1 {
		t.Errorf("files deleted: %v (%s, %v), before: %v", got, done.Finish, done.Err, want)
	}
}

// TestNaNStaysWithItsRequest checks that weights whose products are not finite end only the
// requests that use them. Other requests in the batch, and later ones in the same pages and slots,
// are unaffected. Weights that are themselves not finite are refused when they are loaded.
func TestNaNStaysWithItsRequest(t *testing.T) {
	const poison, bfloat16Max = 77, 0x7f7f // a token, and the scale of its embedding
	dir := copyDemo(t)
	edit(t, dir, func(x *safetensors.Tensor) {
		if x.Name == "language_model.model.embed_tokens.scales" {
			x.Data = slices.Clone(x.Data)
			row := len(x.Data) / x.Shape[0]
			for i := poison * row; i < (poison+1)*row; i += 2 {
				binary.LittleEndian.PutUint16(x.Data[i:], bfloat16Max)
			}
		}
	})
	e := openDir(t, dir, engine.Options{MaxSequences: 3, ContextTokens: 128, ChunkTokens: 48})
	good := func() engine.Request {
		return engine.Request{Prompt: encode(e, question),
			MaxTokens: 12}
	}
	bad := engine.Request{Prompt: append(encode(e, question), poison, 5, 6), MaxTokens: 12}
	want, _, done := collect(t, submit(t, e, good()))
	if done.Finish != engine.FinishStop {
		t.Fatalf("the good request ended with %s (%v), expected stop", done.Finish, done.Err)
	}
	for round := range 4 {
		before, broken, after := submit(t, e, good()), submit(t, e, bad), submit(t, e, good())
		if _, _, done := collect(t, broken); done.Finish != engine.FinishError ||
			problem.From(done.Err).Code != problem.Internal ||
			!strings.Contains(done.Err.Error(), "damaged") {
			t.Errorf("round %d: request with a NaN: %s, %v; expected an error about damaged files",
				round, done.Finish, done.Err)
		}
		for _, s := range []*engine.Stream{before, after} {
			if got, _, done := collect(t, s); !slices.Equal(got, want) {
				t.Errorf("round %d: in a batch with a NaN: %v (%s, %v), alone %v", round, got,
					done.Finish, done.Err, want)
			}
		}
	}
	idle(t, e)
}

// hooked is a model that calls after at the end of each pass, with the tokens of the pass.
type hooked struct {
	models.Model
	after func(tokens []int32)
}

func (m hooked) Forward(c *ops.Context, b *batch.Batch, layers []cache.Layer) kernels.Tensor {
	out := m.Model.Forward(c, b, layers)
	if b.Tokens.Buffer.Bytes != nil { // nil if the pass is only measured
		m.after(b.Tokens.Int32s())
	}
	return out
}

// TestPanicEndsItsStepOnly checks that a panic in a step ends the requests of that step with a
// Problem. Other requests and the engine continue, even after many panics.
func TestPanicEndsItsStepOnly(t *testing.T) {
	const trigger = 99
	// The arena has room for the activations of 33 rows.
	e := open(t, engine.Options{NoPrefixCache: true, MaxSequences: 1, ContextTokens: 128,
		ChunkTokens: 32})
	want, _, _ := collect(t, submit(t, e, engine.Request{Prompt: encode(e, question)}))
	e.ReplaceModel(func(m models.Model) models.Model {
		return hooked{m, func(tokens []int32) {
			if slices.Contains(tokens, trigger) {
				panic("a fault in a kernel")
			}
		}}
	})
	for range 8 { // if a panic leaked activations, the arena would be full by the last round
		broken := submit(t, e, engine.Request{Prompt: append(encode(e, question), trigger)})
		waiting := submit(t, e, engine.Request{Prompt: encode(e, question)})
		if _, _, done := collect(t, broken); done.Finish != engine.FinishError ||
			problem.From(done.Err).Code != problem.Internal ||
			!strings.Contains(done.Err.Error(), "a fault in a kernel") {
			t.Errorf("with a panic: %s, %v; expected an error with its text", done.Finish, done.Err)
		}
		if got, _, done := collect(t, waiting); !slices.Equal(got, want) {
			t.Errorf("after a panic: %v (%s, %v), expected %v", got, done.Finish, done.Err, want)
		}
	}
	idle(t, e)
}

// TestCancelByIDDuringTheFirstPass checks that Cancel finds a request during its first pass, but
// no longer after its end.
func TestCancelByIDDuringTheFirstPass(t *testing.T) {
	e := open(t, engine.Options{NoPrefixCache: true, ContextTokens: 128})
	e.ReplaceModel(func(m models.Model) models.Model {
		return hooked{m, func([]int32) {
			if !e.Cancel("early") {
				t.Error("Cancel did not find the request during its first pass")
			}
		}}
	})
	if tokens, _, done := collect(t,
		submit(t, e, engine.Request{ID: "early", Prompt: encode(e, question),
			IgnoreEOS: true})); done.Finish != engine.FinishCancelled || len(tokens) > 1 {
		t.Errorf("%d tokens (%s), expected at most one (cancelled)", len(tokens), done.Finish)
	}
	if e.Cancel("early") {
		t.Error("Cancel found the request after its end")
	}
}

// TestStatsAreUpToDate checks that Stats shows a request during its first pass, and no longer shows
// it once its Done event has been read.
func TestStatsAreUpToDate(t *testing.T) {
	e := open(t, engine.Options{NoPrefixCache: true, ContextTokens: 128})
	e.ReplaceModel(func(m models.Model) models.Model {
		return hooked{m, func([]int32) {
			if s := e.Stats(); s.Running != 1 || len(s.Requests) != 1 || s.KVUsedBytes == 0 {
				t.Errorf("during a pass: %+v, expected one running request and used pages", s)
			}
		}}
	})
	for range 20 {
		collect(t, submit(t, e, engine.Request{Prompt: encode(e, question), MaxTokens: 2}))
		idle(t, e)
	}
}

// TestQueueIsBounded fills the queue while one request runs. The next request must be refused with
// an error that tells the number of waiting requests and the limit.
func TestQueueIsBounded(t *testing.T) {
	e := open(t, engine.Options{NoPrefixCache: true, ContextTokens: 128, MaxSequences: 1,
		QueueRequests: 2})
	prompt := encode(e, question)
	var waiting []*engine.Stream
	var once sync.Once
	e.ReplaceModel(func(m models.Model) models.Model {
		return hooked{m, func([]int32) {
			once.Do(func() { // in the first pass
				for range 2 {
					waiting = append(waiting,
						submit(t, e, engine.Request{Prompt: prompt, MaxTokens: 1}))
				}
				_, err := e.Submit(engine.Request{Prompt: prompt})
				if p := problem.From(err); err == nil || p.Code != problem.Busy ||
					!strings.Contains(p.Why, "2 are waiting, the limit is 2") {
					t.Errorf("the third in the queue: %v, expected %s with both numbers", err,
						problem.Busy)
				}
			})
		}}
	})
	collect(t, submit(t, e, engine.Request{Prompt: prompt, MaxTokens: 1}))
	for _, s := range waiting {
		if tokens, _, done := collect(t, s); len(tokens) != 1 {
			t.Errorf("a request that waited: %d tokens (%s, %v), expected 1",
				len(tokens), done.Finish, done.Err)
		}
	}
}

// TestLoadingCanBeStopped stops loading while the weights are read.
func TestLoadingCanBeStopped(t *testing.T) {
	dir := copyDemo(t)
	ctx, cancel := context.WithCancel(context.Background())
	o := engine.Options{Progress: func(float64) { cancel() }}
	e, err := engine.Open(ctx, engine.Source{Dir: dir}, o)
	if err == nil {
		e.Close()
	}
	if !errors.Is(err, context.Canceled) || problem.From(err).Code != problem.Cancelled {
		t.Errorf("got %v, expected %s for %v", err, problem.Cancelled, context.Canceled)
	}
}

// TestLoadingCanBeStoppedLater stops loading after the weights have been read, while they are
// copied or transposed. The progress then repeats the value of the end of reading.
func TestLoadingCanBeStoppedLater(t *testing.T) {
	dir := copyDemo(t)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	last := -1.0
	o := engine.Options{Progress: func(done float64) {
		if done == last {
			cancel()
		}
		last = done
	}}
	e, err := engine.Open(ctx, engine.Source{Dir: dir}, o)
	if err == nil {
		e.Close()
	}
	if !errors.Is(err, context.Canceled) || problem.From(err).Code != problem.Cancelled {
		t.Errorf("got %v, expected %s for %v", err, problem.Cancelled, context.Canceled)
	}
}

// TestCrowd submits and reads requests from many goroutines at once. Some are cancelled by stream
// or by ID. Then it does the same while the engine is closed.
func TestCrowd(t *testing.T) {
	e := open(t, withPages(t, engine.Options{MaxSequences: 3, ContextTokens: 64, ChunkTokens: 32},
		2))
	prompt := encode(e, question)
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	var crowd sync.WaitGroup
	live := func(seed uint64, closing bool) {
		defer crowd.Done()
		r := rand.New(rand.NewPCG(seed, 1))
		for range 6 {
			s, err := e.Submit(engine.Request{Prompt: prompt[:1+r.IntN(len(prompt))],
				MaxTokens: 1 + r.IntN(40), IgnoreEOS: true, Priority: r.IntN(3)})
			if err != nil {
				if code := problem.From(err).Code; !closing || code != problem.NotRunning {
					t.Errorf("submit: %v", err)
				}
				return
			}
			how := r.IntN(4)
			if how == 1 {
				e.Cancel(s.ID())
			}
			for i := 0; ; i++ {
				if how == 2 && i == 1 {
					s.Cancel()
				}
				ev, err := s.Next(ctx)
				if err != nil {
					t.Errorf("next: %v", err)
					return
				}
				e.Stats()
				if ev.Type == engine.Done {
					if ev.Finish == engine.FinishError {
						t.Errorf("finish: %v", ev.Err)
					}
					break
				}
			}
		}
	}
	for i := range uint64(6) {
		crowd.Add(1)
		go live(i, false)
	}
	crowd.Wait()
	idle(t, e)
	// The number depends on timing. TestBatchedEqualsAlone requires at least one.
	t.Logf("%d preemptions", e.Stats().Preemptions)
	for i := range uint64(6) {
		crowd.Add(1)
		go live(10+i, true)
	}
	for range 2 { // two concurrent calls
		crowd.Add(1)
		go func() {
			defer crowd.Done()
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		}()
	}
	crowd.Wait()
}

// TestDescribeBrokenTemplate checks that a model which cannot start because of its chat template is
// not described as if it had none.
func TestDescribeBrokenTemplate(t *testing.T) {
	for name, text := range map[string]string{
		"tokenizer_config.json": "{",
		"chat_template.jinja":   "version https://git-lfs.github.com/spec/v1\n",
	} {
		dir := copyDemo(t)
		write(t, dir, name, []byte(text))
		_, err := engine.Describe(engine.Source{Dir: dir}, engine.Options{})
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
