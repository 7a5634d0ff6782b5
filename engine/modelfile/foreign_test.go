package modelfile

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"headroom/engine/problem"
)

// plant creates files in a folder: "a = text" is a file, a name that ends with "/" a folder.
func plant(t *testing.T, dir string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		name, content, ok := strings.Cut(line, " = ")
		path := filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(path), 0o700)
		switch {
		case err != nil:
		case ok:
			err = os.WriteFile(path, []byte(content), 0o600)
		default:
			err = os.MkdirAll(path, 0o700)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestForeign(t *testing.T) {
	const download = " Download the model in MLX's or Hugging Face's format: a folder of " +
		".safetensors files."
	inFormat := func(name string) string {
		return "This model is in " + name + " format: Headroom runs .safetensors." + download
	}
	const other = " Pick another model: Headroom runs language models, embedding models and " +
		"rerankers."
	const fuse = ". Fuse it with its model first, by headroom fuse, and open the " +
		"result."
	for _, c := range []struct {
		name  string
		files []string
		want  string // "": nil
	}{
		{"nothing", nil, ""},
		{"a model", []string{"config.json = {}", "model.safetensors = x"}, ""},
		{"a model without its config", []string{"model-00001-of-00002.safetensors = x"}, ""},
		{"a tokenizer", []string{"tokenizer.json = {}", "merges.txt = x"}, ""},
		{"PEFT", []string{"adapter_model.safetensors = x", `adapter_config.json = ` +
			`{"peft_type": "LORA", "base_model_name_or_path": "org/base", "r": 8}`},
			"This is a LoRA adapter, not a whole model: it belongs to the model org/base" + fuse},
		{"PEFT's DoRA", []string{"adapter_model.safetensors = x", `adapter_config.json = ` +
			`{"peft_type": "LORA", "use_dora": true, "base_model_name_or_path": "org/base"}`},
			"This is a DoRA adapter, not a whole model: it belongs to the model org/base" + fuse},
		{"another kind of PEFT", []string{"adapter_model.bin = x", `adapter_config.json = ` +
			`{"peft_type": "IA3", "base_model_name_or_path": null}`},
			"This is an adapter (IA3), not a whole model: it does not say which model it " +
				"belongs to" +
				fuse},
		{"mlx-lm", []string{"adapters.safetensors = x", "0000100_adapters.safetensors = x",
			`adapter_config.json = {"fine_tune_type": "lora", "model": "mlx-community/x-4bit"}`},
			"This is a LoRA adapter, not a whole model: it belongs to the model " +
				"mlx-community/x-4bit" + fuse},
		{"mlx-lm's DoRA", []string{"adapters.safetensors = x",
			`adapter_config.json = {"fine_tune_type": "dora", "model": "/Users/me/x"}`},
			"This is a DoRA adapter, not a whole model: it belongs to the model /Users/me/x" +
				fuse},
		{"mlx-lm's full fine-tuning", []string{"adapters.safetensors = x",
			`adapter_config.json = {"fine_tune_type": "full", "model": "x"}`},
			"This is a set of fine-tuned layers, not a whole model: it belongs to the model x" +
				fuse},
		{"an adapter without a config", []string{"adapters.safetensors = x"},
			"This is a LoRA adapter, not a whole model: it does not say which model it belongs to" +
				fuse},
		{"an adapter with a config of another kind", []string{"adapters.safetensors = x",
			`adapter_config.json = [{"peft_type": 7}]`},
			"This is a LoRA adapter, not a whole model: it does not say which model it belongs to" +
				fuse},
		{"an adapter with an odd kind", []string{"adapters.safetensors = x",
			`adapter_config.json = {"peft_type": "a\n\u001b[31m", "model": 3}`},
			"This is an adapter, not a whole model: it does not say which model it " +
				"belongs to" + fuse},
		{"a model beside its adapter",
			[]string{"model.safetensors = x", "adapters.safetensors = x"}, ""},
		{"Diffusers", []string{`model_index.json = {"_class_name": "FluxPipeline"}`,
			"vae/config.json = {}", "vae/diffusion_pytorch_model.safetensors = x"},
			"This is a diffusion model, which makes images, video or sound: model_index.json " +
				"describes a FluxPipeline." + other},
		{"Diffusers with a damaged index", []string{"model_index.json = {"},
			"This is a diffusion model, which makes images, video or sound." + other},
		{"a part of Diffusers",
			[]string{"config.json = {}", "diffusion_pytorch_model-00001-of-00002.safetensors = x"},
			"This is a part of a diffusion model." + other},
		{"another modules.json", []string{"model.safetensors = x", "modules.json = {}"}, ""},
		{"Mistral", []string{"params.json = {}", "consolidated.safetensors = x",
			"tekken.json = {}"}, "This model is in Mistral's own format: its weights are in " +
			"consolidated.safetensors, expected model*.safetensors." + download},
		{"Mistral's shards", []string{"config.json = {}",
			"consolidated-00001-of-00002.safetensors = x"},
			"This model is in Mistral's own format: its weights are in " +
				"consolidated-00001-of-00002.safetensors, expected model*.safetensors." + download},
		{"both of Mistral's formats",
			[]string{"consolidated.safetensors = x", "model.safetensors = x"}, ""},
		{"GGUF with a config", []string{"config.json = {}", "x-Q4_K_M.GGUF = x"},
			"This model is in GGUF format: Headroom runs .safetensors. Import it to convert it " +
				"to MLX's format: drop the file on Headroom's window, or use `headroom models " +
				"import FILE`."},
		{"whisper.cpp", []string{"ggml-base.bin = x"}, inFormat("GGML")},
		{"Core ML", []string{"config.json = {}", "model.mlpackage/Manifest.json = {}"},
			inFormat("Core ML")},
		{"Core ML, compiled", []string{"config.json = {}", "x.mlmodelc/"}, inFormat("Core ML")},
		{"ONNX", []string{"model_q4.onnx = x", "model_q4.onnx_data = x"}, inFormat("ONNX")},
		{"ONNX in a folder", []string{"config.json = {}", "onnx/model_q4.onnx = x"},
			inFormat("ONNX")},
		{"an empty folder onnx", []string{"config.json = {}", "onnx/"}, ""},
		{"PyTorch", []string{"config.json = {}", "pytorch_model-00001-of-00002.bin = x"},
			inFormat("PyTorch")},
		{"Llama's own", []string{"params.json = {}", "consolidated.00.pth = x"},
			inFormat("PyTorch")},
		{"only what training leaves", []string{"config.json = {}", "optimizer.pt = x",
			"rng_state.pth = x", "training_args.bin = x"}, ""},
		{"MLC", []string{"mlc-chat-config.json = {}", "params_shard_0.bin = x"},
			inFormat("MLC")},
		{"OpenVINO", []string{"config.json = {}", "openvino_model.bin = x",
			"openvino_model.xml = x"}, inFormat("OpenVINO")},
		{"LiteRT", []string{"gemma.litertlm = x"}, inFormat("LiteRT")},
		{"NumPy", []string{"config.json = {}", "weights.npz = x"}, inFormat("NumPy")},
		{"NeMo", []string{"parakeet.nemo = x"}, inFormat("NeMo")},
		{"TensorFlow", []string{"config.json = {}", "tf_model.h5 = x"}, inFormat("TensorFlow")},
		{"Flax", []string{"config.json = {}", "flax_model.msgpack = x"}, inFormat("Flax")},
		{"other names", []string{"config.json = {}", "kokoro-v1_0.safetensors = x"},
			"This folder has no language model that Headroom can run: it has " +
				"kokoro-v1_0.safetensors, expected model*.safetensors. Choose the folder of a " +
				"language model in MLX's or Hugging Face's format."},
		{"what macOS leaves on other disks", []string{"config.json = {}", "._x.gguf = x",
			"._x.safetensors = x"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			plant(t, dir, c.files...)
			got := ""
			if p := Foreign(dir); p != nil {
				if got = p.Error(); p.Code != problem.UnknownArchitecture {
					t.Errorf("code %s", p.Code)
				}
			}
			if got != c.want {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

// TestForeignDoesNotHang: a folder has a pipe instead of each file that Foreign reads, and as many
// names as a folder of any model has at most.
func TestForeignDoesNotHang(t *testing.T) {
	for _, name := range []string{"adapter_config.json", "model_index.json", "modules.json"} {
		dir := t.TempDir()
		if err := syscall.Mkfifo(filepath.Join(dir, name), 0o600); err != nil {
			t.Fatal(err)
		}
		done := make(chan *problem.Problem, 1)
		go func() { done <- Foreign(dir) }()
		select {
		case <-done:
		case <-time.After(10 * time.Second):
			t.Fatalf("%s is a pipe, and Foreign waits for it", name)
		}
	}
	many := contents{dir: t.TempDir()}
	for i := range maxNames {
		many.names = append(many.names, fmt.Sprintf("a%d%s", i, strings.Repeat("*[a", 60)))
	}
	begin := time.Now()
	if p := otherFormat(many); p != nil || time.Since(begin) > 5*time.Second {
		t.Errorf("%v after %v", p, time.Since(begin))
	}
	if p := Foreign(filepath.Join(t.TempDir(), "none")); p != nil {
		t.Errorf("a folder that does not exist: %v", p)
	}
}

func TestIsForeign(t *testing.T) {
	for name, want := range map[string]bool{"model_index.json": true, "adapter_config.json": true,
		"A.ONNX": true, "x.mlpackage": true, "pytorch_model.bin": true, "config.json": false,
		"tokenizer.json": false, "optimizer.pt": false, "notes.txt": false, "weights.npz": true,
		"consolidated.safetensors": true, "model.safetensors": false} {
		if got := IsForeign(name); got != want {
			t.Errorf("%s: %t", name, got)
		}
		if got := IsWhole(name); got != (name == "model_index.json" ||
			name == "adapter_config.json") {
			t.Errorf("%s is a whole model: %t", name, got)
		}
	}
}

// FuzzForeign reads any texts as the files that describe a folder.
func FuzzForeign(f *testing.F) {
	f.Add([]byte(`{"peft_type": "LORA", "base_model_name_or_path": "a/b"}`), byte(0))
	f.Add([]byte(`{"_class_name": "FluxPipeline"}`), byte(1))
	f.Add([]byte(`{"peft_type": [], "use_dora": {}, "model": {"model": "x"}}`), byte(0))
	names := []string{adapterConfig, pipelineConfig}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text []byte, which byte) {
		name := names[int(which)%len(names)]
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		defer os.Remove(path)
		p := Foreign(dir)
		if p == nil {
			t.Errorf("%s: %v", name, p)
		}
		if p != nil && (p.Message == "" || p.Fix == "" || len(p.Error()) > 1000) {
			t.Errorf("%s: %q", name, p)
		}
	})
}
