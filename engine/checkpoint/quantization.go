package checkpoint

// The quantization entry of config.json: bits, groups and mode of all packed weights, and of those
// that are packed otherwise.

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"headroom/engine/problem"
	"headroom/kernels"
)

// Quantization is how config.json says the weights are packed: a default and, per module path,
// exceptions. The shapes in the files decide (see Scope.Linear); this is checked against them,
// because hand-made mixes are common.
type Quantization struct {
	pack                    // Bits 0: plain weights, unless a module says otherwise
	Modules map[string]pack // by module path; Bits 0 means left plain
}

// pack is how a weight is packed, as far as something is said of it.
type pack struct {
	Bits  int          `json:"bits"`
	Group int          `json:"group_size"`
	Mode  kernels.Mode `json:"-"`
}

func (p pack) String() string {
	if p.Mode == kernels.MXFP4 {
		return p.Mode.String()
	}
	return fmt.Sprintf("%d bits in groups of %d", p.Bits, p.Group)
}

// modes are those that Headroom reads, and what bits and groups are where nothing is said of them.
// A file without the word means affine, an exception too: it does not inherit the mode of the
// others.
var modes = map[string]pack{
	"":                      {Mode: kernels.Affine},
	kernels.Affine.String(): {Mode: kernels.Affine},
	kernels.MXFP4.String():  {Mode: kernels.MXFP4, Bits: 4, Group: 32},
}

// parsePack reads an object of bits, group_size and mode; where names it in a problem, and what it
// does not mention is as in others if they are of its mode.
func parsePack(data json.RawMessage, where string, others pack) (p pack, err error) {
	var said struct {
		Mode string `json:"mode"`
	}
	damaged := func(err error) error {
		return problem.Wrap(problem.ModelBroken, err,
			"The quantization of "+where+" in config.json is damaged", "Download the model again.")
	}
	if err := json.Unmarshal(data, &said); err != nil {
		return p, damaged(err)
	}
	p, ok := modes[said.Mode]
	if !ok {
		return p, problem.New(problem.UnknownArchitecture, "This quantization is not supported",
			fmt.Sprintf("config.json, for %s, says mode %q; affine and mxfp4 are supported", where,
				said.Mode), "Use an MLX conversion in one of those.")
	}
	if p.Mode == others.Mode {
		p = others
	}
	if err := json.Unmarshal(data, &p); err != nil {
		return p, damaged(err)
	}
	return p, p.check("config.json, for " + where + ",")
}

// parse reads the entry; none means plain weights.
func (q *Quantization) parse(data json.RawMessage) error {
	if data == nil {
		return nil
	}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(data, &keys); err != nil {
		return problem.Wrap(problem.ModelBroken, err,
			"The quantization entry of config.json is not an object", "Download the model again.")
	}
	var foreign struct {
		Method string `json:"quant_method"` // GPTQ, AWQ and the like; MLX writes none
	}
	_ = json.Unmarshal(data, &foreign)
	if foreign.Method != "" {
		return problem.New(problem.UnknownArchitecture, "This quantization is not supported",
			fmt.Sprintf("config.json says quant_method %q", foreign.Method),
			"Use an MLX conversion of the model, or the original weights.")
	}
	all, err := parsePack(data, "all weights", pack{})
	if err != nil {
		return err
	}
	q.pack, q.Modules = all, map[string]pack{}
	for name, v := range keys {
		switch {
		case len(v) > 0 && v[0] == '{':
			if q.Modules[name], err = parsePack(v, name, all); err != nil {
				return err
			}
		case bytes.Equal(v, []byte("false")):
			q.Modules[name] = pack{}
		}
	}
	return nil
}

// check returns a problem unless p is a packing that Headroom reads. Zeros say nothing and pass.
func (p pack) check(where string) error {
	bits, groups := []int{0, 2, 3, 4, 5, 6, 8}, []int{0, 32, 64, 128}
	supported := "2, 3, 4, 5, 6 and 8 bits in groups of 32, 64 and 128 are"
	if p.Mode == kernels.MXFP4 {
		bits, groups, supported = []int{4}, []int{32}, "in mxfp4 4 bits in groups of 32 are"
	}
	if !slices.Contains(bits, p.Bits) || !slices.Contains(groups, p.Group) {
		return problem.New(problem.UnknownArchitecture, "This quantization is not supported",
			fmt.Sprintf("%s says %d bits in groups of %d; %s", where, p.Bits, p.Group, supported),
			"Use another MLX conversion of the model.")
	}
	return nil
}

// of is what is said of a module.
func (q Quantization) of(module string) pack {
	if p, ok := q.Modules[module]; ok {
		return p
	}
	return q.pack
}

// String describes the packing of most weights, as "4-bit, group 64" or "mxfp4".
func (q Quantization) String() string {
	switch {
	case q.Bits == 0:
		return ""
	case q.Mode == kernels.MXFP4:
		return q.Mode.String()
	}
	return fmt.Sprintf("%d-bit, group %d", q.Bits, q.Group)
}
