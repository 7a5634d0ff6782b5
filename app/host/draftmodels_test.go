package host

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"headroom/app/demo"
	"headroom/app/library"
	"headroom/app/settings"
	"headroom/engine"
	"headroom/engine/modelfile"
)

// TestDraftModels: a folder with a block or another drafter is listed as a drafter, not as a
// model that is broken or not supported, and offered to the model that it is made for.
func TestDraftModels(t *testing.T) {
	h := newTestHostWith(t, func(o *Options) {
		root := o.Library.Roots()[0]
		block := `{"model_type": "qwen3_5_mtp", "text_config": {"model_type": "qwen3_5_moe_text",
			"hidden_size": %d, "vocab_size": 2304}}`
		dflash := `{"architectures": ["DFlashDraftModel"], "model_type": "qwen3",
			"hidden_size": %d, "vocab_size": 2304, "dflash_config": {}}`
		for name, config := range map[string]string{
			"fits-MTP-4bit": fmt.Sprintf(block, 256), "other-MTP-4bit": fmt.Sprintf(block, 128),
			"fits-DFlash": fmt.Sprintf(dflash, 256), "other-DFlash": fmt.Sprintf(dflash, 128),
			"other-assistant": `{"model_type": "gemma4_assistant", "backbone_hidden_size": 256,
				"text_config": {"model_type": "gemma4_text", "vocab_size": 2304}}`,
		} {
			dir := filepath.Join(root, name)
			header := `{"fc.weight":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`
			file := append([]byte{byte(len(header)), 0, 0, 0, 0, 0, 0, 0}, header...)
			_ = os.Mkdir(dir, 0o755)
			_ = os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o600)
			file = append(file, 0, 0, 0, 0)
			_ = os.WriteFile(filepath.Join(dir, "model.safetensors"), file, 0o600)
		}
		o.Library = library.New([]string{root}, engine.Options{}, engine.Describe)
	})
	for _, m := range h.Models(0).Models {
		drafter := strings.HasPrefix(m.ID, "fits-") || strings.HasPrefix(m.ID, "other-")
		if drafter != (m.State == library.Drafter) {
			t.Errorf("%s is %s", m.ID, m.State)
		}
		if m.State == library.Drafter && !strings.Contains(m.Error, "drafts tokens for another") {
			t.Errorf("%s: %s", m.ID, m.Error)
		}
	}
	got, err := h.DraftModels(demo.ID)
	if err != nil || !slices.Equal(got, []string{"fits-DFlash", "fits-MTP-4bit"}) {
		t.Errorf("offered to the demo model: %q, %v", got, err)
	}
	for _, id := range []string{"fits-MTP-4bit", "unknown"} {
		if got, err := h.DraftModels(id); err == nil {
			t.Errorf("offered to %s: %q", id, got)
		}
	}
}

// TestCheckDraftModel: settings with a draft model of another vocabulary, which the description of
// a model does not tell, are refused. If the way to decode ahead rules it out, they are not.
func TestCheckDraftModel(t *testing.T) {
	h := newTestHostWith(t, func(o *Options) {
		o.Library = library.New(o.Library.Roots(), engine.Options{}, engine.Describe)
	})
	other := engine.Random([]byte(`{"model_type": "qwen3", "hidden_size": 128, "vocab_size": 256,
		"intermediate_size": 128, "num_hidden_layers": 1, "num_attention_heads": 2,
		"num_key_value_heads": 1, "head_dim": 64, "max_position_embeddings": 4096,
		"quantization": {"bits": 4, "group_size": 64}}`))
	for how, refused := range map[string]bool{engine.SpeculateAuto: true,
		engine.SpeculateOff: false} {
		o := engine.Options{Speculate: how, AvailableBytes: 1 << 40,
			DraftModel: &engine.DraftModel{Source: other, Required: true}}
		err := h.CheckModel(demo.ID, settings.Model{DraftModel: "other"}, o)
		if refused != (err != nil) ||
			refused && !strings.Contains(err.Error(), "its vocabulary is another") {
			t.Errorf("%s: got %v", how, err)
		}
	}
}

// TestDraftModelOfVectors: the settings of a model that generates no text name no draft model, in
// whatever way it would decode ahead. A flag's draft model, which is that of all models, is no
// fault of this one's settings.
func TestDraftModelOfVectors(t *testing.T) {
	for task, refused := range map[modelfile.Task]bool{modelfile.Generate: false,
		modelfile.Embed: true, modelfile.Rerank: true} {
		h := newTestHostWith(t, func(o *Options) {
			describe := func(engine.Source, engine.Options) (engine.Description, error) {
				return engine.Description{Architecture: "fake", Task: task}, nil
			}
			o.Library = library.New(o.Library.Roots(), engine.Options{}, describe)
		})
		flags := engine.Options{DraftModel: &engine.DraftModel{}}
		if err := h.CheckModel("a", settings.Model{}, flags); err != nil {
			t.Errorf("%q without a draft model of its own: %v", task, err)
		}
		err := h.CheckModel("a", settings.Model{DraftModel: "b"}, engine.Options{})
		if refused != (err != nil) ||
			refused && !strings.Contains(err.Error(), "generates no text") {
			t.Errorf("%q with a draft model: %v", task, err)
		}
	}
}
