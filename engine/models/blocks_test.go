package models_test

// The blocks of families without a trained one here: random blocks, beside a reference that is
// wired with the layers of mlx-lm (build/oracle/models/blocks.py).

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"headroom/engine/cache"
	"headroom/engine/checkpoint"
	"headroom/engine/models"
	"headroom/engine/runner"
	"headroom/engine/safetensors"
	"headroom/kernels"
	"headroom/kernels/cpu"
)

// blockTypes are the architectures with a random block in testdata/mtp.
var blockTypes = []string{"deepseek_v3", "ernie4_5_moe", "glm4_moe", "glm4_moe_lite", "mimo",
	"nemotron_h"}

// readBlock returns the tiny model of a type, with its block among the tensors.
func readBlock(t *testing.T, name string) folder {
	t.Helper()
	tiny := name
	if name == "mimo" { // which has the model of another type
		tiny = "qwen2"
	}
	f := readTiny(t, tiny)
	f.config = strings.Replace(f.config, `"model_type": "`+tiny, `"model_type": "`+name, 1)
	c, err := safetensors.OpenDir(filepath.Join("testdata", "mtp", name))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, tensor := range c.Names() {
		x, _ := c.Tensor(tensor)
		x.Data = slices.Clone(x.Data)
		f.put(tensor, x)
	}
	return f
}

// blockTensors returns the names of the block's tensors in testdata/mtp.
func blockTensors(t *testing.T, name string) []string {
	t.Helper()
	c, err := safetensors.OpenDir(filepath.Join("testdata", "mtp", name))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return c.Names()
}

// withoutBlock returns f without its block, and a folder with the block alone. rename gives the
// names there.
func (f folder) withoutBlock(t *testing.T, name string,
	rename func(string) string) (model, block folder) {
	t.Helper()
	own := blockTensors(t, name)
	model = folder{config: f.config, tensors: map[string]safetensors.Tensor{}}
	block = folder{config: f.config, tensors: map[string]safetensors.Tensor{}}
	for tensor, x := range f.tensors {
		if slices.Contains(own, tensor) {
			block.put(rename(tensor), x)
		} else {
			model.put(tensor, x)
		}
	}
	return model, block
}

// referenceDrafts is what a reference drafts after a prompt.
type referenceDrafts struct {
	IDs   []int32
	Steps []struct {
		Token  int32
		Gap    float64
		Logits []float64 // every 16th
	}
}

// TestBlocksEqualReference: the drafts of every family's block, one after another, have the logits
// of the reference.
func TestBlocksEqualReference(t *testing.T) {
	const every = 16
	d := kernels.NewCPU(cpu.Options{Float32Activations: true})
	t.Cleanup(d.Close)
	for _, name := range blockTypes {
		var want []referenceDrafts
		data, err := os.ReadFile(filepath.Join("testdata", "mtp", name, "expected.json"))
		if err == nil {
			err = json.Unmarshal(data, &want)
		}
		if err != nil {
			t.Fatal(err)
		}
		m := readBlock(t, name).loadWith(t, d, models.LoadDrafter)
		if !m.Spec().Drafts {
			t.Errorf("%s: the model has no block that drafts", name)
			continue
		}
		r := runner.New(d, m, runner.Options{KV: cache.Plain(kernels.F32), Pages: 6, Slots: 1,
			BatchRows: 192, LogitsRows: 8})
		pages := []int32{0, 1, 2, 3, 4, 5}
		compared, worst := 0, 0.0
		for _, c := range want {
			last := len(c.IDs) - 1
			if _, err := r.Step(c.IDs[:last], []kernels.Span{{Rows: last, Pages: pages}},
				nil); err != nil {
				t.Fatal(err)
			}
			var from []int32
			token := c.IDs[last]
			for i, step := range c.Steps {
				logits, err := r.Draft([]int32{token},
					[]kernels.Span{{Rows: 1, Pos: last + i, Pages: pages}}, from)
				if err != nil {
					t.Fatal(err)
				}
				for j, x := range step.Logits {
					worst = max(worst, math.Abs(float64(logits[j*every])-x))
				}
				compared++
				if step.Gap <= decidedGap {
					break // the next draft depends on it
				}
				if token, _ = argmax(logits); token != step.Token {
					t.Errorf("%s, %d tokens, step %d: draft %d, the reference has %d", name,
						len(c.IDs), i, token, step.Token)
					break
				}
				from = []int32{0}
			}
		}
		t.Logf("%s: %d drafts, their logits differ by at most %.2g", name, compared, worst)
		if compared < 2*len(want) || worst > logitTolerance {
			t.Errorf("%s: the logits of %d drafts differ by at most %.2g, expected at most %g",
				name, compared, worst, logitTolerance)
		}
	}
}

// TestBlockPlaces: a block in a file beside the model, or in a folder as mlx-vlm writes it, drafts
// what it drafts among the tensors of the model.
func TestBlockPlaces(t *testing.T) {
	d := cpuDevice(t, 2)
	same := func(tensor string) string { return tensor }
	folders := map[string]func(string) string{
		"glm4_moe_lite": func(tensor string) string {
			name := strings.TrimPrefix(tensor, "model.layers.2.")
			switch module, _, _ := strings.Cut(name, "."); module {
			case "shared_head":
				return "model." + strings.Replace(name, "shared_head.norm", "shared_head_norm", 1)
			case "enorm", "hnorm", "eh_proj":
				return "model." + name
			}
			return "model.mtp_block." + name
		},
		"nemotron_h": func(tensor string) string { return strings.TrimPrefix(tensor, "mtp.") },
	}
	for _, name := range blockTypes {
		f := readBlock(t, name)
		want := f.draftedBy(t, d, func(string) string { return "" })
		model, block := f.withoutBlock(t, name, same)
		if got := model.draftedBy(t, d, func(dir string) string {
			block.in(t, dir, "mtp.safetensors")
			return ""
		}); !slices.Equal(got, want) {
			t.Errorf("%s, beside the model: other drafts", name)
		}
		if folders[name] == nil {
			continue
		}
		model, block = f.withoutBlock(t, name, folders[name])
		if got := model.draftedBy(t, d,
			func(string) string { return block.write(t) }); !slices.Equal(got, want) {
			t.Errorf("%s, in a folder of its own: other drafts", name)
		}
		c, err := checkpoint.ParseConfig([]byte(strings.Replace(f.config,
			`"model_type": "`+name, `"model_type": "`+name+"_mtp", 1)))
		if err != nil || !models.IsBlock(c) {
			t.Errorf("%s: the config of such a folder is not that of a block, %v", name, err)
		}
	}
}

// TestOriginalBlocks: the blocks of originals, whose kv_b_proj is one matrix and whose experts are
// a module each, draft what they draft in the layout of MLX. They also have an embedding and a head
// of their own, which are copies.
func TestOriginalBlocks(t *testing.T) {
	d := cpuDevice(t, 2)
	for _, name := range []string{"deepseek_v3_original", "glm4_moe_lite_original"} {
		f := readTiny(t, name)
		hidden := f.tensors["model.norm.weight"].Shape[0]
		out := f.rename(func(name string) string { return name })
		for tensor, x := range f.tensors {
			if rest, ok := strings.CutPrefix(tensor, "model.layers.1."); ok {
				out.put("model.layers.2."+rest, x)
			}
		}
		norm, matrix := f.tensors["model.norm.weight"], f.tensors["model.embed_tokens.weight"]
		project := matrix
		project.Shape, project.Data = []int{hidden, 2 * hidden}, matrix.Data[:4*hidden*hidden]
		for module, x := range map[string]safetensors.Tensor{"enorm": norm, "hnorm": norm,
			"shared_head.norm": norm, "eh_proj": project, "embed_tokens": matrix,
			"shared_head.head": matrix} {
			out.put("model.layers.2."+module+".weight", x)
		}
		var unread []string
		out.loadWith(t, d, func(w *checkpoint.Weights) (models.Model, error) {
			m, err := models.LoadDrafter(w)
			unread = w.Unread()
			return m, err
		})
		slices.Sort(unread)
		if want := []string{"model.layers.2.embed_tokens.weight",
			"model.layers.2.shared_head.head.weight"}; !slices.Equal(unread, want) {
			t.Errorf("%s: loaded without %q, expected %q", name, unread, want)
		}
		none := func(string) string { return "" }
		want := out.draftedBy(t, d, none)
		for layout, f := range map[string]folder{"MLX": out.latentMLX(), "fused": out.fused()} {
			if got := f.draftedBy(t, d, none); !slices.Equal(got, want) {
				t.Errorf("%s, %s: other drafts than in the original layout", name, layout)
			}
		}
	}
}
