package adapter

// adapter_config.json, and the names of tensors, in both formats.

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"math"
	"path/filepath"
	"regexp"
	"strings"

	"headroom/engine/modelfile"
	"headroom/engine/problem"
)

// Info is what a folder says of its adapter without its weights.
type Info struct {
	PEFT  bool    // the format; false: mlx-lm's
	DoRA  bool    // false: LoRA
	Rank  int     // the largest one; before the weights are read, that of the config
	Base  string  // the name or path of the model that it was made for; "": unknown
	Scale float32 // the scale of most modules
}

// config is adapter_config.json.
type config struct {
	Info
	rank         int
	alpha        float64
	rsLoRA       bool
	alphaPattern []alphaPattern // the first that matches counts
}

// alphaPattern is an alpha for the modules whose names match.
type alphaPattern struct {
	name  *regexp.Regexp
	alpha float64
}

// configFile has the keys of both formats.
type configFile struct {
	// PEFT
	Type        string          `json:"peft_type"`
	Base        string          `json:"base_model_name_or_path"`
	R           int             `json:"r"`
	Alpha       *float64        `json:"lora_alpha"`
	RSLoRA      bool            `json:"use_rslora"`
	DoRA        bool            `json:"use_dora"`
	FanInFanOut bool            `json:"fan_in_fan_out"`
	Patterns    patterns        `json:"alpha_pattern"`
	Init        json.RawMessage `json:"init_lora_weights"`
	ALoRA       json.RawMessage `json:"alora_invocation_tokens"`
	// mlx-lm
	Kind       *string `json:"fine_tune_type"`
	Model      string  `json:"model"`
	Parameters *struct {
		Rank  int      `json:"rank"`
		Scale *float64 `json:"scale"`
	} `json:"lora_parameters"`
}

// patterns are the pairs of a JSON object in their order, which decides.
type patterns []struct {
	name  string
	alpha float64
}

// UnmarshalJSON reads an object of numbers, or null.
func (p *patterns) UnmarshalJSON(data []byte) error {
	d := json.NewDecoder(bytes.NewReader(data))
	first, err := d.Token()
	if err != nil || first == nil {
		return err
	}
	if first != json.Delim('{') {
		return errors.New("expected an object")
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return err
		}
		var alpha float64
		if err := d.Decode(&alpha); err != nil {
			return err
		}
		*p = append(*p, struct {
			name  string
			alpha float64
		}{key.(string), alpha})
	}
	return nil
}

// ReadInfo reads what a folder says of its adapter, without its weights. Errors are Problems.
func ReadInfo(dir string) (Info, error) {
	c, err := readConfig(dir)
	if err != nil {
		return Info{}, err
	}
	return c.Info, nil
}

func readConfig(dir string) (*config, error) {
	f, err := readConfigFile(dir)
	if err != nil {
		return nil, err
	}
	return f.config()
}

func readConfigFile(dir string) (*configFile, error) {
	data, err := modelfile.Read(filepath.Join(dir, configName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, problem.New(problem.ModelBroken, "This folder has no adapter",
			dir+" has no "+configName, "Name the folder that mlx_lm.lora or PEFT has written.")
	}
	if err != nil {
		return nil, problem.Wrap(problem.ModelBroken, err, "The adapter cannot be read", "")
	}
	f := new(configFile)
	if err := modelfile.Decode("", data, f); err != nil {
		return nil, broken("%s: %v", configName, err)
	}
	return f, nil
}

func (f *configFile) config() (*config, error) {
	if f.Type != "" {
		return f.peft()
	}
	return f.mlx()
}

// mlx returns the config that mlx-lm has written.
func (f *configFile) mlx() (*config, error) {
	kind := "lora"
	if f.Kind != nil {
		kind = *f.Kind
	}
	if kind == fullKind {
		return nil, problem.New(problem.UnknownArchitecture, "This is not an adapter",
			"it has whole layers (fine_tune_type is full)",
			"Make a model with them: headroom fuse MODEL FOLDER RESULT.")
	}
	if kind != "lora" && kind != "dora" {
		return nil, unsupported("fine_tune_type is %q, expected lora or dora", kind)
	}
	if f.Parameters == nil || f.Parameters.Scale == nil {
		return nil, broken("%s has no lora_parameters.scale", configName)
	}
	c := &config{Info: Info{DoRA: kind == "dora", Rank: f.Parameters.Rank, Base: f.Model,
		Scale: float32(*f.Parameters.Scale)}}
	return c, checkScale(c.Scale)
}

// peft returns the config that PEFT has written.
func (f *configFile) peft() (*config, error) {
	var initial string
	_ = json.Unmarshal(f.Init, &initial) // true and false do not matter
	initial, _, _ = strings.Cut(strings.ToLower(initial), "_")
	switch {
	case f.Type != "LORA":
		return nil, unsupported("peft_type is %q, expected LORA", f.Type)
	case f.FanInFanOut:
		return nil, unsupported("fan_in_fan_out is true: its matrices are transposed")
	case len(f.ALoRA) > 0 && string(f.ALoRA) != "null":
		return nil, unsupported("it is active only after some tokens (alora_invocation_tokens)")
	case initial == "pissa" || initial == "olora" || initial == "corda" || initial == "loftq":
		return nil, unsupported("init_lora_weights is %q: it belongs to a model whose weights "+
			"training has changed, too", initial)
	case f.Alpha == nil:
		return nil, broken("%s has no lora_alpha", configName)
	case f.R < 1 || f.R > maxRank:
		return nil, broken("r is %d, expected 1 to %d", f.R, maxRank)
	}
	c := &config{Info: Info{PEFT: true, DoRA: f.DoRA, Rank: f.R, Base: f.Base}, rank: f.R,
		alpha: *f.Alpha, rsLoRA: f.RSLoRA}
	for _, p := range f.Patterns {
		// As in PEFT, a key matches the end of a module's path.
		re, err := regexp.Compile(`^(?:.*\.)?(?:` + p.name + `)$`)
		if err != nil {
			return nil, broken("alpha_pattern has %q, which is not a pattern", p.name)
		}
		c.alphaPattern = append(c.alphaPattern, alphaPattern{re, p.alpha})
	}
	c.Scale = c.scaleFor(f.R, c.alpha)
	return c, checkScale(c.Scale)
}

// scaleFor returns the scale of a module of that rank.
func (c *config) scaleFor(rank int, alpha float64) float32 {
	if c.rsLoRA {
		return float32(alpha / math.Sqrt(float64(rank)))
	}
	return float32(alpha / float64(rank))
}

// scaleOf returns the scale of m.
func (c *config) scaleOf(m *Module) (float32, error) {
	if !c.PEFT {
		return c.Scale, nil
	}
	alpha := c.alpha
	for _, p := range c.alphaPattern { // as in PEFT, the first one counts
		if p.name.MatchString(m.Name) {
			alpha = p.alpha
			break
		}
	}
	scale := c.scaleFor(m.Rank, alpha)
	return scale, checkScale(scale)
}

func checkScale(scale float32) error {
	if scale-scale != 0 {
		return broken("the scale is %g, expected a finite number", scale)
	}
	return nil
}

// piece is a part of a module.
type piece int

const (
	partA piece = iota
	partB
	partM
	embeddingA
	embeddingB
)

// mlxParts and peftParts are the ends of the names of tensors.
var (
	mlxParts  = map[string]piece{".lora_a": partA, ".lora_b": partB, ".m": partM}
	peftParts = map[string]piece{".lora_A.weight": partA, ".lora_B.weight": partB,
		".lora_magnitude_vector": partM, ".lora_magnitude_vector.weight": partM,
		".lora_embedding_A": embeddingA, ".lora_embedding_B": embeddingB}
)

// split returns the module and the part of the tensor called name.
func (c *config) split(name string) (module string, part piece, err error) {
	parts := mlxParts
	if c.PEFT {
		parts = peftParts
		name = strings.TrimPrefix(name, "base_model.model.")
	}
	for end, part := range parts {
		if module, ok := strings.CutSuffix(name, end); ok && module != "" {
			return module, part, nil
		}
	}
	return "", 0, unsupported("it has the tensor %.200q, which is not a part of LoRA or DoRA", name)
}
