package library

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"headroom/engine"
	"headroom/engine/modelfile"
	"headroom/engine/problem"
)

// shard returns a .safetensors file with one tensor of dataBytes, truncated to maxBytes.
func shard(dataBytes, maxBytes int) string {
	header := fmt.Sprintf(`{"__metadata__":{"format":"mlx"},`+
		`"w":{"dtype":"U8","shape":[%d],"data_offsets":[0,%d]}}`, dataBytes, dataBytes)
	text := string(binary.LittleEndian.AppendUint64(nil, uint64(len(header)))) + header +
		strings.Repeat("x", dataBytes)
	return text[:min(len(text), maxBytes)]
}

// strictDescribe is a Describe that, like the engine, says what other folders hold, and refuses
// truncated weights and models without a tokenizer.
func strictDescribe(src engine.Source, o engine.Options) (engine.Description, error) {
	if src.FS != nil {
		return engine.Description{}, nil
	}
	if p := modelfile.Foreign(src.Dir); p != nil {
		return engine.Description{}, p
	}
	if _, err := os.Stat(filepath.Join(src.Dir, "tokenizer.json")); err != nil {
		return engine.Description{},
			problem.New(problem.ModelBroken, "There is no tokenizer.json", "", "")
	}
	weights, _ := filepath.Glob(filepath.Join(src.Dir, "*.safetensors"))
	for _, path := range weights {
		info, _ := os.Stat(path)
		if want, pointer := readExpectedBytes(path, new(int64)); pointer || want != info.Size() {
			return engine.Description{},
				problem.New(problem.ModelBroken, "A file is truncated", "", "")
		}
	}
	return new(fakeDescribe).describe(src, o)
}

// TestStrayFiles checks that a file which lies in a folder of models by mistake is named, and hides
// none of the models.
func TestStrayFiles(t *testing.T) {
	whole := shard(100, 1000)
	model := func(dir string) []string {
		return []string{dir + "/config.json = x", dir + "/tokenizer.json = x",
			dir + "/model.safetensors = " + whole}
	}
	const noModel = " not_loadable it has loose.safetensors, expected model*.safetensors"
	cases := []struct {
		name  string
		files []string // beside those of the models m and org/m
		want  []string // beside the lines of m and org/m
	}{
		{"weights in the root", []string{"loose.safetensors = x"}, []string{"ROOT" + noModel}},
		{"weights with a model's name in the root", []string{"model.safetensors = x"},
			[]string{"ROOT broken config.json is missing"}},
		{"config.json in the root", []string{"config.json = broken"}, []string{"ROOT broken "}},
		{"an adapter in the root", []string{"adapter_config.json = {}"},
			[]string{"ROOT not_loadable it does not say which model it belongs to"}},
		{"weights in the publisher's folder", []string{"org/loose.safetensors = x"},
			[]string{"org" + noModel}},
		{"GGUF in the publisher's folder", []string{"org/loose.gguf = x"},
			[]string{"org not_loadable Headroom runs .safetensors"}},
		{"weights and GGUF in the root", []string{"loose.safetensors = x", "a.gguf = x"},
			[]string{"ROOT not_loadable Headroom runs .safetensors",
				"a not_loadable Headroom runs .safetensors"}},
		{"parts of a model that is not whole", []string{"org/p/config.json = broken",
			"org/p/onnx/model.onnx = x", "org/p/voices/a.pt = x", "org/p/sub/config.json = x"},
			[]string{"org/p not_loadable Headroom runs .safetensors"}},
		{"parts of a diffusion model", append(model("org/p/text_encoder"),
			"org/p/model_index.json = {}"), []string{"org/p not_loadable "}},
		{"parts of a model", append(model("m/original"), "m/loose.gguf = x"), nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			root := t.TempDir()
			// Different weights, so that the models are not copies.
			plant(t, root, slices.Concat(model("org/m"), []string{"m/config.json = x",
				"m/tokenizer.json = x", "m/model.safetensors = " + shard(99, 1000)}, c.files)...)
			var got []string
			for _, m := range New([]string{root}, engine.Options{}, strictDescribe).Scan()[1:] {
				line := strings.Replace(m.ID, filepath.Base(root), "ROOT", 1)
				line += " " + string(m.State)
				if m.Err != nil {
					line += " " + problem.From(m.Err).Why
				}
				got = append(got, line)
			}
			want := append([]string{"m ready", "org/m ready"}, c.want...)
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("got  %q\nwant %q", got, want)
			}
		})
	}
}

func TestStates(t *testing.T) {
	const two = `{"metadata":{"total_size":200},"weight_map":{"a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors"}}`
	whole := shard(100, 1000)
	cases := []struct {
		name  string
		files []string
		want  string // "id state why" of the only model besides the bundled one
		done  string // DoneBytes/TotalBytes of a download
	}{
		{"ready", []string{"m/config.json = x", "m/tokenizer.json = x",
			"m/model.safetensors = " + whole}, "m ready", ""},
		{"a file that is still being copied",
			[]string{"m/config.json = x", "m/tokenizer.json = x",
				"m/model.safetensors = " + shard(100, 150)},
			"m downloading A file is truncated", fmt.Sprintf("150/%d", len(whole))},
		{"a file with half of its header",
			[]string{"m/config.json = x", "m/tokenizer.json = x",
				"m/model.safetensors = " + shard(100, 20)}, "m downloading A file is truncated",
			fmt.Sprintf("20/%d", len(whole)-100)},
		{"a file longer than its header says",
			[]string{"m/config.json = x", "m/tokenizer.json = x",
				"m/model.safetensors = " + whole + "?"}, "m broken A file is truncated", ""},
		{"a missing shard, named by the index",
			[]string{"m/config.json = x", "m/" + indexName + " = " + two,
				"m/model-00001-of-00002.safetensors = " + whole},
			"m downloading 1 file is missing (model-00002-of-00002.safetensors)",
			fmt.Sprintf("%d/200", len(whole))},
		{"a missing shard, implied by the other's name",
			[]string{"m/config.json = x", "m/model-00001-of-00002.safetensors = " + whole},
			"m downloading 1 file is missing (model-00002-of-00002.safetensors)",
			fmt.Sprintf("%d/0", len(whole))},
		{"many missing shards",
			[]string{"m/config.json = x", "m/model-00001-of-00009.safetensors = x"},
			"m downloading 8 files are missing (model-00002-of-00009.safetensors, " +
				"model-00003-of-00009.safetensors, model-00004-of-00009.safetensors and 5 more)",
			"1/0"},
		{"LM Studio's unfinished file", []string{"pub/m/config.json = x",
			"pub/m/downloading_model.safetensors.part = 12345"},
			"pub/m downloading 1 file is incomplete", "5/0"},
		{"only an unfinished file", []string{"m/model.safetensors.crdownload = 12345"},
			"m downloading 1 file is incomplete", "5/0"},
		{"aria2 allocates the complete file first",
			[]string{"m/config.json = x", "m/tokenizer.json = x", "m/model.safetensors = " + whole,
				"m/model.safetensors.aria2 = ctl"},
			"m downloading 1 file is incomplete", fmt.Sprintf("%d/0", len(whole))},
		{"an unfinished file beside the complete one",
			[]string{"m/config.json = x", "m/tokenizer.json = x", "m/model.safetensors = " + whole,
				"m/model.safetensors.part = 123"}, "m ready", ""},
		{"an unfinished file of another kind",
			[]string{"m/config.json = x", "m/tokenizer.json = x", "m/film.mkv.part = 123"},
			"m ready", ""},
		{"Hugging Face's tools download to a folder",
			[]string{"m/config.json = x",
				"m/.cache/huggingface/download/tokenizer.json.abc.incomplete = 123"},
			"m downloading 1 file is incomplete", "3/0"},
		{"a leftover of Hugging Face's tools",
			[]string{"m/config.json = x", "m/tokenizer.json = x",
				"m/.cache/huggingface/download/x.abc.incomplete = 123"}, "m ready", ""},
		{"the hub, another revision still downloading",
			[]string{"models--o--m/snapshots/c/config.json = x",
				"models--o--m/snapshots/c/tokenizer.json = x",
				"models--o--m/blobs/e.incomplete = 1"}, "o/m ready", ""},
		{"the hub, the tokenizer still downloading",
			[]string{"models--o--m/snapshots/c/config.json = x",
				"models--o--m/blobs/e.incomplete = 1"}, "o/m downloading 1 file is incomplete",
			"1/0"},
		{"a Git LFS pointer", []string{"m/config.json = x", "m/tokenizer.json = x",
			"m/model.safetensors = version https://git-lfs.github.com/spec/v1"},
			"m broken model.safetensors is only a Git LFS pointer", ""},
		{"PyTorch weights only", []string{"m/config.json = broken", "m/pytorch_model.bin = x"},
			"m not_loadable Headroom runs .safetensors", ""},
		{"GGUF in a folder", []string{"pub/m/a-Q4.gguf = 123", "pub/m/a-Q8.gguf = 12345"},
			"pub/m not_loadable Headroom runs .safetensors", ""},
		{"GGUF still downloading", []string{"pub/m/downloading_a.gguf.part = 123"},
			"pub/m not_loadable Headroom runs .safetensors; downloading_a.gguf.part is still " +
				"downloading", ""},
		{"GGUF in the hub", []string{"models--o--m/blobs/b = 123",
			"models--o--m/snapshots/c/a.gguf -> ../../blobs/b"},
			"o/m not_loadable Headroom runs .safetensors", ""},
		{"a loose GGUF in shards",
			[]string{"x-00001-of-00002.gguf = 1", "x-00002-of-00002.gguf = 1"},
			"x not_loadable Headroom runs .safetensors", ""},
		{"Ollama", []string{"blobs/sha256-1 = x",
			`manifests/registry.ollama.ai/library/qwen3/4b = {"layers":[{"digest":"sha256:1","size":7}]}`}, "qwen3:4b not_loadable Headroom runs .safetensors", ""},
		{"Ollama, with a namespace, still downloading",
			[]string{"blobs/",
				`manifests/r/joe/q/latest = {"layers":[{"digest":"sha256:1","size":7}]}`},
			"joe/q:latest not_loadable Headroom runs .safetensors; 1 of 1 files missing",
			""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			root := t.TempDir()
			plant(t, root, c.files...)
			models := New([]string{root}, engine.Options{}, strictDescribe).Scan()[1:]
			if len(models) != 1 {
				t.Fatalf("%d models: %s", len(models), dump(models))
			}
			m := models[0]
			got := m.ID + " " + string(m.State)
			if m.Err != nil {
				p := problem.From(m.Err)
				if p.Why == "" {
					p.Why = p.Message
				}
				got += " " + p.Why
			}
			if got != c.want || (m.Err == nil) != (m.State == Ready) {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
			if (m.Download != nil) != (m.State == Downloading) || m.Download != nil &&
				fmt.Sprint(m.Download.DoneBytes, "/", m.Download.TotalBytes) != c.done {
				t.Errorf("download %+v, want %s", m.Download, c.done)
			}
		})
	}
}

// TestOtherFolders: folders that are no language models are listed once, wherever they are, and are
// not damaged.
func TestOtherFolders(t *testing.T) {
	for _, c := range []struct {
		name  string
		files []string
		want  []string // "id state", and the size of what is not loadable
	}{
		{"an adapter", []string{"a/adapter_config.json = {}", "a/adapters.safetensors = 1234"},
			[]string{"a not_loadable 4"}},
		{"an adapter without weights", []string{"a/adapter_config.json = {}"},
			[]string{"a not_loadable 0"}},
		{"an adapter that is still copied", []string{"a/adapter_config.json = {}",
			"a/adapters.safetensors.part = 12"}, []string{"a downloading"}},
		{"the parts of a diffusion model are not models", []string{"f/model_index.json = {}",
			"f/vae/config.json = {}", "f/vae/diffusion_pytorch_model.safetensors = x",
			"f/text_encoder/config.json = {}", "f/text_encoder/model.safetensors = x"},
			[]string{"f not_loadable 0"}},
		{"a diffusion model of a publisher", []string{"p/f/model_index.json = {}",
			"p/f/unet/config.json = {}"}, []string{"p/f not_loadable 0"}},
		{"the hub", []string{"models--o--f/snapshots/c/model_index.json = {}",
			"models--o--f/snapshots/c/vae/config.json = {}",
			"models--o--x/snapshots/c/model.onnx = 123",
			"models--o--t/snapshots/c/tokenizer.json = {}",
			"models--o--a/snapshots/c/adapter_model.safetensors = 12"},
			[]string{"o/a not_loadable 2", "o/f not_loadable 0", "o/x not_loadable 3"}},
		{"ONNX", []string{"a/model.onnx = 123", "a/model.onnx_data = 1",
			"p/b/config.json = {}", "p/b/onnx/model.onnx = 1"},
			[]string{"a not_loadable 3", "p/b not_loadable 0"}},
		{"Core ML", []string{"a/x.mlpackage/Manifest.json = {}"}, []string{"a not_loadable 0"}},
		{"PyTorch without a config", []string{"a/pytorch_model.bin = 12",
			"b/consolidated.00.pth = 1", "b/params.json = {}"},
			[]string{"a not_loadable 2", "b not_loadable 1"}},
		{"a publisher with a file beside the models", []string{"p/x.onnx = 1",
			"p/m/config.json = {}", "p/m/model.safetensors = " + shard(10, 1000),
			"p/m/tokenizer.json = {}"}, []string{"p not_loadable 1", "p/m ready"}},
		{"folders of something else", []string{"notes/a.txt = x", "train/optimizer.pt = x",
			"train/deeper/scheduler.pt = x"}, nil},
		{"a root with a file of another format", []string{"x.onnx = 1", "m/config.json = {}",
			"m/model.safetensors = " + shard(10, 1000), "m/tokenizer.json = {}"},
			[]string{"m ready"}},
		{"weights without a config", []string{"m/model.safetensors = " + shard(10, 1000)},
			[]string{"m broken"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := t.TempDir()
			plant(t, root, c.files...)
			l := New([]string{root}, engine.Options{}, strictDescribe)
			var got []string
			for _, m := range l.Scan()[1:] {
				line := m.ID + " " + string(m.State)
				if m.State == NotLoadable {
					line += fmt.Sprint(" ", m.SizeBytes)
				}
				got = append(got, line)
				if again, err := l.Resolve(m.Dir); again.State != m.State ||
					(err == nil) != (m.Err == nil) {
					t.Errorf("%s by its path: %s, %v", m.ID, again.State, err)
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

// TestCopies: models with the same content are merged; equal sizes are not enough.
func TestCopies(t *testing.T) {
	hub, studio := t.TempDir(), filepath.Join(t.TempDir(), ".lmstudio/models")
	weights := shard(300_000, 1<<20)
	other := weights[:len(weights)-1] + "y" // a fine-tune: headers and sizes are the same
	plant(t, hub, "models--org--m/blobs/w = "+weights,
		"models--org--m/snapshots/c/model.safetensors -> ../../blobs/w",
		"models--org--m/snapshots/c/config.json = x")
	plant(t, studio, "org/m/config.json = x", "org/m/model.safetensors = "+weights,
		"org/mine/config.json = x", "org/mine/model.safetensors = "+other)
	l := New([]string{hub, studio}, engine.Options{}, new(fakeDescribe).describe)
	models := l.Scan()
	if len(models) != 3 || models[1].ID != "org/m" || models[2].ID != "org/mine" {
		t.Fatalf("%s", dump(models))
	}
	want := []Place{{"org/m", filepath.Join(hub, "models--org--m/snapshots/c"), HuggingFace},
		{"org/m", filepath.Join(studio, "org/m"), LMStudio}}
	if !slices.Equal(models[1].Places, want) {
		t.Errorf("places %v, want %v", models[1].Places, want)
	}
	if copies := []string{filepath.Join(studio, "org/m")}; !slices.Equal(models[1].Copies, copies) {
		t.Errorf("copies %q, want %q", models[1].Copies, copies)
	}
	if m, err := l.ResolveAmong(models, "org/m"); err != nil || m.Dir != want[0].Dir ||
		len(m.Places) != 2 {
		t.Errorf("%+v, %v", m, err)
	}
	for _, name := range []string{"tokenizer.json", "tokenizer_config.json",
		"chat_template.jinja", "generation_config.json"} {
		file := filepath.Join(studio, "org/m", name)
		plant(t, studio, "org/m/"+name+" = {}")
		if again := l.Scan(); len(again) != 4 {
			t.Errorf("another %s: %s", name, dump(again))
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		if again := l.Scan(); len(again) != 3 {
			t.Errorf("without another %s: %s", name, dump(again))
		}
	}
	plant(t, studio, "org/m/config.json = broken")
	if again := l.Scan(); len(again) != 4 || again[2].ID != want[1].Dir ||
		again[2].State != Broken {
		t.Errorf("after one copy broke: %s", dump(again))
	}
}

// TestResolveInspectsAgain: Resolve inspects the folder again, because the list may be stale.
func TestResolveInspectsAgain(t *testing.T) {
	root := t.TempDir()
	plant(t, root, "m/config.json = x", "n/config.json = x")
	l := New([]string{root}, engine.Options{}, new(fakeDescribe).describe)
	models := l.Scan()
	plant(t, root, "m/config.json = broken", "new/config.json = x")
	if _, err := l.ResolveAmong(models, "m"); err == nil ||
		!strings.Contains(err.Error(), "It is broken") {
		t.Errorf("a model damaged since the scan: %v", err)
	}
	if m, err := l.ResolveAmong(models, "new"); err != nil || m.ID != "new" {
		t.Errorf("a model added since the scan: %+v, %v", m, err)
	}
	if err := os.RemoveAll(filepath.Join(root, "n")); err != nil {
		t.Fatal(err)
	}
	if _, err := l.ResolveAmong(models, "n"); err == nil ||
		problem.From(err).Code != problem.ModelNotFound {
		t.Errorf("a model removed since the scan: %v", err)
	}
}

func TestChanges(t *testing.T) {
	before := []Model{{ID: "a", State: Ready},
		{ID: "b", State: Downloading, Download: &Download{DoneBytes: 1}}, {ID: "c", State: Broken},
		{ID: "d"}}
	after := []Model{{ID: "new"}, {ID: "a", State: Ready},
		{ID: "b", State: Downloading, Download: &Download{DoneBytes: 2}}, {ID: "c", State: Ready}}
	var got []string
	for _, c := range Changes(before, after) {
		got = append(got, string(c.Kind)+" "+c.Model.ID)
	}
	want := []string{"appeared new", "changed b", "finished c", "vanished d"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func FuzzIndex(f *testing.F) {
	f.Add([]byte(`{"metadata":{"total_size":1.5e10},"weight_map":{"a":"model-00001-of-00002.safetensors","b":"../x"}}`))
	f.Add([]byte(`{"weight_map":[]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		x := parseIndex(text)
		if x.totalBytes < 0 || !slices.IsSorted(x.shards) {
			t.Errorf("%+v", x)
		}
		for _, name := range x.shards {
			if name == "" || strings.ContainsAny(name, "/\\\x00") {
				t.Errorf("shard %q leads out of the folder", name)
			}
		}
	})
}

func FuzzManifest(f *testing.F) {
	f.Add([]byte(`{"layers":[{"digest":"sha256:ab","size":12},{"digest":"sha256:cd","size":9223372036854775807}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if m := parseManifest(text); m.sizeBytes < 0 || len(m.digests) == 0 && m.sizeBytes != 0 {
			t.Errorf("%+v", m)
		}
	})
}

func FuzzHeader(f *testing.F) {
	f.Add([]byte(`{"w":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}`))
	f.Add([]byte(`{"w":{"data_offsets":[0,-4]}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if end, ok := headerEnd(text); end < 0 || !ok && end != 0 {
			t.Errorf("%d, %t", end, ok)
		}
	})
}

func FuzzSiblings(f *testing.F) {
	f.Add("model-00001-of-00003.safetensors")
	f.Add("x-00009-of-99999.gguf")
	f.Fuzz(func(t *testing.T, name string) {
		for _, s := range siblings(name) {
			if len(s) != len(name) || strings.ContainsRune(s, '/') &&
				!strings.ContainsRune(name, '/') {
				t.Errorf("%q among the siblings of %q", s, name)
			}
		}
	})
}

// TestManyLargeHeaders: a folder with many large headers costs no more than one with a few. The
// lengths of the files after that are unknown.
func TestManyLargeHeaders(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.safetensors")
	header := "{" + strings.Repeat(" ", maxHeaderBytes/2-2) + "}"
	text := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	if err := os.WriteFile(path, append(text, header...), 0o600); err != nil {
		t.Fatal(err)
	}
	read := int64(0)
	for i, want := range []int64{8 + maxHeaderBytes/2, 8 + maxHeaderBytes/2, 0, 0} {
		if got, _ := readExpectedBytes(path, &read); got != want {
			t.Errorf("file %d: %d bytes, want %d", i, got, want)
		}
	}
}
