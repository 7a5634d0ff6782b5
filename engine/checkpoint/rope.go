package checkpoint

// The rotary position embedding in config.json: where its parameters are, and the frequencies of
// every scaling that extends the context of a model. A scaling is a row of ropeTypes. Frequencies
// never depend on the length of a sequence, because cached keys have been rotated already.
//
// Sources: Hugging Face transformers, modeling_rope_utils.py; Peng et al. 2023, "YaRN"; Ding et al.
// 2024, "LongRoPE".

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"headroom/engine/modelfile"
	"headroom/engine/problem"
)

// RopeParameters are the parameters of the rotary position embedding. New configs have these keys
// under rope_parameters. Old configs have them at the top level and under rope_scaling.
type RopeParameters struct {
	Theta           float64   `json:"rope_theta"`
	PartialFactor   float64   `json:"partial_rotary_factor"`
	Type            string    `json:"rope_type"`
	LegacyType      string    `json:"type"`
	Factor          float64   `json:"factor"`
	LowFreq         float64   `json:"low_freq_factor"`
	HighFreq        float64   `json:"high_freq_factor"`
	BetaFast        float64   `json:"beta_fast"`
	BetaSlow        float64   `json:"beta_slow"`
	Truncate        *bool     `json:"truncate"` // nil: true
	AttentionFactor float64   `json:"attention_factor"`
	MScale          float64   `json:"mscale"`
	MScaleAllDim    float64   `json:"mscale_all_dim"`
	ShortFactor     []float64 `json:"short_factor"`
	LongFactor      []float64 `json:"long_factor"`
	OriginalMax     float64   `json:"original_max_position_embeddings"`
	Max             float64   `json:"max_position_embeddings"`
	QueryBeta       *float64  `json:"llama_4_scaling_beta"` // see models/ministral3.go; nil: none

	typeKey, thetaKey string // of Type and Theta in config.json; "": rope_type and rope_theta
}

// TypeKey returns the key of Type in config.json.
func (r *RopeParameters) TypeKey() string { return cmp.Or(r.typeKey, "rope_type") }

// theta returns the key of Theta in config.json.
func (r *RopeParameters) theta() string { return cmp.Or(r.thetaKey, "rope_theta") }

// RopeDefaults are an architecture's defaults of keys that config.json may omit.
type RopeDefaults struct {
	Theta         float64 // rope_theta
	ThetaKey      string  // another key that Theta is from; "": none
	PartialFactor float64 // partial_rotary_factor; 0: 1
	OriginalMax   float64 // original_max_position_embeddings; 0: max_position_embeddings
}

// parameters returns the rope parameters of a model whose config.json omits all keys.
func (d RopeDefaults) parameters() RopeParameters {
	r := RopeParameters{Theta: d.Theta, PartialFactor: d.PartialFactor, OriginalMax: d.OriginalMax}
	if r.PartialFactor == 0 {
		r.PartialFactor = 1
	}
	return r
}

// Rope returns the rope parameters of a model.
func (c *Config) Rope(d RopeDefaults) (RopeParameters, error) {
	r := d.parameters()
	var outer struct {
		Scaling    json.RawMessage `json:"rope_scaling"`
		Parameters json.RawMessage `json:"rope_parameters"`
	}
	if err := c.Decode(&r); err != nil {
		return r, err
	}
	if err := c.Decode(&outer); err != nil {
		return r, err
	}
	err := r.read(d, ropePart{"rope_scaling", outer.Scaling},
		ropePart{"rope_parameters", outer.Parameters})
	return r, err
}

// LayerRope returns the rope parameters of one kind of layer, such as "full_attention" or
// "sliding_attention". In some models rope_parameters has an entry for each kind. If there is no
// entry for this kind, ok is false and r has the defaults.
func (c *Config) LayerRope(kind string, d RopeDefaults) (r RopeParameters, ok bool, err error) {
	var outer struct {
		Parameters map[string]json.RawMessage `json:"rope_parameters"`
		Max        float64                    `json:"max_position_embeddings"`
	}
	if err := c.Decode(&outer); err != nil {
		return r, false, err
	}
	part, ok := outer.Parameters[kind]
	r = d.parameters()
	r.Max = outer.Max
	err = r.read(d, ropePart{"rope_parameters." + kind, part})
	return r, ok, err
}

// ropePart is a JSON object with rope parameters, the value of key; nil: there is none.
type ropePart struct {
	key    string
	object json.RawMessage
}

// read decodes parts into r, which has the defaults d, and checks the result.
func (r *RopeParameters) read(d RopeDefaults, parts ...ropePart) error {
	context := r.Max // rope_parameters may repeat the key
	for _, part := range parts {
		if part.object == nil {
			continue
		}
		if err := modelfile.Decode(part.key, part.object, r); err != nil {
			return problem.Wrap(problem.ModelBroken, err,
				"The rope parameters in config.json are damaged",
				"Download or convert the model again.")
		}
	}
	if r.Max = context; r.Type == "" && r.LegacyType != "" {
		r.Type, r.typeKey = r.LegacyType, "type"
	}
	scaling, ok := ropeTypes[r.Type]
	if !ok {
		return problem.New(problem.UnknownArchitecture,
			"This type of rotary position embedding is not supported",
			fmt.Sprintf("%s is %q, expected %s", r.TypeKey(), r.Type,
				strings.Join(slices.Sorted(maps.Keys(ropeTypes))[1:], ", ")),
			"Pick another model.")
	}
	r.setDefaults()
	if r.Theta == d.Theta {
		r.thetaKey = d.ThetaKey
	}
	err := cmp.Or(positive(r.theta(), r.Theta), positive("partial_rotary_factor",
		r.PartialFactor))
	if err == nil && r.PartialFactor > 1 {
		err = fmt.Errorf("partial_rotary_factor is %g, expected at most 1", r.PartialFactor)
	}
	if err == nil {
		err = scaling.check(r)
	}
	return r.invalid(err)
}

// setDefaults sets the keys of YaRN and LongRoPE that config.json may omit.
func (r *RopeParameters) setDefaults() {
	if r.OriginalMax == 0 {
		r.OriginalMax = r.Max
	}
	if r.Type == "yarn" && r.Factor == 0 && r.OriginalMax > 0 {
		r.Factor = r.Max / r.OriginalMax
	}
	if r.BetaFast == 0 {
		r.BetaFast = 32
	}
	if r.BetaSlow == 0 {
		r.BetaSlow = 1
	}
}

// invalid returns err, which names the wrong value, as a Problem; nil for nil.
func (r *RopeParameters) invalid(err error) error {
	if err == nil {
		return nil
	}
	if r.Type != "" {
		err = fmt.Errorf("%w, for %s %q", err, r.TypeKey(), r.Type)
	}
	return problem.Wrap(problem.ModelBroken, err,
		"The rope parameters in config.json are not valid", "Download or convert the model again.")
}

// positive returns an error unless value is more than 0 and finite, in float32 too.
func positive(key string, value float64) error {
	if !(value > 0 && value <= math.MaxFloat32) {
		return fmt.Errorf("%s is %g, expected a finite number above 0", key, value)
	}
	return nil
}

// notNegative returns an error unless value is 0 or positive.
func notNegative(key string, value float64) error {
	if value == 0 {
		return nil
	}
	if err := positive(key, value); err != nil {
		return fmt.Errorf("%s is %g, expected a finite number of 0 or more", key, value)
	}
	return nil
}

// above returns an error unless value is positive and more than that of another key.
func above(key string, value float64, thanKey string, than float64) error {
	if err := positive(key, value); err != nil {
		return err
	}
	if value <= than {
		return fmt.Errorf("%s is %g, expected more than %s, which is %g", key, value, thanKey, than)
	}
	return nil
}

// ropeScaling is a way to extend the context of a model.
type ropeScaling struct {
	// check returns an error for a parameter outside its range. It names the parameter.
	check func(r *RopeParameters) error
	// scale changes the frequencies f = theta^(-2i/rotary) in place. It returns an error if the
	// parameters are for another number of frequencies.
	scale func(r *RopeParameters, f []float64) error
	// attention returns the factor of cosine and sine, if config.json does not state it. nil: 1.
	attention func(r *RopeParameters) float64
	// wholeHead says that pairs are formed over the whole head, whatever PartialFactor is.
	wholeHead bool
}

var plainRope = ropeScaling{
	check: func(*RopeParameters) error { return nil },
	scale: func(*RopeParameters, []float64) error { return nil },
}

var (
	yarnScaling = ropeScaling{
		check: func(r *RopeParameters) error {
			return cmp.Or(positive("factor", r.Factor),
				positive("original_max_position_embeddings", r.OriginalMax),
				positive("beta_slow", r.BetaSlow),
				above("beta_fast", r.BetaFast, "beta_slow", r.BetaSlow),
				notNegative("mscale", r.MScale), notNegative("mscale_all_dim", r.MScaleAllDim),
				notNegative("attention_factor", r.AttentionFactor))
		},
		scale:     (*RopeParameters).yarn,
		attention: (*RopeParameters).yarnAttention,
	}
	longScaling = ropeScaling{
		check: func(r *RopeParameters) error {
			return cmp.Or(positive("original_max_position_embeddings", r.OriginalMax),
				positive("max_position_embeddings", r.Max),
				notNegative("attention_factor", r.AttentionFactor))
		},
		scale:     (*RopeParameters).longRope,
		attention: (*RopeParameters).longAttention,
	}
)

// ropeTypes maps each supported rope_type to its scaling. "su" is an old name of longrope.
var ropeTypes = map[string]ropeScaling{
	"":        plainRope,
	"default": plainRope,
	"mrope":   plainRope, // the three sections of a text token have the same position
	// Dynamic NTK changes the frequencies only beyond max_position_embeddings, and no sequence of
	// Headroom is longer.
	"dynamic": plainRope,
	"linear": {
		check: func(r *RopeParameters) error { return positive("factor", r.Factor) },
		scale: func(r *RopeParameters, f []float64) error {
			for i := range f {
				f[i] /= r.Factor
			}
			return nil
		},
	},
	"llama3": {
		check: func(r *RopeParameters) error {
			return cmp.Or(positive("factor", r.Factor),
				positive("original_max_position_embeddings", r.OriginalMax),
				positive("low_freq_factor", r.LowFreq),
				above("high_freq_factor", r.HighFreq, "low_freq_factor", r.LowFreq))
		},
		scale: (*RopeParameters).llama3,
	},
	"proportional": {
		check:     func(r *RopeParameters) error { return notNegative("factor", r.Factor) },
		scale:     (*RopeParameters).proportional,
		wholeHead: true,
	},
	"yarn":     yarnScaling,
	"longrope": longScaling,
	"su":       longScaling,
}

// maxFrequency bounds the angle per position: kernels compute angles exactly only below it.
const maxFrequency = 1 << 20

// InvFreq returns the angle per position of each pair of dimensions in a head. It returns rotary/2
// values, where rotary is headDim times PartialFactor, rounded down to an even number. For the type
// proportional it is headDim, and the angles of the pairs that are not rotated are 0. Errors are
// Problems.
func (r RopeParameters) InvFreq(headDim int) ([]float32, error) {
	rotary := int(float64(headDim) * r.PartialFactor)
	if ropeTypes[r.Type].wholeHead {
		rotary = headDim
	}
	rotary -= rotary % 2
	f := make([]float64, rotary/2)
	for i := range f {
		f[i] = math.Pow(r.Theta, -float64(2*i)/float64(rotary))
	}
	if len(f) == 0 {
		return nil, r.invalid(r.noPairs(headDim))
	}
	if err := ropeTypes[r.Type].scale(&r, f); err != nil {
		return nil, r.invalid(err)
	}
	freqs := make([]float32, len(f))
	for i := range f {
		if !(f[i] >= 0 && f[i] < maxFrequency) {
			return nil, r.invalid(fmt.Errorf("%s is %g, by which pair %d of a head turns "+
				"by %g at each position, expected 0 to %d", r.theta(), r.Theta, i, f[i],
				maxFrequency))
		}
		freqs[i] = float32(f[i])
	}
	return freqs, nil
}

// noPairs returns the error of a head of which nothing is rotated.
func (r *RopeParameters) noPairs(headDim int) error {
	return fmt.Errorf("partial_rotary_factor is %g, which rotates nothing of a head of %d",
		r.PartialFactor, headDim)
}

// Attention returns the factor by which cosine and sine are multiplied. It is 1 unless the type is
// yarn or longrope.
func (r RopeParameters) Attention() float32 {
	scaling := ropeTypes[r.Type]
	switch {
	case scaling.attention == nil:
		return 1
	case r.AttentionFactor > 0:
		return float32(r.AttentionFactor)
	}
	return float32(scaling.attention(&r))
}

// llama3 scales the frequencies as in Llama 3.1. The frequency of a long wavelength is divided by
// Factor, and that of a short wavelength is unchanged. Between them it is interpolated.
func (r *RopeParameters) llama3(f []float64) error {
	for i := range f {
		wavelength := 2 * math.Pi / f[i]
		if wavelength > r.OriginalMax/r.LowFreq {
			f[i] /= r.Factor
		} else if wavelength >= r.OriginalMax/r.HighFreq {
			blend := (r.OriginalMax/wavelength - r.LowFreq) / (r.HighFreq - r.LowFreq)
			f[i] = (1-blend)*f[i]/r.Factor + blend*f[i]
		}
	}
	return nil
}

// proportional rotates only the first pairs of a head, a part of PartialFactor, as in Gemma 4. It
// divides their frequencies by Factor, if there is one.
func (r *RopeParameters) proportional(f []float64) error {
	rotated := int(r.PartialFactor * float64(len(f)))
	for i := range f {
		if i >= rotated {
			f[i] = 0
		} else if r.Factor != 0 {
			f[i] /= r.Factor
		}
	}
	if rotated == 0 {
		return r.noPairs(2 * len(f))
	}
	return nil
}

// yarn divides the low frequencies by Factor and keeps the high ones. Between them it is
// interpolated by index. The bounds are the indices whose dimensions make BetaFast and BetaSlow
// rotations in the original context.
func (r *RopeParameters) yarn(f []float64) error {
	rotary := float64(2 * len(f))
	index := func(rotations float64) float64 {
		return rotary * math.Log(r.OriginalMax/(rotations*2*math.Pi)) / (2 * math.Log(r.Theta))
	}
	low, high := index(r.BetaFast), index(r.BetaSlow)
	if r.Truncate == nil || *r.Truncate {
		low, high = math.Floor(low), math.Ceil(high)
	}
	low, high = max(low, 0), min(high, rotary-1)
	if low == high {
		high += 0.001 // as in the reference, to avoid a division by zero
	}
	for i := range f {
		ramp := min(max((float64(i)-low)/(high-low), 0), 1)
		f[i] = f[i]/r.Factor*ramp + f[i]*(1-ramp)
	}
	return nil
}

func (r *RopeParameters) yarnAttention() float64 {
	if r.MScale != 0 && r.MScaleAllDim != 0 {
		return r.magnitude(r.MScale) / r.magnitude(r.MScaleAllDim)
	}
	return r.magnitude(1)
}

// magnitude returns the factor by which YaRN multiplies a vector whose share of it is m.
func (r *RopeParameters) magnitude(m float64) float64 {
	if r.Factor <= 1 {
		return 1
	}
	return 0.1*m*math.Log(r.Factor) + 1
}

// Scores returns the factor of the scores of DeepSeek's attention, of which a part of each query
// and key is not rotated. It is 1 unless the type is yarn.
func (r RopeParameters) Scores() float64 {
	if r.Type != "yarn" {
		return 1
	}
	m := r.magnitude(r.MScaleAllDim)
	return m * m
}

// longRope divides each frequency by a factor of its own: a long factor if the model's context is
// longer than the original one, a short factor otherwise. Like mlx-lm and llama.cpp, and unlike
// transformers, it uses the long factors for short sequences too. Changing to them in the middle
// of a sequence would make its cached keys useless.
func (r *RopeParameters) longRope(f []float64) error {
	key, factors := "long_factor", r.LongFactor
	if r.Max <= r.OriginalMax {
		key, factors = "short_factor", r.ShortFactor
	}
	if len(factors) != len(f) {
		return fmt.Errorf("%s has %d factors, expected one for each of %d pairs", key, len(factors),
			len(f))
	}
	for i := range f {
		if err := positive(fmt.Sprintf("%s[%d]", key, i), factors[i]); err != nil {
			return err
		}
		f[i] /= factors[i]
	}
	return nil
}

func (r *RopeParameters) longAttention() float64 {
	if factor := r.Max / r.OriginalMax; factor > 1 && r.OriginalMax > 1 {
		return math.Sqrt(1 + math.Log(factor)/math.Log(r.OriginalMax))
	}
	return 1
}
