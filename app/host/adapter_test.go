package host

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"headroom/app/library"
	"headroom/engine"
	"headroom/engine/safetensors"
)

// TestAdapterOfTheFirstModel: the adapter of the options is for the model that is started first, in
// every load of it, and for no other.
func TestAdapterOfTheFirstModel(t *testing.T) {
	m := newMachine(t, 10, 10, 0)
	m.options.Adapter = &engine.Adapter{Name: "style", Dir: "/style"}
	loadedWith := func(model, want string) {
		t.Helper()
		m.request(model)()
		m.mu.Lock()
		defer m.mu.Unlock()
		got := ""
		if a := m.loaded[model].o.Adapter; a != nil {
			got = a.Name
		}
		if got != want {
			t.Errorf("%s is loaded with the adapter %q, want %q", model, got, want)
		}
	}
	m.start("a")
	loadedWith("a", "style")
	loadedWith("b", "")
	m.start("b")
	loadedWith("b", "")
	m.Stop()
	loadedWith("a", "style")
}

// TestStartWithAdapter: a person may name an adapter after the model. Another adapter loads the
// model again, the same one does not.
func TestStartWithAdapter(t *testing.T) {
	h := newTestHostWith(t, func(o *Options) {
		o.Library = library.New(o.Library.Roots(), engine.Options{},
			func(src engine.Source, o engine.Options) (engine.Description, error) {
				if strings.Contains(src.Dir, "mine") {
					return engine.Describe(src, o)
				}
				return engine.Description{}, nil
			})
	})
	for _, name := range []string{"style", "other"} {
		dir := filepath.Join(h.root, "mine", name)
		for file, text := range map[string]string{"adapters.safetensors": "x",
			"adapter_config.json": `{"model": "a", "lora_parameters": {"scale": 1}}`} {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, c := range []struct{ name, want string }{{"a+style", "style"}, {"a+other", "other"}} {
		h.start(c.name)
		e := h.loading("a")
		e.finish <- nil
		if err := h.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if e.o.Adapter == nil || e.o.Adapter.Name != c.want {
			t.Errorf("%s is loaded with %v", c.name, e.o.Adapter)
		}
	}
	h.start("a+other")
	h.start("a")
	if len(h.opened) != 0 {
		t.Error("the model is loaded again with the adapter that it has")
	}
	for name, want := range map[string]string{"a+none": "its adapters are ", "none+style": "none+",
		"b+style": "has no adapter"} {
		if err := h.Start(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}

// TestNeedWithAdapter: what a model needs includes the adapter with which it is started, in the
// list, in the what-if panel, in the room that is made for it and when it is loaded.
func TestNeedWithAdapter(t *testing.T) {
	root := figureModels(t)
	dir := filepath.Join(root, "qwen3", "style")
	var config struct {
		Hidden int `json:"hidden_size"`
		Wide   int `json:"intermediate_size"`
	}
	text, err := os.ReadFile(filepath.Join(root, "qwen3", "config.json"))
	if err == nil {
		err = json.Unmarshal(text, &config)
	}
	const rank = 512
	var file bytes.Buffer
	matrix := func(name string, rows, cols int) safetensors.Tensor {
		return safetensors.Tensor{Name: "model.layers.0.mlp.up_proj." + name,
			DType: safetensors.F32, Shape: []int{rows, cols}, Data: make([]byte, 4*rows*cols)}
	}
	err = errors.Join(err, os.Mkdir(dir, 0o755), safetensors.Write(&file, []safetensors.Tensor{
		matrix("lora_a", config.Hidden, rank), matrix("lora_b", rank, config.Wide)}, nil),
		os.WriteFile(filepath.Join(dir, "adapters.safetensors"), file.Bytes(), 0o600),
		os.WriteFile(filepath.Join(dir, "adapter_config.json"),
			[]byte(`{"lora_parameters": {"rank": 512, "scale": 1}}`), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	h := newTestHostWith(t, func(o *Options) {
		o.Library = library.New([]string{root}, engine.Options{}, engine.Describe)
		o.Engine = func(string) engine.Options {
			return engine.Options{Threads: 1, ContextTokens: 512, MaxSequences: 1}
		}
		o.Open = nil
	})
	need := func() int64 {
		t.Helper()
		w, err := h.WhatIf(WhatIfQuery{Model: "qwen3"})
		if err != nil {
			t.Fatal(err)
		}
		return w.Formats[0].NeedBytes
	}
	listed := func() int64 {
		for _, m := range h.Models(512).Models {
			if m.ID == "qwen3" {
				return m.NeedBytes
			}
		}
		return 0
	}
	alone, aloneListed, adapter := need(), listed(), engine.AdapterBytes(dir)
	if adapter < 4*rank*int64(config.Hidden+config.Wide) {
		t.Fatalf("the adapter has %d bytes", adapter)
	}
	if err := h.Start("qwen3+style"); err != nil {
		t.Fatal(err)
	}
	if err := h.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	m, _, err := h.modelByID("qwen3")
	if err != nil {
		t.Fatal(err)
	}
	room, err := h.loadNeedOf(m)
	if err != nil {
		t.Fatal(err)
	}
	info := h.frontTarget().engine.Info()
	loaded := info.Need.TotalBytes()
	if got := need(); got != alone+adapter || loaded != got || room.least != got {
		t.Errorf("it needs %d with the adapter of %d bytes and %d without, loaded %d, room %d", got,
			adapter, alone, loaded, room.least)
	}
	if got := listed(); got != aloneListed+adapter {
		t.Errorf("the list says %d, and %d without the adapter of %d bytes", got, aloneListed,
			adapter)
	}
}
