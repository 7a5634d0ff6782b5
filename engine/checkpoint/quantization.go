package checkpoint

// Parsing of the quantization in config.json: bits, group size and mode of all packed weights, and
// exceptions for single modules.

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"headroom/engine/modelfile"
	"headroom/engine/problem"
	"headroom/engine/safetensors"
	"headroom/kernels"
)

// Quantization is the packing of the weights according to config.json: a default, and exceptions
// for single modules. The actual packing follows from the shapes in the files (see Scope.Linear).
// It must agree with Quantization, because folders that mix the files of several conversions are
// common.
type Quantization struct {
	pack                    // the default; Bits 0: plain weights
	Modules map[string]pack // exceptions by module path; Bits 0: plain weights

	key  string // of the quantization, such as "quantization_config"; "": there is none
	file string // that has it; "": config.json

	method  *method  // of another program that has packed the weights; nil: none
	schemes *schemes // of that method

	block      [2]int // FP8: rows and columns of a block; 0: fp8Block
	exactZeros bool   // GPTQ: stored zero points are not one too small
	reordered  bool   // GPTQ: the inputs of a group may not follow each other
}

// method is how another program packs integers, in a way that Headroom runs. Each has a file.
type method struct {
	name  string
	parse func(q *Quantization, data json.RawMessage) error
	codes string   // suffix of the tensor with the codes of a module
	parts []string // suffixes of its other tensors
	// copies says that loading copies the codes of every module.
	copies bool
	// open reads the headers of the tensors of a module and sets the fields of x but n and k, which
	// it has.
	open func(s Scope, name string, x *integers) error
}

// methods has the supported methods by quant_method.
var methods = map[string]*method{
	"awq": {name: "AWQ", parse: parseAWQ, open: openAWQ, copies: true, codes: codesSuffix,
		parts: []string{".qzeros", scalesSuffix}},
	"gptq": {name: "GPTQ", parse: parseGPTQ, open: openGPTQ, copies: true, codes: codesSuffix,
		parts: []string{".qzeros", scalesSuffix, ".g_idx"}},
	"compressed-tensors": {name: "compressed-tensors", parse: parseCompressed,
		open: openPackQuantized, codes: packedSuffix,
		parts: []string{".weight_scale", zerosSuffix, ".weight_shape", ".weight_g_idx"}},
}

// The suffixes of codes, and of the zero points of compressed-tensors.
const (
	codesSuffix  = ".qweight"
	packedSuffix = ".weight_packed"
	zerosSuffix  = ".weight_zero_point"
)

// floatMethods has the methods that pack floats by quant_method. The tensors tell the packing (see
// floatPackings), so config.json is only parsed.
var floatMethods = map[string]func(q *Quantization, data json.RawMessage) error{
	"fbgemm_fp8": parseFBGEMM,
	"fp8":        parseFP8,
	"modelopt":   parseModelOpt,
}

// otherWeights is what to do about weights that Headroom cannot run.
const otherWeights = "Use an MLX conversion of the model, or its weights in bf16, f16 or f32."

// pack is the packing of a weight. If Bits or Group is 0, config.json does not state it.
type pack struct {
	Bits  int          `json:"bits"`
	Group int          `json:"group_size"`
	Mode  kernels.Mode `json:"-"`
}

// String describes what p states.
func (p pack) String() string {
	if p.Mode != kernels.Affine {
		return p.Mode.String()
	}
	return p.sizes()
}

// sizes describes the bits and the groups, as far as p states them.
func (p pack) sizes() string {
	switch {
	case p.Bits == 0 && p.Group == 0:
		return "no bits"
	case p.Bits == 0:
		return fmt.Sprintf("groups of %d", p.Group)
	case p.Group == 0:
		return bitsText(p.Bits)
	}
	return fmt.Sprintf("%s in groups of %d", bitsText(p.Bits), p.Group)
}

// bitsText returns a number of bits in words. 0 is one that is not stated.
func bitsText(bits int) string {
	switch bits {
	case 0:
		return "no bits"
	case 1:
		return "1 bit"
	}
	return fmt.Sprintf("%d bits", bits)
}

// modes maps each supported mode to its default bits and group size. An entry without a mode is
// affine. An exception does not inherit the mode of the default.
var modes = map[string]pack{
	"":                      {Mode: kernels.Affine},
	kernels.Affine.String(): {Mode: kernels.Affine},
	kernels.MXFP4.String():  {Mode: kernels.MXFP4, Bits: 4, Group: 32},
	kernels.MXFP8.String():  {Mode: kernels.MXFP8, Bits: 8, Group: 32},
	kernels.NVFP4.String():  {Mode: kernels.NVFP4, Bits: 4, Group: 16},
}

// parsePack parses an object with bits, group_size and mode. Missing keys are taken from inherited
// if it has the same mode. The parameter where describes the weights, for errors.
func parsePack(data json.RawMessage, where string, inherited pack) (p pack, err error) {
	var given struct {
		Mode string `json:"mode"`
	}
	damaged := func(err error) error {
		return problem.Wrap(problem.ModelBroken, err,
			"The quantization of "+where+" in config.json is damaged",
			"Download or convert the model again.")
	}
	if err := modelfile.Decode("", data, &given); err != nil {
		return p, damaged(err)
	}
	p, ok := modes[given.Mode]
	if !ok {
		return p, problem.New(problem.UnknownArchitecture, "This quantization is not supported",
			fmt.Sprintf("config.json has mode %q for %s, expected affine, mxfp4, mxfp8 "+
				"or nvfp4",
				given.Mode, where),
			"Use an MLX conversion in one of these modes.")
	}
	if p.Mode == inherited.Mode {
		p = inherited
	}
	var stated struct { // nil: not stated
		Bits  *int `json:"bits"`
		Group *int `json:"group_size"`
	}
	if err := modelfile.Decode("", data, &stated); err != nil {
		return p, damaged(err)
	}
	for _, one := range []struct {
		key   string
		value *int
		to    *int
	}{{"bits", stated.Bits, &p.Bits}, {"group_size", stated.Group, &p.Group}} {
		if one.value == nil {
			continue
		}
		if *one.to = *one.value; *one.to <= 0 {
			return p, problem.New(problem.ModelBroken,
				"The quantization in config.json is not valid", fmt.Sprintf(
					"%s is %d for %s, expected more than 0", one.key, *one.to, where),
				"Download or convert the model again.")
		}
	}
	return p, p.check(where)
}

// parse parses the quantization in config.json, the value of key. Nil data means plain weights.
func (q *Quantization) parse(key string, data json.RawMessage) error {
	if data == nil {
		return nil
	}
	q.key = key
	var keys map[string]json.RawMessage
	if err := modelfile.Decode(key, data, &keys); err != nil {
		return problem.Wrap(problem.ModelBroken, err,
			"The quantization entry of config.json is not an object",
			"Download or convert the model again.")
	}
	var foreign struct {
		Method string `json:"quant_method"` // for example "gptq" or "awq"; empty in MLX conversions
		In4Bit bool   `json:"load_in_4bit"`
		In8Bit bool   `json:"load_in_8bit"`
	}
	_ = modelfile.Decode("", data, &foreign)
	if foreign.Method == "" && (foreign.In4Bit || foreign.In8Bit) { // as long as it had no method
		key := "load_in_8bit"
		if foreign.In4Bit {
			key = "load_in_4bit"
		}
		return foreignQuantization("bitsandbytes", "config.json has "+key)
	}
	if foreign.Method == kernels.MXFP4.String() { // the original gpt-oss: experts in blocks
		q.pack = modes[foreign.Method]
		return nil
	}
	if m := methods[strings.ToLower(foreign.Method)]; m != nil {
		if err := m.parse(q, data); err != nil {
			return err
		}
		q.method = m
		return nil
	}
	if parse := floatMethods[strings.ToLower(foreign.Method)]; parse != nil {
		return parse(q, data)
	}
	if foreign.Method != "" {
		return foreignQuantization(methodName(foreign.Method),
			fmt.Sprintf("config.json has quant_method %q", modelfile.Excerpt(foreign.Method)))
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

// foreignQuantization returns the Problem of weights that another program has quantized, with the
// given method. why says how they were recognized.
func foreignQuantization(method, why string) *problem.Problem {
	return problem.New(problem.UnknownArchitecture,
		"This model is quantized with "+method+", which Headroom cannot run", why,
		otherWeights)
}

// methodNames maps values of quant_method to the names of the methods.
var methodNames = map[string]string{"gptq": "GPTQ", "awq": "AWQ", "hqq": "HQQ",
	"aqlm": "AQLM", "vptq": "VPTQ", "spqr": "SpQR", "eetq": "EETQ", "exl2": "EXL2", "exl3": "EXL3",
	"higgs": "HIGGS", "bitnet": "BitNet", "auto-round": "AutoRound"}

// methodName returns the name of a method, by its quant_method.
func methodName(method string) string {
	if name, ok := methodNames[strings.ToLower(method)]; ok {
		return name
	}
	return modelfile.Excerpt(method)
}

// parts are suffixes of tensors that only other programs write, beside a module's weight or instead
// of it, and the method of quantization.
var parts = []struct{ suffix, method string }{
	{codesSuffix, "GPTQ or AWQ"},
	{packedSuffix, "compressed-tensors"},
	{".weight.absmax", "bitsandbytes"},
	{".W_q", "HQQ"},
	{".weight_scale_inv", "FP8"},
	{".weight_scale", "FP8, FP4 or INT8"},
}

// typeMethods maps types of weights that kernels cannot read to the method of quantization.
var typeMethods = map[safetensors.DType]string{"F8_E5M2": "FP8 in E5M2",
	"F8_E4M3": "an unknown layout of FP8", "I8": "INT8",
	"F4": "FP4", "F6_E2M3": "FP6", "F6_E3M2": "FP6"}

// foreign returns a Problem if another program has quantized the module name.
func (s Scope) foreign(name string) error {
	weight, ok := s.w.files.Tensor(s.path + name + weightSuffix)
	if dtype, known := dtypes[weight.DType]; ok && known && dtype != kernels.U8 {
		return nil
	}
	for _, part := range parts {
		t, ok := s.w.files.Tensor(s.path + name + part.suffix)
		if !ok {
			continue
		}
		method := part.method
		if part.suffix == codesSuffix || part.suffix == packedSuffix {
			stated := "config.json has no quantization_config"
			q := &s.w.Config.Quantization
			if q.key != "" {
				stated = q.key + " in config.json is of another method"
			}
			if m := q.method; m != nil && m.name == method {
				return s.mismatch("the scales of tensor %s are missing", t.Name)
			}
			return problem.New(problem.UnknownArchitecture, "Headroom cannot tell how this model "+
				"is quantized", "it has the tensor "+t.Name+" of "+method+", but "+stated,
				"Download config.json again.")
		}
		if known, ok := typeMethods[weight.DType]; ok {
			method = known
		}
		return foreignQuantization(method, "it has the tensor "+t.Name)
	}
	return nil
}

// check returns an error unless p is a supported packing. Bits and Group may be 0. The
// parameter where describes the weights, for errors.
func (p pack) check(where string) error {
	bits, groups := []int{0, 2, 3, 4, 5, 6, 8}, []int{0, 32, 64, 128}
	supported := "2, 3, 4, 5, 6 or 8 bits in groups of 32, 64 or 128"
	if p.Mode != kernels.Affine {
		bits, groups = []int{p.Mode.Bits()}, []int{p.Mode.Group()}
		supported = fmt.Sprintf("%s in groups of %d for %s", bitsText(p.Mode.Bits()),
			p.Mode.Group(), p.Mode)
	}
	if !slices.Contains(bits, p.Bits) || !slices.Contains(groups, p.Group) {
		return problem.New(problem.UnknownArchitecture, "This quantization is not supported",
			fmt.Sprintf("config.json has %s for %s, expected %s", p.sizes(), where, supported),
			"Use another MLX conversion of the model.")
	}
	return nil
}

// of returns the packing of a module according to config.json.
func (q Quantization) of(module string) pack {
	if q.schemes != nil {
		s, _ := q.schemes.of(module)
		return s.pack
	}
	if p, ok := q.Modules[module]; ok {
		return p
	}
	return q.pack
}

// String describes the default packing, for example "4-bit, group 64", "mxfp4" or "4-bit, group 128
// (GPTQ)". It returns "" if weights are plain by default.
func (q Quantization) String() string {
	switch {
	case q.Bits == 0:
		return ""
	case q.Mode != kernels.Affine:
		return q.Mode.String()
	}
	text := fmt.Sprintf("%d-bit", q.Bits)
	if q.Group > 0 {
		text += fmt.Sprintf(", group %d", q.Group)
	}
	if q.method != nil {
		text += " (" + q.method.name + ")"
	}
	return text
}
