package models_test

// Tests of checkpoint layouts. Every layout of a model must give the same logits, bit for bit.

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"headroom/engine/cache"
	"headroom/engine/checkpoint"
	"headroom/engine/models"
	"headroom/engine/runner"
	"headroom/engine/safetensors"
	"headroom/kernels"
)

// folder holds the files of a model in memory.
type folder struct {
	config  string
	tensors map[string]safetensors.Tensor
	// unknownDType makes load write the type I64 as F31, which does not exist.
	unknownDType bool
	pad          int // spaces that load adds to the header, which shift all tensors
}

func readTiny(t testing.TB, name string) folder {
	t.Helper()
	dir := filepath.Join("testdata", "tiny", name)
	config, err := os.ReadFile(filepath.Join(dir, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := safetensors.OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	f := folder{config: string(config), tensors: map[string]safetensors.Tensor{}}
	for _, name := range c.Names() {
		x, _ := c.Tensor(name)
		x.Data = slices.Clone(x.Data)
		f.tensors[name] = x
	}
	return f
}

func (f folder) put(name string, x safetensors.Tensor) {
	x.Name = name
	f.tensors[name] = x
}

// rename returns a copy of f in which the tensor called name is called newName(name).
func (f folder) rename(newName func(string) string) folder {
	out := folder{config: f.config, tensors: map[string]safetensors.Tensor{}}
	for name, x := range f.tensors {
		out.put(newName(name), x)
	}
	return out
}

// write writes f to a temporary folder.
func (f folder) write(t testing.TB) (dir string) {
	t.Helper()
	dir = t.TempDir()
	var file bytes.Buffer
	err := safetensors.Write(&file, slices.Collect(maps.Values(f.tensors)), nil)
	data := file.Bytes()
	if f.unknownDType {
		data = bytes.ReplaceAll(data, []byte(`"I64"`), []byte(`"F31"`))
	}
	if f.pad > 0 && err == nil {
		end := 8 + binary.LittleEndian.Uint64(data)
		data = slices.Insert(data, int(end), bytes.Repeat([]byte(" "), f.pad)...)
		binary.LittleEndian.PutUint64(data, end-8+uint64(f.pad))
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "model.safetensors"), data, 0o600)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "config.json"), []byte(f.config), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// load writes f to a temporary folder and loads the model from there.
func (f folder) load(t testing.TB, d kernels.Device) models.Model {
	t.Helper()
	return f.loadWith(t, d, models.Load)
}

func (f folder) loadWith(t testing.TB, d kernels.Device,
	load func(*checkpoint.Weights) (models.Model, error)) models.Model {
	t.Helper()
	src := checkpoint.Source{Dir: f.write(t)}
	config, err := src.Config()
	if err != nil {
		t.Fatal(err)
	}
	w, err := checkpoint.Open(src, config, d)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	m, err := load(w)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// open loads f and returns the error.
func (f folder) open(t *testing.T, d kernels.Device) error {
	t.Helper()
	src := checkpoint.Source{Dir: f.write(t)}
	config, err := src.Config()
	if err != nil {
		return err
	}
	w, err := checkpoint.Open(src, config, d)
	if err != nil {
		return err
	}
	defer w.Close()
	_, err = models.Load(w)
	return err
}

// logits loads the model and returns the logits after each of 24 tokens.
func (f folder) logits(t testing.TB, d kernels.Device) [][]float32 {
	t.Helper()
	return logitsOf(d, f.load(t, d))
}

// someTokens returns n tokens of the tiny models.
func someTokens(n int) []int32 {
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = int32(i * 37 % 320)
	}
	return ids
}

// logitsOf returns the logits of a model after each of 24 tokens.
func logitsOf(d kernels.Device, m models.Model) [][]float32 {
	ids := someTokens(24)
	r := &rig{Runner: runner.New(d, m,
		runner.Options{KV: cache.Plain(kernels.F32), Pages: 1, Slots: 1, BatchRows: len(ids),
			LogitsRows: len(ids)})}
	return r.step(ids, kernels.Span{Rows: len(ids), Pages: []int32{0}})
}

// projectionNames replaces Meta's names of projections, which LFM2 has.
var projectionNames = strings.NewReplacer("w1.", "gate_proj.", "w2.", "down_proj.", "w3.",
	"up_proj.")

// stacked returns f with the experts of every layer stacked into tensors [E, n, k], such as
// mlp.switch_mlp.gate_proj.weight.
func (f folder) stacked() folder {
	expert := regexp.MustCompile(`^(.*\.(?:mlp|feed_forward)\.)experts\.(\d+)\.(.*)$`)
	out := folder{config: f.config, tensors: map[string]safetensors.Tensor{}}
	for name, x := range f.tensors {
		part := expert.FindStringSubmatch(name)
		if part == nil {
			out.put(name, x)
		} else if part[2] == "0" {
			shape := x.Shape
			x.Data = nil
			for e := 0; ; e++ {
				one, ok := f.tensors[fmt.Sprintf("%sexperts.%d.%s", part[1], e, part[3])]
				if !ok {
					x.Shape = append([]int{e}, shape...)
					break
				}
				x.Data = append(x.Data, one.Data...)
			}
			out.put(part[1]+"switch_mlp."+projectionNames.Replace(part[3]), x)
		}
	}
	return out
}

// fused returns f in the layout of transformers 5: experts.gate_up_proj [E, 2I, H], gate rows
// first, and experts.down_proj.
func (f folder) fused() folder {
	out := f.stacked()
	for name, gate := range maps.Clone(out.tensors) {
		path, ok := strings.CutSuffix(name, "switch_mlp.gate_proj.weight")
		if !ok {
			continue
		}
		up, down := out.tensors[path+"switch_mlp.up_proj.weight"],
			out.tensors[path+"switch_mlp.down_proj.weight"]
		both := gate
		both.Shape, both.Data = []int{gate.Shape[0], 2 * gate.Shape[1], gate.Shape[2]}, nil
		size := len(gate.Data) / gate.Shape[0]
		for e := range gate.Shape[0] {
			both.Data = append(append(both.Data, gate.Data[e*size:(e+1)*size]...),
				up.Data[e*size:(e+1)*size]...)
		}
		out.put(path+"experts.gate_up_proj", both)
		out.put(path+"experts.down_proj", down)
		for _, part := range []string{"gate", "up", "down"} {
			delete(out.tensors, path+"switch_mlp."+part+"_proj.weight")
		}
	}
	return out
}

// transposed returns f, which is fused, in the layout of Qwen3-VL's originals: gate_up_proj is
// [E, H, 2I] and down_proj is [E, I, H].
func (f folder) transposed() folder {
	out := folder{config: f.config, tensors: maps.Clone(f.tensors)}
	for name, x := range f.tensors {
		if !strings.HasSuffix(name, "experts.gate_up_proj") &&
			!strings.HasSuffix(name, "experts.down_proj") {
			continue
		}
		e, n, k := x.Shape[0], x.Shape[1], x.Shape[2]
		size := len(x.Data) / (e * n * k)
		data := make([]byte, len(x.Data))
		for i := range e {
			for r := range n {
				for c := range k {
					copy(data[((i*k+c)*n+r)*size:][:size], x.Data[((i*n+r)*k+c)*size:])
				}
			}
		}
		x.Shape, x.Data = []int{e, k, n}, data
		out.put(name, x)
	}
	return out
}

// zeroCentred reports whether Hugging Face stores the tensor as w-1.
func zeroCentred(name string) bool {
	return strings.HasSuffix(name, "norm.weight") && !strings.Contains(name, "linear_attn") ||
		strings.Contains(name, "pre_fc_norm")
}

// mlx returns f in the layout to which mlx-lm converts it: experts are stacked, 1 is added to norm
// weights, conv1d is [C, taps, 1], and all names begin with "language_model.". Norm weights are
// float32 here, because adding 1 in bfloat16 would round them.
func (f folder) mlx() folder {
	out := f.stacked()
	for name, x := range out.tensors {
		switch {
		case zeroCentred(name):
			out.put(name, float32s(x, 1))
		case strings.HasSuffix(name, "conv1d.weight"):
			x.Shape = []int{x.Shape[0], x.Shape[2], 1}
			out.put(name, x)
		}
	}
	return out.rename(func(name string) string { return "language_model." + name })
}

// lfm2MLX returns f in the layout to which mlx-lm converts LFM2: experts are stacked, convolutions
// are [C, taps, 1], and the MLPs of a mixture have the usual names.
func (f folder) lfm2MLX() folder {
	out := f.stacked()
	for name, x := range out.tensors {
		if strings.HasSuffix(name, "conv.conv.weight") {
			x.Shape = []int{x.Shape[0], x.Shape[2], 1}
			out.put(name, x)
		}
	}
	if !f.has("experts.") {
		return out
	}
	return out.rename(projectionNames.Replace)
}

// latentMLX returns f in the layout to which mlx-lm converts multi-head latent attention: experts
// are stacked, and kv_b_proj is divided into embed_q, which is transposed, and unembed_out. The
// sizes are those of testdata/tiny_hf.py.
func (f folder) latentMLX() folder {
	const heads, keys, values = 2, 48, 32
	out := f.stacked()
	for name, x := range f.tensors {
		module, ok := strings.CutSuffix(name, "kv_b_proj.weight")
		if !ok {
			continue
		}
		delete(out.tensors, name)
		rank := x.Shape[1]
		embed, unembed := x, x
		embed.Shape, embed.Data = []int{heads, rank, keys}, nil
		unembed.Shape, unembed.Data = []int{heads, values, rank}, nil
		for h := range heads {
			rows := x.Data[h*(keys+values)*rank*2:]
			for c := range rank {
				for k := range keys {
					embed.Data = append(embed.Data, rows[(k*rank+c)*2:][:2]...)
				}
			}
			unembed.Data = append(unembed.Data, rows[keys*rank*2:][:values*rank*2]...)
		}
		out.put(module+"embed_q.weight", embed)
		out.put(module+"unembed_out.weight", unembed)
	}
	return out
}

// granite4MLX returns f in the layout to which mlx-lm converts Granite 4: convolutions are
// [C, taps, 1], and the fused projections are separate, except those of an MLP beside experts.
func (f folder) granite4MLX() folder {
	mixture := f.has("block_sparse_moe")
	out := folder{config: f.config, tensors: map[string]safetensors.Tensor{}}
	for name, x := range f.tensors {
		module, part, fused := strings.Cut(name, ".block_sparse_moe.")
		to := module + ".block_sparse_moe.switch_mlp."
		if !mixture {
			module, part, fused = strings.Cut(name, ".shared_mlp.")
			to = module + ".mlp."
		}
		switch {
		case fused && part == "input_linear.weight":
			gate, up := halves(x)
			out.put(to+"gate_proj.weight", gate)
			out.put(to+"up_proj.weight", up)
		case fused && part == "output_linear.weight":
			out.put(to+"down_proj.weight", x)
		case strings.HasSuffix(name, "conv1d.weight"):
			x.Shape = []int{x.Shape[0], x.Shape[2], 1}
			out.put(name, x)
		default:
			out.put(name, x)
		}
	}
	return out
}

// halves returns the first and the last rows of every matrix of x.
func halves(x safetensors.Tensor) (first, last safetensors.Tensor) {
	at := len(x.Shape) - 2
	shape := slices.Clone(x.Shape)
	shape[at] /= 2
	first, last = x, x
	first.Shape, last.Shape, first.Data, last.Data = shape, shape, nil, nil
	half := len(x.Data) / 2
	if at == 1 { // of each matrix
		half /= shape[0]
	}
	for from := 0; from < len(x.Data); from += 2 * half {
		first.Data = append(first.Data, x.Data[from:from+half]...)
		last.Data = append(last.Data, x.Data[from+half:from+2*half]...)
	}
	return first, last
}

// float32s converts a BF16 tensor to float32 and adds add to each element.
func float32s(x safetensors.Tensor, add float32) safetensors.Tensor {
	values := widen(x)
	x.DType, x.Data = safetensors.F32, nil
	for _, v := range values {
		x.Data = binary.LittleEndian.AppendUint32(x.Data, math.Float32bits(v+add))
	}
	return x
}

func widen(x safetensors.Tensor) []float32 {
	var values []float32
	for i := 0; i < len(x.Data); i += 2 {
		values = append(values, math.Float32frombits(
			uint32(binary.LittleEndian.Uint16(x.Data[i:]))<<16))
	}
	return values
}

// nested returns the config of a multimodal model, which has the keys of config under text_config.
func nested(modelType, config string) string {
	return `{"model_type": "` + modelType + `", "tie_word_embeddings": true, "text_config": ` +
		config + `}`
}

// converted returns f in the layout to which mlx-lm converts it. The names of its tensors tell what
// has to change, and nothing does for most architectures.
func (f folder) converted() folder {
	switch {
	case f.has(".scales"), f.has("switch_mlp"):
		return f // already is in that layout
	case f.has("mamba.conv1d.weight"):
		return f.granite4MLX()
	case f.has("conv1d.weight"):
		return f.mlx()
	case f.has("conv.conv.weight"):
		return f.lfm2MLX()
	case f.has("kv_b_proj.weight"):
		return f.latentMLX()
	case f.has("experts.gate_up_proj_bias"):
		return f.separated()
	}
	return f.stacked()
}

// has reports whether the name of a tensor contains part.
func (f folder) has(part string) bool {
	return slices.ContainsFunc(names(f),
		func(name string) bool { return strings.Contains(name, part) })
}

// layouts returns f in all layouts, by name. Some may be equal to f. Packed models have only one.
func (f folder) layouts() map[string]folder {
	if f.has(".scales") || f.has(".weight_scale") {
		return map[string]folder{"original": f}
	}
	all := map[string]folder{"original": f, "MLX": f.converted(),
		"Hugging Face, fused experts": f.fused()}
	if fused := f.fused(); fused.has("experts.gate_up_proj") &&
		!fused.has("experts.gate_up_proj_") { // those of gpt_oss are transposed
		all["Hugging Face, transposed experts"] = fused.transposed()
	}
	return all
}

// TestLayouts compares the layouts of all architectures that have several.
func TestLayouts(t *testing.T) {
	d := cpuDevice(t, 2)
	for _, name := range append(slices.Clone(architectures), "granitemoehybrid_moe",
		"deepseek_v3_original", "glm4_moe_lite_original") {
		original := readTiny(t, name)
		want := original.logits(t, d)
		for layout, f := range original.layouts() {
			if !slices.Equal(names(f), names(original)) && !equalBits(f.logits(t, d), want) {
				t.Errorf("%s, %s: the logits differ from those of the original layout", name,
					layout)
			}
		}
	}
}

// names returns the names of the tensors of f, sorted.
func names(f folder) []string { return slices.Sorted(maps.Keys(f.tensors)) }

// TestVisionMixture: the language model of Qwen3-VL-MoE is Qwen3-MoE, and norm_topk_prob is true if
// its config does not say so.
func TestVisionMixture(t *testing.T) {
	d := cpuDevice(t, 1)
	original := readTiny(t, "qwen3_moe")
	vision := original.rename(func(name string) string {
		return strings.Replace(name, "model.", "model.language_model.", 1)
	})
	text := strings.Replace(original.config, "  \"norm_topk_prob\": true,\n", "", 1)
	vision.config = strings.Replace(nested("qwen3_vl_moe", text), `"qwen3_moe"`,
		`"qwen3_vl_moe_text"`, 1)
	if !equalBits(vision.logits(t, d), original.logits(t, d)) {
		t.Error("qwen3_vl_moe has other logits than qwen3_moe")
	}

	hf := vision.fused().transposed()
	for hf.pad = range 2 { // with pad 1 no tensor is aligned
		if !equalBits(hf.logits(t, d), original.logits(t, d)) {
			t.Errorf("pad %d: qwen3_vl_moe has other logits with transposed experts", hf.pad)
		}
	}
}

// TestSparseStep checks that decoder_sparse_step selects the layers that have experts. Here every
// second one has.
func TestSparseStep(t *testing.T) {
	d := cpuDevice(t, 1)
	two := readTiny(t, "qwen3_moe").rename(strings.NewReplacer("layers.0.", "layers.1.",
		"layers.1.", "layers.0.").Replace)
	maps.DeleteFunc(two.tensors, func(name string, _ safetensors.Tensor) bool {
		return strings.Contains(name, "layers.2.") || strings.Contains(name, "layers.3.")
	})
	two.config = strings.Replace(two.config, `"num_hidden_layers": 4`, `"num_hidden_layers": 2`, 1)
	listed, stepped := two, two
	list := regexp.MustCompile(`"mlp_only_layers": \[\s*1\s*\]`)
	listed.config = list.ReplaceAllString(two.config, `"mlp_only_layers": [0]`)
	stepped.config = strings.Replace(list.ReplaceAllString(two.config, `"mlp_only_layers": null`),
		`"decoder_sparse_step": 1`, `"decoder_sparse_step": 2`, 1)
	if !equalBits(stepped.logits(t, d), listed.logits(t, d)) {
		t.Error("decoder_sparse_step 2 and mlp_only_layers [0] give other logits")
	}
}

// TestUnreadTensorsAreSkipped adds invalid MTP tensors to a checkpoint. No architecture reads them,
// so the model must load and compute the same logits.
func TestUnreadTensorsAreSkipped(t *testing.T) {
	d := cpuDevice(t, 1)
	original := readTiny(t, "qwen3_5_text")
	want := original.logits(t, d)
	integers := safetensors.Tensor{DType: safetensors.I64, Shape: []int{4}, Data: make([]byte, 32)}
	for _, test := range []struct {
		fault        string
		tensor       safetensors.Tensor
		unknownDType bool
	}{
		{"a wrong shape", safetensors.Tensor{DType: safetensors.BF16, Shape: []int{3, 5},
			Data: make([]byte, 30)}, false},
		{"a dtype that no weight has", integers, false},
		{"a dtype that does not exist", integers, true},
		{"no elements", safetensors.Tensor{DType: safetensors.F32, Shape: []int{0, 64}}, false},
	} {
		for _, prefix := range []string{"mtp.", "model.mtp.", "language_model.mtp."} {
			f := original.rename(func(name string) string { return name })
			f.config = strings.Replace(f.config, "{", `{"mtp_num_hidden_layers": 1, `, 1)
			f.unknownDType = test.unknownDType
			f.put(prefix+"fc.weight", test.tensor)
			f.put(prefix+"norm.weight", test.tensor)
			if got := f.logits(t, d); !equalBits(got, want) {
				t.Errorf("%sfc.weight with %s changes the logits", prefix, test.fault)
			}
		}
	}
}

// TestOddHeaderLengths pads the header of every architecture's file, with a complete MTP block
// beside the others, so that no tensor is aligned. The model must compute the same logits, and its
// memory must be planned.
func TestOddHeaderLengths(t *testing.T) {
	d := cpuDevice(t, 1)
	for _, name := range tiny {
		f := readTiny(t, name)
		want := f.logits(t, d)
		for _, x := range maps.Clone(f.tensors) {
			if strings.HasSuffix(x.Name, "model.norm.weight") {
				hidden := x.Shape[0]
				f.put("mtp.fc.weight", safetensors.Tensor{DType: safetensors.BF16,
					Shape: []int{hidden, 2 * hidden}, Data: make([]byte, 4*hidden*hidden)})
				f.put("mtp.norm.weight", x)
				f.put("mtp.pre_fc_norm_embedding.weight", x)
				f.put("mtp.pre_fc_norm_hidden.weight", x)
			}
			if _, rest, found := strings.Cut(x.Name, "model.layers.3."); found {
				f.put("mtp.layers.0."+rest, x)
			}
		}
		f.config = strings.Replace(f.config, "{", `{"mtp_num_hidden_layers": 1, `, 1)
		for _, pad := range []int{1, 2, 3, 5, 7} {
			f.pad = pad
			if got := f.logits(t, d); !equalBits(got, want) {
				t.Errorf("%s: %d spaces in the header change the logits", name, pad)
			}
			f.load(t, kernels.NewDryRun())
		}
	}
}
