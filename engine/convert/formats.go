package convert

// How each matrix is packed: the format of the options, the recipes of mlx-lm, the modules that a
// family packs in 8 bits, and what the user says for single modules.

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"headroom/engine/checkpoint"
	"headroom/engine/problem"
	"headroom/engine/safetensors"
	"headroom/kernels"
	"headroom/kernels/quantize"
)

// recipes are mlx-lm's mixtures of two numbers of bits: low for most matrices, and high for those
// whose errors cost most.
var recipes = map[string]struct{ low, high int }{
	"mixed_2_6": {2, 6}, "mixed_3_4": {3, 4}, "mixed_3_6": {3, 6}, "mixed_4_6": {4, 6},
}

// Recipes returns the names of the recipes, sorted.
func Recipes() []string { return slices.Sorted(maps.Keys(recipes)) }

// formats say how to pack the matrices, and what config.json says of them.
type formats struct {
	all       *quantize.Format // nil: none is packed
	recipe    string
	family    *family
	overrides []override

	// undivided says of the modules of overrides that stay plain why they do.
	undivided []string

	keepsMXFP4 bool // some experts stay packed

	// entries has what config.json says of single modules: a format, or false.
	entries map[string]any
}

type override struct {
	text   string
	module *regexp.Regexp
	format *quantize.Format // nil: plain
	used   bool
}

// entry is a format in config.json. The order of its keys is that of mlx-lm.
type entry struct {
	Group int    `json:"group_size"`
	Bits  int    `json:"bits"`
	Mode  string `json:"mode,omitempty"`
}

// formatText describes a format, as in "4-bit, group 32".
func formatText(f quantize.Format) string {
	if f.Mode != kernels.Affine {
		return f.Mode.String()
	}
	return fmt.Sprintf("%d-bit, group %d", f.Bits, f.Group)
}

func entryOf(f quantize.Format) entry { return entry{f.Group, f.Bits, f.Mode.String()} }

// newFormats checks the options.
func newFormats(o Options, f *family) (formats, error) {
	all := formats{family: f, recipe: o.Recipe, entries: map[string]any{}}
	refuse := func(why, fix string) (formats, error) {
		return all, problem.New(problem.BadRequest, "These options are not valid", why, fix)
	}
	if !o.Quantize {
		if o.Mode != "" || o.Bits != 0 || o.Group != 0 || o.Recipe != "" || o.Overrides != nil {
			return refuse("a format is given, but the model is not to be quantized",
				"Leave the format out.")
		}
		return all, nil
	}
	mode := o.Mode
	if mode == "" {
		mode = kernels.Affine.String()
	}
	format, ok := quantize.Defaults[mode]
	if !ok {
		return refuse(fmt.Sprintf("the mode is %q, expected affine, mxfp4, mxfp8 or nvfp4", mode),
			"Choose one of them.")
	}
	if o.Bits != 0 {
		format.Bits = o.Bits
	}
	if o.Group != 0 {
		format.Group = o.Group
	}
	if err := format.Check(); err != nil {
		fix := "Choose one of these."
		if format.Mode != kernels.Affine {
			fix = "Leave the bits and the group size out, or choose another mode than " + mode + "."
		}
		return refuse("got "+err.Error(), fix)
	}
	if _, known := recipes[o.Recipe]; o.Recipe != "" {
		switch {
		case !known:
			return refuse(fmt.Sprintf("the recipe is %q, expected one of %s", o.Recipe,
				strings.Join(Recipes(), ", ")), "Choose one of them.")
		case format.Mode != kernels.Affine || o.Bits != 0:
			return refuse("a recipe has affine bits of its own", "Leave out the mode and the bits.")
		}
	}
	all.all = &format
	for _, text := range o.Overrides {
		v, err := newOverride(text, format)
		if err != nil {
			return refuse(err.Error(), "Write it as PATH=4, PATH=4:32, PATH=mxfp4 or PATH=plain.")
		}
		all.overrides = append(all.overrides, v)
	}
	return all, nil
}

// newOverride parses PATH=FORMAT.
func newOverride(text string, all quantize.Format) (override, error) {
	path, value, ok := strings.Cut(text, "=")
	if !ok || path == "" {
		return override{}, fmt.Errorf("the override %q has no path or no format", text)
	}
	quoted := strings.ReplaceAll(regexp.QuoteMeta(path), `\*`, ".*")
	v := override{text: text, module: regexp.MustCompile("^" + quoted + "$")}
	if value == "plain" {
		return v, nil
	}
	format, isMode := quantize.Defaults[value]
	if !isMode {
		format = quantize.Defaults[kernels.Affine.String()]
		if all.Mode == kernels.Affine {
			format.Group = all.Group
		}
		bits, group, hasGroup := strings.Cut(value, ":")
		var err error
		if format.Bits, err = strconv.Atoi(bits); err == nil && hasGroup {
			format.Group, err = strconv.Atoi(group)
		}
		if err != nil {
			return v, fmt.Errorf("the override %q has the format %q", text, value)
		}
	}
	if err := format.Check(); err != nil {
		return v, fmt.Errorf("the override %q has %w", text, err)
	}
	v.format = &format
	return v, nil
}

// assign sets the format of each tensor and collects the entries of config.json.
func (f *formats) assign(tensors []*tensor, c *checkpoint.Config) error {
	layers, hasDown := countLayers(tensors)
	if f.recipe != "" && !hasDown {
		return problem.New(problem.BadRequest, "This model has no matrices that a recipe knows",
			"none is called down_proj", "Choose bits instead of a recipe.")
	}
	for _, t := range tensors {
		module, ok := strings.CutSuffix(t.name, ".weight")
		if !ok {
			continue
		}
		if t.isRaw && t.raw == safetensors.U32 { // experts that stay packed
			if kept := quantize.Defaults[kernels.MXFP4.String()]; f.all != nil && *f.all != kept {
				f.entries[module] = entryOf(kept)
			}
			f.keepsMXFP4 = true
			continue
		}
		if f.all == nil || t.isRaw || len(t.shape) < 2 || !f.canPack(module) {
			continue
		}
		v := f.overridden(module)
		format, e := f.of(module, v, layers)
		if format != nil && (t.cols%format.Group != 0 || v == nil && t.cols%f.all.Group != 0) {
			if v != nil {
				f.undivided = append(f.undivided, fmt.Sprintf("%s has rows of %d elements, which "+
					"is no multiple of groups of %d", module, t.cols, format.Group))
			}
			format, e = nil, nil // as mlx-lm does: it stays plain
		}
		t.format = format
		if e != nil {
			f.entries[module] = e
		}
	}
	for _, v := range f.overrides {
		if !v.used {
			return problem.New(problem.BadRequest, "No matrix is meant by "+v.text,
				"no module that can be packed has this path",
				"Look for the paths in model.safetensors.index.json of an MLX conversion.")
		}
	}
	return nil
}

// canPack reports whether mlx-lm's class can have the module packed.
func (f *formats) canPack(module string) bool {
	return !slices.ContainsFunc(f.family.unpacked, func(end string) bool {
		return strings.HasSuffix(module, end)
	})
}

func (f *formats) overridden(module string) *override {
	for i := range f.overrides {
		if f.overrides[i].module.MatchString(module) {
			f.overrides[i].used = true
			return &f.overrides[i]
		}
	}
	return nil
}

// of returns the format of a module, and what config.json says of it; nil: nothing. v is its
// override, or nil.
func (f *formats) of(module string, v *override, layers int) (*quantize.Format, any) {
	if v != nil {
		if v.format == nil {
			return nil, false
		}
		return v.format, entryOf(*v.format)
	}
	if f.recipe != "" {
		format := *f.all
		format.Bits = f.recipeBits(module, layers)
		return &format, entryOf(format)
	}
	for _, end := range f.family.eight {
		if strings.HasSuffix(module, end) {
			return &quantize.Format{Mode: kernels.Affine, Bits: 8, Group: 64},
				entry{Group: 64, Bits: 8}
		}
	}
	return f.all, nil
}

// recipeBits returns the bits of a module in the recipe: high ones for the head, and for the
// projections of values and down, in the first eighth of the layers, the last, and every third.
func (f *formats) recipeBits(module string, layers int) int {
	r, layer := recipes[f.recipe], 0
	if found := layerNumber.FindStringSubmatch(module + "."); found != nil {
		layer = atoi(found[1])
	}
	eighth := layers / 8
	more := layer < eighth || layer >= 7*layers/8 || ((layer-eighth)%3+3)%3 == 2
	for _, part := range []string{"v_proj", "v_a_proj", "v_b_proj", "down_proj"} {
		if more && strings.Contains(module, part) {
			return r.high
		}
	}
	if strings.Contains(module, "lm_head") {
		return r.high
	}
	return r.low
}

// countLayers returns the number of layers, and whether one has a matrix called down_proj.
func countLayers(tensors []*tensor) (layers int, hasDown bool) {
	for _, t := range tensors {
		if found := layerNumber.FindStringSubmatch(t.name); found != nil {
			layers = max(layers, atoi(found[1])+1)
		}
		hasDown = hasDown || strings.Contains(t.name, "down_proj")
	}
	return layers, hasDown
}
