package commands

// What `headroom models` says about folders of all kinds, such as people have beside their models.
// The window shows the same sentences.

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"headroom/engine/safetensors"
)

// found is a folder for TestVerdicts: the tiny Llama with changes, or only the files.
type found struct {
	name   string
	config string            // keys that replace those of the Llama's config; "none": no Llama
	files  map[string]string // more files
	edit   func(all map[string]safetensors.Tensor)
	want   string // state and sentence; "ready" or "Not supported: ..." or "Damaged: ..."
}

const (
	inMLX    = " Use an MLX conversion of the model, or its weights in bf16, f16 or f32."
	language = " Pick another model: Headroom runs language models, embedding models and rerankers."
	otherOne = " Pick another model."
)

// retype gives all projections another type, with the same number of elements.
func retype(dtype safetensors.DType) func(map[string]safetensors.Tensor) {
	return func(all map[string]safetensors.Tensor) {
		for name, x := range all {
			if strings.Contains(name, "_proj.") {
				x.DType, x.Data = dtype, make([]byte, x.Elements()*dtype.Bytes())
				all[name] = x
			}
		}
	}
}

// renamed replaces the tensor a.weight of all projections by tensors with other suffixes.
func renamed(suffixes ...string) func(map[string]safetensors.Tensor) {
	return func(all map[string]safetensors.Tensor) {
		for name, x := range maps.Clone(all) {
			module, ok := strings.CutSuffix(name, "_proj.weight")
			if !ok {
				continue
			}
			delete(all, name)
			for _, suffix := range suffixes {
				x.Name = module + "_proj" + suffix
				x.DType, x.Data = safetensors.I32, make([]byte, x.Elements()*4)
				all[x.Name] = x
			}
		}
	}
}

// bare removes the prefix of the decoder's tensors.
func bare(all map[string]safetensors.Tensor) {
	for name, x := range maps.Clone(all) {
		if rest, ok := strings.CutPrefix(name, "model."); ok {
			delete(all, name)
			x.Name = rest
			all[rest] = x
		}
	}
}

// with adds a tensor of ones.
func with(name string, shape ...int) func(map[string]safetensors.Tensor) {
	return func(all map[string]safetensors.Tensor) {
		x := safetensors.Tensor{Name: name, DType: safetensors.F32, Shape: shape}
		for range x.Elements() {
			x.Data = append(x.Data, 0, 0, 0x80, 0x3f)
		}
		all[name] = x
	}
}

var verdicts = []found{
	{name: "llama", want: "ready"},
	{name: "peft", config: "none", files: map[string]string{"adapter_model.safetensors": "x",
		"adapter_config.json": `{"peft_type": "LORA", "base_model_name_or_path": "org/base"}`},
		want: "Not supported: This is a LoRA adapter, not a whole model: it belongs to the model " +
			"org/base. Fuse it with its model first, by headroom fuse, and open the result."},
	{name: "mlx-lm-adapter", config: "none", files: map[string]string{"adapters.safetensors": "x",
		"adapter_config.json": `{"fine_tune_type": "dora", "model": "mlx-community/base-4bit"}`},
		want: "Not supported: This is a DoRA adapter, not a whole model: it belongs to the model " +
			"mlx-community/base-4bit. Fuse it with its model first, by headroom fuse, and open " +
			"the result."},
	{name: "flux", config: "none", files: map[string]string{
		"model_index.json":                                `{"_class_name": "FluxPipeline"}`,
		"transformer/config.json":                         `{"_class_name": "FluxTransformer2DModel"}`,
		"transformer/diffusion_pytorch_model.safetensors": "x"},
		want: "Not supported: This is a diffusion model, which makes images, video or sound: " +
			"model_index.json describes a FluxPipeline." + language},
	{name: "mistral", config: "none", files: map[string]string{"params.json": "{}",
		"consolidated.safetensors": "x", "tekken.json": "{}"},
		want: "Not supported: This model is in Mistral's own format: its weights are in " +
			"consolidated.safetensors, expected model*.safetensors. Download the model in MLX's " +
			"or Hugging Face's format: a folder of .safetensors files."},
	{name: "onnx", config: "none", files: map[string]string{"config.json": "{}",
		"onnx/model.onnx": "x"}, want: "Not supported: This model is in ONNX format: Headroom " +
		"runs .safetensors. Download the model in MLX's or Hugging Face's format: a folder of " +
		".safetensors files."},
	{name: "gguf-with-config", config: "none", files: map[string]string{
		"config.json": `{"model_type": "qwen3"}`, "x.gguf": "x"},
		want: "Not supported: This model is in GGUF format: Headroom runs .safetensors. Import " +
			"it to convert it to MLX's format: drop the file on Headroom's window, or use " +
			"`headroom models import FILE`."},
	{name: "core-ml", config: "none", files: map[string]string{
		"model.mlpackage/Manifest.json": "{}"},
		want: "Not supported: This model is in Core ML format: Headroom runs .safetensors. " +
			"Download the model in MLX's or Hugging Face's format: a folder of .safetensors " +
			"files."},
	{name: "pytorch", config: "none", files: map[string]string{
		"config.json": `{"model_type": "llama"}`, "pytorch_model.bin": "x"},
		want: "Not supported: This model is in PyTorch format: Headroom runs .safetensors. " +
			"Download the model in MLX's or Hugging Face's format: a folder of .safetensors " +
			"files."},
	{name: "kokoro", config: "none", files: map[string]string{"config.json": `{"istftnet": {}}`,
		"kokoro-v1_0.safetensors": "x"},
		want: "Not supported: This folder has no language model that Headroom can run: it has " +
			"kokoro-v1_0.safetensors, expected model*.safetensors. Choose the folder of a " +
			"language model in MLX's or Hugging Face's format."},
	{name: "gptq-5-bits", config: `"quantization_config": {"quant_method": "gptq", "bits": 5}`,
		want: `Not supported: Headroom cannot run this variant of GPTQ: it has 5 bits, expected ` +
			`2, 3, 4 or 8.` + inMLX},
	{name: "awq-gemv", config: `"quantization_config": {"quant_method": "awq", "bits": 4,
		"version": "gemv"}`,
		want: `Not supported: Headroom cannot run this variant of AWQ: config.json has the ` +
			`version "gemv", expected gemm.` + inMLX},
	{name: "aqlm", config: `"quantization_config": {"quant_method": "aqlm"}`,
		want: `Not supported: This model is quantized with AQLM, which Headroom cannot run: ` +
			`config.json has quant_method "aqlm".` + inMLX},
	{name: "bnb", config: `"quantization_config": {"load_in_4bit": true}`,
		want: `Not supported: This model is quantized with bitsandbytes, which Headroom cannot ` +
			`run: config.json has load_in_4bit.` + inMLX},
	{name: "compressed", config: `"quantization_config": {"quant_method": "compressed-tensors"}`,
		want: `Not supported: Headroom cannot run this variant of compressed-tensors: ` +
			`config.json names no group of quantized weights.` + inMLX},
	{name: "gptq-without-config", edit: renamed(".qweight", ".qzeros"),
		want: `Not supported: Headroom cannot tell how this model is quantized: it has the tensor ` +
			`model.layers.0.mlp.gate_proj.qweight of GPTQ or AWQ, but config.json has no ` +
			`quantization_config. Download config.json again.`},
	{name: "fp8-without-config", edit: retype(safetensors.F8E4M3),
		want: `Not supported: This model is quantized with an unknown layout of FP8, which ` +
			`Headroom cannot run: tensor model.layers.0.mlp.gate_proj.weight has type F8_E4M3, ` +
			`and neither model.layers.0.mlp.gate_proj.weight_scale_inv nor ` +
			`model.layers.0.mlp.gate_proj.weight_scale is beside it.` + inMLX},
	{name: "int8-without-config", edit: retype(safetensors.I8),
		want: `Not supported: This model is quantized with INT8, which Headroom cannot run: ` +
			`tensor model.layers.0.mlp.gate_proj.weight has type I8.` + inMLX},
	{name: "deepseek", config: `"model_type": "deepseek_v3",
		"quantization_config": {"quant_method": "fp8", "fmt": "e5m2"}`,
		want: `Not supported: Headroom cannot run this variant of FP8: config.json has the fmt ` +
			`"e5m2", expected e4m3.` + inMLX},
	{name: "modelopt", config: `"quantization_config": {"quant_method": "modelopt",
		"quant_algo": "W4A8_AWQ"}`,
		want: `Not supported: Headroom cannot run this variant of ModelOpt: its quant_algo is ` +
			`"W4A8_AWQ", expected FP8 or NVFP4.` + inMLX},
	{name: "unsupported", config: `"model_type": "bloom"`,
		want: `Not supported: Headroom does not support the architecture "bloom" yet. Pick ` +
			"another model. `headroom models --help` lists the supported architectures."},
	{name: "phimoe", config: `"model_type": "phimoe"`,
		want: `Not supported: Headroom does not support the architecture "phimoe" yet: the ` +
			"supported one with the most similar name is phi3. Pick another model. " +
			"`headroom models --help` lists the supported architectures."},
	{name: "whisper", config: `"model_type": "whisper"`,
		want: "Not supported: This is a speech recognition model, not a language model: its " +
			"model_type is whisper." + language},
	{name: "bert", config: `"model_type": "bert"`,
		want: "Not supported: This is an embedding model or text classifier, not a language " +
			"model: its model_type is bert." + language},
	{name: "reward", config: `"architectures": ["LlamaForSequenceClassification"]`,
		want: "Not supported: This is a classifier or reward model, not a language model: " +
			"architectures in config.json has LlamaForSequenceClassification." + language},
	{name: "embeddings", config: `"architectures": ["LlamaModel"]`,
		want: "Not supported: This is an embedding model, or a part of another model, not a " +
			"language model: architectures in config.json has LlamaModel." + language},
	{name: "sentence-transformers", files: map[string]string{
		"modules.json": `[{"type": "sentence_transformers.models.Transformer"}]`},
		want: "Not supported: Headroom cannot run this variant of an embedding model: " +
			"modules.json has no Pooling." + otherOne},
	{name: "pooling", files: map[string]string{"modules.json": `[{"idx": 0}]`,
		"1_Pooling/config.json": "{}"}, want: "ready"},
	{name: "pooling-max", files: map[string]string{
		"1_Pooling/config.json": `{"pooling_mode_max_tokens": true}`},
		want: "Not supported: Headroom cannot run this variant of an embedding model: " +
			"1_Pooling/config.json has the pooling max, expected one of cls, mean and " +
			"lasttoken." + otherOne},
	{name: "bare", edit: bare, want: "Not supported: This is an embedding model, or a part of " +
		"another model, not a language model: it has the tensor embed_tokens.weight, expected " +
		"model.embed_tokens.weight." + language},
	{name: "eagle3", config: `"architectures": ["LlamaForCausalLMEagle3"]`,
		want: "Not supported: This is a draft model for another model, not a language model: " +
			"architectures in config.json has LlamaForCausalLMEagle3." + language},
	{name: "eagle3-tensors", edit: with("d2t", 4),
		want: "Not supported: This is a draft model for another model, not a language model: it " +
			"has the tensor d2t." + language},
	{name: "tokenizer-pointer", files: map[string]string{
		"tokenizer.json": "version https://git-lfs.github.com/spec/v1\noid sha256:0\n"},
		want: "Damaged: The tokenizer is missing: tokenizer.json is only a Git LFS pointer. Run " +
			"git lfs pull in the folder, or download the model again."},
	{name: "tokenizer-empty", files: map[string]string{"tokenizer.json": ""},
		want: "Damaged: The model's tokenizer.json cannot be used: it is empty. Download or " +
			"convert the model again."},
	{name: "tokenizer-page", files: map[string]string{"tokenizer.json": "<html></html>"},
		want: "Damaged: The model's tokenizer.json cannot be used: it is not a JSON object. " +
			"Download or convert the model again."},
	{name: "tokenizer-cut-off", files: map[string]string{"tokenizer.json": `{"model": {"vocab": `},
		want: "Damaged: The model's tokenizer.json cannot be used: its JSON is cut off. Download " +
			"or convert the model again."},
	{name: "template-syntax", files: map[string]string{"chat_template.jinja": "{% if %}"},
		want: "Damaged: The chat template in the model's chat_template.jinja cannot be used: " +
			"chat template, line 1: expected an expression, got the end of the tag. Download or " +
			"convert the model again."},
	{name: "template-filter", files: map[string]string{"chat_template.jinja": "{{ 1 | nope }}"},
		want: "Damaged: The chat template in the model's chat_template.jinja cannot be used: " +
			"chat template, line 1: there is no filter 'nope'. Download or convert the model " +
			"again."},
	{name: "more-norms", edit: with("model.layers.1.self_attn.q_norm.weight", 32),
		want: `Not supported: Headroom cannot run this variant of "llama": the architecture has ` +
			`no tensor model.layers.1.self_attn.q_norm.weight.` + otherOne},
	{name: "fewer-layers", config: `"num_hidden_layers": 3`,
		want: "Damaged: The model's weights do not match its config.json: num_hidden_layers is " +
			"3, but the weights have 4 layers. Download or convert the model again."},
	{name: "cut-off", files: map[string]string{"config.json": `{"model_type": "llama"`},
		want: "Damaged: config.json is not valid JSON: unexpected end of JSON input. Download or " +
			"convert the model again."},
}

// plant writes the folder.
func (f found) plant(t *testing.T, dir string) {
	t.Helper()
	files := map[string]string{}
	if f.config != "none" {
		tiny := filepath.Join("..", "..", "engine", "models", "testdata", "tiny", "llama")
		keys := map[string]json.RawMessage{}
		config, err := os.ReadFile(filepath.Join(tiny, "config.json"))
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{string(config), "{" + f.config + "}"} {
			if err := json.Unmarshal([]byte(text), &keys); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
		}
		text, err := json.Marshal(keys)
		if err != nil {
			t.Fatal(err)
		}
		files["config.json"], files["tokenizer.json"] = string(text), "{}"
		files["model.safetensors"] = editedWeights(t, tiny, f.edit)
	}
	maps.Copy(files, f.files)
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// editedWeights returns the content of a model.safetensors with the tensors of the model in dir
// after edit.
func editedWeights(t *testing.T, dir string, edit func(map[string]safetensors.Tensor)) string {
	t.Helper()
	c, err := safetensors.OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	all := map[string]safetensors.Tensor{}
	for _, name := range c.Names() {
		all[name], _ = c.Tensor(name)
	}
	if edit != nil {
		edit(all)
	}
	var file strings.Builder
	if err := safetensors.Write(&file, slices.Collect(maps.Values(all)), nil); err != nil {
		t.Fatal(err)
	}
	return file.String()
}

// TestVerdicts checks the line of every folder in the output of `headroom models`.
func TestVerdicts(t *testing.T) {
	root := filepath.Join(isolate(t), "found")
	for _, f := range verdicts {
		f.plant(t, filepath.Join(root, f.name))
	}
	code, out, errOut := headroom("", "models", "--models-dir", root)
	if code != 0 {
		t.Fatalf("exit %d, %s", code, errOut)
	}
	got := saidAbout(out)
	for _, f := range verdicts {
		if got[f.name] != f.want {
			t.Errorf("%s:\ngot  %q\nwant %q", f.name, got[f.name], f.want)
		}
		delete(got, f.name)
	}
	for id, verdict := range got {
		if strings.HasPrefix(verdict, "Not") || strings.HasPrefix(verdict, "Dam") {
			t.Errorf("another model %s: %s", id, verdict)
		}
	}
}

// saidAbout returns what the output of `headroom models` says about each folder: "ready", or the
// state and the sentence.
func saidAbout(out string) map[string]string {
	got, state := map[string]string{}, "ready"
	for line := range strings.Lines(out) {
		line = strings.TrimSuffix(line, "\n")
		switch id, rest, ok := strings.Cut(strings.TrimPrefix(line, "  "), ": "); {
		case strings.HasSuffix(line, ":") && !strings.HasPrefix(line, " "):
			state = line
		case ok && state != "ready":
			got[id] = state + " " + rest
		case state == "ready":
			id, _, _ := strings.Cut(line, " ")
			got[id] = state
		}
	}
	return got
}

// TestListOfUsableModels checks what the list says about models that run: the packing that the
// weights have, whatever config.json says, and tokens that they lack.
func TestListOfUsableModels(t *testing.T) {
	root := filepath.Join(isolate(t), "found")
	const beyond = `{"version": "1.0", "truncation": null, "added_tokens": [{"id": 319,
		"content": "</s>"}, {"id": 320, "content": "[PAD]"}], "model": {}}`
	for _, f := range []found{
		{name: "stray", config: `"quantization": {"bits": 4, "group_size": 64}`},
		{name: "stray-awq", config: `"quantization_config": {"quant_method": "awq", "bits": 4}`},
		{name: "padded", files: map[string]string{"tokenizer.json": beyond}},
	} {
		f.plant(t, filepath.Join(root, f.name))
	}
	code, out, errOut := headroom("", "models", "--models-dir", root)
	if code != 0 {
		t.Fatalf("exit %d, %s", code, errOut)
	}
	for _, name := range []string{"stray", "stray-awq", "padded"} {
		row := regexp.MustCompile(`(?m)^` + name + ` +llama +not quantized `)
		if !row.MatchString(out) {
			t.Errorf("%s is not listed as not quantized:\n%s", name, out)
		}
	}
	const says = "\nWith a tokenizer of more tokens than the model has:\n" +
		"  padded: its token 320 is \"[PAD]\", the model's vocab_size is 320\n"
	if !strings.Contains(out, says) || strings.Contains(out, "stray:") {
		t.Errorf("expected %q:\n%s", says, out)
	}
}

// TestRunNamesTheKind checks the error for a folder that is named on the command line.
func TestRunNamesTheKind(t *testing.T) {
	root := filepath.Join(isolate(t), "found")
	for _, f := range verdicts[1:] {
		dir := filepath.Join(root, f.name)
		f.plant(t, dir)
		_, sentence, _ := strings.Cut(f.want, ": ")
		code, _, errOut := headroom("", "run", "--model", dir, "hi")
		errOut = strings.NewReplacer("\n  why: ", ": ", "\n  fix: ", ". ").Replace(errOut)
		if code != int(exitProblem) || !strings.Contains(errOut, sentence) {
			t.Errorf("%s: exit %d, %q, expected %q", f.name, code, errOut, sentence)
		}
	}
}

// TestArchitecturesInHelp checks that the help lists what the errors of unsupported architectures
// promise.
func TestArchitecturesInHelp(t *testing.T) {
	isolate(t)
	code, out, _ := headroom("", "models", "--help")
	list := strings.Join(strings.Fields(out), " ")
	if code != 0 || !strings.Contains(list, "Supported architectures (model_type in config.json): "+
		"afmoe, bert, cohere, cohere2,") || !strings.Contains(list, "xlm-roberta, xverse.") {
		t.Errorf("exit %d, %s", code, out)
	}
}
