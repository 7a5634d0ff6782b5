package checkpoint

import (
	"math"
	"strings"
	"testing"
)

// TestRope compares with frequencies computed by hand. With theta 16 and 4 rotated dimensions, the
// frequencies are 1 and 16^(-2/4) = 1/4.
func TestRope(t *testing.T) {
	const llama3 = `"rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4, "original_max_position_embeddings": `
	const yarn = `"factor": 4, "original_max_position_embeddings": 256`
	const long = `"original_max_position_embeddings": 64, "rope_scaling": {"type": "longrope", "short_factor": [1.25, 1.25], "long_factor": [2, 4]}`
	for _, c := range []struct {
		name, keys string
		headDim    int
		want       []float64
	}{
		{"default theta", `"x": 0`, 4, []float64{1, 1.0 / 16}}, // 256^(-1/2)
		{"top-level theta", `"rope_theta": 16`, 4, []float64{1, 0.25}},
		{"rope_parameters", `"rope_parameters": {"rope_theta": 16, "rope_type": "default"}`, 4,
			[]float64{1, 0.25}},
		{"rope_parameters and top-level theta",
			`"rope_theta": 9, "rope_parameters": {"rope_theta": 16}`, 4, []float64{1, 0.25}},
		{"mrope, which equals rope for text",
			`"rope_parameters": {"rope_theta": 16, "rope_type": "mrope", "mrope_section": [1, 1]}`,
			4, []float64{1, 0.25}},
		{"linear", `"rope_theta": 16, "rope_scaling": {"type": "linear", "factor": 2}`, 4,
			[]float64{0.5, 0.125}},
		{"partial", `"rope_theta": 16, "partial_rotary_factor": 0.5`, 8, []float64{1, 0.25}},
		// 5.6 dimensions are rounded down to 4.
		{"partial, odd", `"rope_theta": 16, "partial_rotary_factor": 0.7`, 8, []float64{1, 0.25}},
		{"no scaling", `"rope_theta": 16, "rope_scaling": null`, 4, []float64{1, 0.25}},
		// The exponents are parts of the whole head: 16^(-2/8) = 1/2.
		{"proportional",
			`"rope_theta": 16, "partial_rotary_factor": 0.5, "rope_scaling": {"rope_type": "proportional"}`,
			8, []float64{1, 0.5, 0, 0}},
		{"proportional with a factor, 1.6 pairs rounded down",
			`"rope_theta": 16, "partial_rotary_factor": 0.4, "rope_scaling": {"rope_type": "proportional", "factor": 4}`,
			8, []float64{0.25, 0, 0, 0}},
		// The wavelengths are 2 pi = 6.28 and 8 pi = 25.1. With 100 original positions, the bounds
		// are 100/4 = 25 and 100/1 = 100. The first frequency is unchanged. The second is
		// interpolated with the weight (100/25.13 - 1)/3 = 0.99296, which gives 0.00704*0.25/8 +
		// 0.99296*0.25.
		{"llama3, short and interpolated", `"rope_theta": 16, ` + llama3 + `100}`, 4,
			[]float64{1, 0.2484591}},
		// With 20 original positions, the bounds are 5 and 20. The first frequency is interpolated
		// with the weight (20/6.2832 - 1)/3 = 0.727699. The second is divided by the factor.
		{"llama3, interpolated and long", `"rope_theta": 16, ` + llama3 + `20}`, 4,
			[]float64{0.7617369, 0.03125}},
		{"dynamic, up to the model's context",
			`"rope_theta": 16, "rope_scaling": {"type": "dynamic", "factor": 4}`, 4,
			[]float64{1, 0.25}},
		// The unscaled frequencies are 1, 0.1, 0.01 and 0.001. The bounds of the ramp are
		// 8 ln(256/(32*2 pi)) / (2 ln 10000) = 0.105 and 8 ln(256/(2 pi)) / (2 ln 10000) = 1.610,
		// which are rounded to 0 and 2. So the second frequency is halfway from 0.1 to 0.1/4.
		{"yarn", `"rope_theta": 10000, "rope_scaling": {"rope_type": "yarn", ` + yarn + `}`, 8,
			[]float64{1, 0.0625, 0.0025, 0.00025}},
		// The second frequency is (1 - 0.1049)/(1.6101 - 0.1049) = 0.59469 of the way.
		{"yarn, not truncated",
			`"rope_theta": 10000, "rope_scaling": {"type": "yarn", "truncate": false, ` + yarn +
				`}`, 8, []float64{1, 0.0553986, 0.0025, 0.00025}},
		{"longrope", `"rope_theta": 16, "max_position_embeddings": 4096, ` + long, 4,
			[]float64{0.5, 0.0625}},
		{"longrope in its original context",
			`"rope_theta": 16, "max_position_embeddings": 64, ` + long, 4, []float64{0.8, 0.2}},
	} {
		config, err := ParseConfig([]byte(`{"model_type": "m", ` + c.keys + `}`))
		if err != nil {
			t.Fatal(err)
		}
		r, err := config.Rope(RopeDefaults{Theta: 256})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		got, err := r.InvFreq(c.headDim)
		if err != nil || len(got) != len(c.want) {
			t.Errorf("%s: got %v, %v, expected %v", c.name, got, err, c.want)
			continue
		}
		for i, w := range c.want {
			if math.Abs(float64(got[i])-w) > 1e-6 {
				t.Errorf("%s: got %v, expected %v", c.name, got, c.want)
				break
			}
		}
	}
}

// TestRopeAttention checks the factor of cosine and sine.
func TestRopeAttention(t *testing.T) {
	yarn := func(more string) string {
		return `"rope_scaling": {"rope_type": "yarn", "original_max_position_embeddings": 256, ` +
			more + `}`
	}
	const long = `"max_position_embeddings": 4096, "rope_scaling": {"type": "su", "original_max_position_embeddings": 64, "short_factor": [1], "long_factor": [1]`
	for _, c := range []struct {
		keys string
		want float64
	}{
		{`"x": 0`, 1},
		{`"rope_scaling": {"type": "linear", "factor": 2, "attention_factor": 3}`, 1},
		{yarn(`"factor": 4`), 0.1*math.Log(4) + 1},
		{yarn(`"attention_factor": 1.5, "factor": 4`), 1.5},
		{`"max_position_embeddings": 1024, ` + yarn(`"factor": null`), 0.1*math.Log(4) + 1},
		{yarn(`"factor": 0.5`), 1},
		{yarn(`"factor": 4, "mscale": 1, "mscale_all_dim": 1`), 1},
		{yarn(`"factor": 4, "mscale": 2, "mscale_all_dim": 1`),
			(0.2*math.Log(4) + 1) / (0.1*math.Log(4) + 1)},
		{yarn(`"factor": 4, "mscale": 2`), 0.1*math.Log(4) + 1},
		{long + `}`, math.Sqrt(2)}, // 1 + ln 64 / ln 64
		{long + `, "attention_factor": 1.2}`, 1.2},
	} {
		config, err := ParseConfig([]byte(`{"model_type": "m", ` + c.keys + `}`))
		if err != nil {
			t.Fatal(err)
		}
		r, err := config.Rope(RopeDefaults{Theta: 10000})
		if got := float64(r.Attention()); err != nil || math.Abs(got-c.want) > 1e-6 {
			t.Errorf("%s: got %g, %v, expected %g", c.keys, got, err, c.want)
		}
	}
}

func TestRopeFaults(t *testing.T) {
	for keys, says := range map[string]string{
		`"rope_theta": -1`:    "rope_theta is -1",
		`"rope_theta": 1e999`: "rope_theta is +Inf, expected a finite number",
		`"rope_theta": 1e39`:  "rope_theta is 1e+39, expected a finite number",
		`"max_position_embeddings": 8, "rope_scaling": {"type": "yarn", "factor": 2, "mscale": -1}`:           "mscale is -1",
		`"max_position_embeddings": 8, "rope_scaling": {"type": "yarn", "factor": 2, "mscale_all_dim": -1}`:   "mscale_all_dim is -1",
		`"max_position_embeddings": 8, "rope_scaling": {"type": "yarn", "factor": 2, "attention_factor": -1}`: "attention_factor is -1",
		`"max_position_embeddings": 8, "rope_scaling": {"type": "yarn", "factor": 1e999}`:                     "factor is +Inf",
		`"partial_rotary_factor": 1.5`:          "partial_rotary_factor is 1.5",
		`"rope_theta": "fast"`:                  "rope_theta",
		`"rope_scaling": [1]`:                   "rope parameters",
		`"rope_scaling": {"type": "linear"}`:    "factor is 0",
		`"rope_scaling": {"rope_type": "yarn"}`: `"yarn"`,
		`"rope_scaling": {"rope_type": "ntk"}`:  `rope_type is "ntk", expected default, dynamic, `,
		`"rope_theta": 1e-300`:                  "rope_theta is 1e-300",
		`"partial_rotary_factor": 0.01`:         "partial_rotary_factor is 0.01",
		`"partial_rotary_factor": 0.01, "rope_scaling": {"rope_type": "proportional"}`:                                                             "partial_rotary_factor is 0.01",
		`"rope_scaling": {"rope_type": "proportional", "factor": -1}`:                                                                              "factor is -1",
		`"max_position_embeddings": 8, "rope_scaling": {"rope_type": "yarn", "factor": 2, "beta_slow": 40}`:                                        "beta_fast is 32, expected more than beta_slow, which is 40",
		`"max_position_embeddings": 8, "rope_scaling": {"type": "longrope", "original_max_position_embeddings": 4, "long_factor": [1, 2]}`:         "long_factor has 2 factors",
		`"max_position_embeddings": 8, "rope_scaling": {"type": "longrope", "long_factor": [1, 2]}`:                                                "short_factor has 0",
		`"rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 4, "high_freq_factor": 4, "original_max_position_embeddings": 8}`: "high_freq_factor is 4, expected more than low_freq_factor",
	} {
		config, err := ParseConfig([]byte(`{"model_type": "m", ` + keys + `}`))
		if err != nil {
			t.Fatal(err)
		}
		r, err := config.Rope(RopeDefaults{Theta: 10000})
		if err == nil {
			_, err = r.InvFreq(64)
		}
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: got %v, expected an error saying %q", keys, err, says)
		}
	}
}
