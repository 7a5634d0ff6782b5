package engine_test

import (
	"bytes"
	"encoding/binary"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"headroom/engine"
	"headroom/engine/models/modelstest"
	"headroom/engine/safetensors"
)

// damage makes a number of a norm in a folder NaN, which only loading finds. The name of the norm
// contains part.
func damage(t *testing.T, src engine.Source, part string) engine.Source {
	t.Helper()
	path := filepath.Join(src.Dir, "model.safetensors")
	f, err := safetensors.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	i := slices.IndexFunc(f.Names(), func(name string) bool {
		return strings.Contains(name, part) && strings.HasSuffix(name, "norm.weight")
	})
	if i < 0 {
		t.Fatalf("%s has no norm with %q in its name", path, part)
	}
	x, _ := f.Tensor(f.Names()[i])
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	bits := math.Float32bits(float32(math.NaN()))
	if x.DType == safetensors.F32 {
		binary.LittleEndian.PutUint32(data[x.From:], bits)
	} else { // the upper half is NaN in bfloat16, and in float16
		binary.LittleEndian.PutUint16(data[x.From:], uint16(bits>>16))
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return src
}

// TestDamagedDrafter: a drafter whose weights are damaged is named, and the model runs without it
// unless it is required. If the model is the damaged one, that is named.
func TestDamagedDrafter(t *testing.T) {
	model, block := splitDemo(t, nil)
	damaged, sound := splitDemo(t, nil)
	whole := engine.Source{Dir: t.TempDir()}
	if err := os.CopyFS(whole.Dir, demoSource(t).FS); err != nil {
		t.Fatal(err)
	}
	qwen3, hybrid := tinySource(t, "qwen3"), tinySource(t, "qwen3_5_text")
	for _, c := range []struct {
		name         string
		model, draft engine.Source
		optional     string // log line of the model without an optional drafter; "": it fails
	}{
		{"block", model, damage(t, block, ""), "the draft model is not used"},
		{"model beside a block", damage(t, damaged, ""), sound, ""},
		{"its own block", damage(t, whole, "mtp."), engine.Source{},
			"the model's block that drafts tokens cannot be used"},
		{"draft model", qwen3, damage(t, tinySource(t, "qwen3"), ""),
			"the draft model is not used"},
		{"DFlash drafter", hybrid, damage(t, dflashSource(t, nil), ""),
			"the draft model is not used"},
		{"assistant", tinySource(t, "gemma4_text"),
			damage(t, assistantSource(t, modelstest.SharedTarget), ""),
			"the draft model is not used"},
		{"model beside an assistant", damage(t, tinySource(t, "gemma4_text"), ""),
			assistantSource(t, modelstest.SharedTarget), ""},
		{"model beside a draft model", damage(t, tinySource(t, "qwen3"), ""), qwen3,
			""},
		{"model beside a DFlash drafter", damage(t, tinySource(t, "qwen3_5_text"), ""),
			dflashSource(t, nil), ""},
		{"model without a tensor beside a block", withoutTensor(t), sound, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := engine.Options{Speculate: engine.SpeculateAuto, ContextTokens: 512}
			blame := c.model.Dir
			if c.draft.Dir != "" {
				o.DraftModel = &engine.DraftModel{Source: c.draft, Name: "small", Required: true}
				if c.optional != "" {
					blame = c.draft.Dir
				}
				_, err := engine.Open(t.Context(), c.model, o)
				if err == nil || !strings.Contains(err.Error(), blame) ||
					strings.Count(err.Error(), ". ") > 1 || c.optional != "" !=
					strings.Contains(err.Error(), "The draft model cannot be used") {
					t.Errorf("required: got %v, expected that %s is to blame", err, blame)
				}
				o.DraftModel.Required = false
			}
			var log bytes.Buffer
			logTo(t, slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
			e, err := engine.Open(t.Context(), c.model, o)
			if c.optional == "" {
				if err == nil || !strings.Contains(err.Error(), blame) {
					t.Errorf("got %v, expected that %s is to blame", err, blame)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			if got := log.String(); strings.Count(got, "\n") != 1 ||
				!strings.Contains(got, c.optional) || !strings.Contains(got, blame) {
				t.Errorf("opening the model logged %s", got)
			}
			r := engine.Request{Prompt: someIDs(1, 20), MaxTokens: 8, IgnoreEOS: true}
			if got, _, _ := collect(t, submit(t, e, r)); len(got) != 8 || e.Info().Drafter != "" {
				t.Errorf("%d tokens, drafter %q", len(got), e.Info().Drafter)
			}
		})
	}
}

// withoutTensor returns the demo model without its block and without a norm, which planning finds.
func withoutTensor(t *testing.T) engine.Source {
	t.Helper()
	src, _ := splitDemo(t, nil)
	path := filepath.Join(src.Dir, "model.safetensors")
	f, err := safetensors.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	var kept []safetensors.Tensor
	for _, name := range f.Names() {
		x, _ := f.Tensor(name)
		if x.Data = bytes.Clone(x.Data); !strings.HasSuffix(name, "model.norm.weight") {
			kept = append(kept, x)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	if err := safetensors.Write(&file, kept, nil); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, file.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return src
}
