package models_test

import (
	"testing"

	"headroom/engine/checkpoint"
	"headroom/engine/plan"
)

// TestFloatDescriptions checks what the plan says about models in FP8 and NVFP4: their packing, and
// as many parameters as the same models have in bfloat16.
func TestFloatDescriptions(t *testing.T) {
	for name, c := range map[string]struct{ plain, packing string }{
		"qwen3_fp8":       {"qwen3", "fp8"},
		"deepseek_v3_fp8": {"deepseek_v3_original", "fp8"},
		"llama_fp8":       {"llama", "fp8"},
		"llama_nvfp4":     {"llama", "nvfp4"},
		"qwen3_moe_nvfp4": {"qwen3_moe", "nvfp4"},
	} {
		src := checkpoint.Source{Dir: readTiny(t, name).write(t)}
		giveTokenizer(t, src)
		p, err := plan.New(src, plan.Options{ContextTokens: 256, AvailableBytes: 1 << 30})
		if err != nil {
			t.Fatal(name, err)
		}
		if got := p.Description.Quantization; got != c.packing {
			t.Errorf("%s: described as %q, expected %q", name, got, c.packing)
		}
		plain := readTiny(t, c.plain).parameters()
		if got := p.Description.Parameters; got != plain {
			t.Errorf("%s: %d parameters, expected %d", name, got, plain)
		}
	}
}
