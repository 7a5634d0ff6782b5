package checkpoint

// The quantization_config that compressed-tensors writes: groups of modules, each with a scheme and
// a format. A format is a packing of its own, and has a row in compressedFormats.

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"headroom/engine/modelfile"
	"headroom/engine/problem"
)

// compressedFormats maps each supported format of compressed-tensors to a function that returns the
// packing of a scheme, or a sentence without a period that says why it is not supported.
var compressedFormats = map[string]func(scheme) (p pack, why string){
	"pack-quantized": packQuantized,
}

// scheme is how compressed-tensors has quantized the weights of a group of modules.
type scheme struct {
	Format    string `json:"-"`
	Bits      int    `json:"num_bits"`
	Type      string `json:"type"` // "int" or "float"
	Symmetric *bool  `json:"symmetric"`
	Strategy  string `json:"strategy"`   // "tensor", "channel", "group", "block" and others
	Group     int    `json:"group_size"` // 0: none, -1: a row
	Block     []int  `json:"block_structure"`

	pack pack // what the function of its format returns
}

// symmetric reports whether the codes have no zero points.
func (s scheme) symmetric() bool { return s.Symmetric == nil || *s.Symmetric }

// compressed says which scheme a module has. Targets and ignored modules are named by their path,
// by a regular expression after "re:", which must match at the beginning of a path, or by a class
// of PyTorch, such as "Linear".
type compressed struct {
	schemes []scheme
	targets modulePatterns
	ignored modulePatterns
}

// modulePatterns maps names, expressions and classes of modules to indices of schemes.
type modulePatterns struct {
	paths   map[string]int
	regexps []modulePattern
	class   int // index+1 of the scheme of the class Linear; 0: none
}

type modulePattern struct {
	*regexp.Regexp
	scheme int
}

// The class of all matrices that Headroom loads. Others, such as Embedding, stay plain.
const linearClass = "Linear"

// maxModulePatterns bounds the number of expressions, because each is matched with each module.
const maxModulePatterns = 1 << 10

// add adds the targets of the scheme with the given index. It ignores expressions that Go does not
// have, because the tensors of a module tell its packing, too.
func (p *modulePatterns) add(targets []string, index int) {
	if p.paths == nil {
		p.paths = map[string]int{}
	}
	for _, target := range targets {
		text, isExpression := strings.CutPrefix(target, "re:")
		switch {
		case isExpression:
			r, err := regexp.Compile(`^(?:` + text + `)`)
			if err == nil && len(p.regexps) < maxModulePatterns {
				p.regexps = append(p.regexps, modulePattern{r, index})
			}
		case target == linearClass:
			p.class = index + 1
		default:
			p.paths[target] = index
		}
	}
}

// find returns the index of the scheme of a module. A path goes before an expression, and that
// before a class.
func (p *modulePatterns) find(module string) (index int, ok bool) {
	if index, ok = p.paths[module]; ok {
		return index, true
	}
	for _, r := range p.regexps {
		if r.MatchString(module) {
			return r.scheme, true
		}
	}
	return p.class - 1, p.class > 0
}

// of returns the scheme of a module. ok is false if its weights are plain.
func (c *compressed) of(module string) (s scheme, ok bool) {
	if _, ignored := c.ignored.find(module); ignored {
		return s, false
	}
	index, ok := c.targets.find(module)
	if !ok {
		return s, false
	}
	return c.schemes[index], true
}

// parseCompressed parses a quantization_config of compressed-tensors. The packing of the group that
// has the class Linear, or else of the first group, is the default.
func parseCompressed(q *Quantization, data json.RawMessage) error {
	var given struct {
		Format string                     `json:"format"`
		Groups map[string]json.RawMessage `json:"config_groups"`
		Ignore []string                   `json:"ignore"`
		// What follows changes how weights are stored or what is computed with them.
		Sparsity struct {
			Format string `json:"format"`
		} `json:"sparsity_config"`
		Transforms struct {
			Groups map[string]json.RawMessage `json:"config_groups"`
		} `json:"transform_config"`
	}
	if err := modelfile.Decode("quantization_config", data, &given); err != nil {
		return damagedQuantization(err)
	}
	switch {
	case len(given.Transforms.Groups) > 0:
		return refuseCompressed("its activations are rotated (transform_config)")
	case given.Sparsity.Format != "" && given.Sparsity.Format != "dense":
		return refuseCompressed(fmt.Sprintf("its weights are sparse (%q)",
			modelfile.Excerpt(given.Sparsity.Format)))
	}
	c := &compressed{}
	for _, name := range slices.Sorted(maps.Keys(given.Groups)) {
		if err := c.addGroup(given.Groups[name], given.Format); err != nil {
			return err
		}
	}
	if len(c.schemes) == 0 {
		return refuseCompressed("config.json names no group of quantized weights")
	}
	c.ignored.add(given.Ignore, 0)
	q.compressed, q.pack = c, c.schemes[max(c.targets.class-1, 0)].pack
	return nil
}

// addGroup adds an entry of config_groups. format is that of groups that do not state one.
func (c *compressed) addGroup(data json.RawMessage, format string) error {
	var group struct {
		Format  string   `json:"format"`
		Targets []string `json:"targets"`
		Weights *scheme  `json:"weights"` // nil: only activations
	}
	if err := modelfile.Decode("config_groups", data, &group); err != nil {
		return damagedQuantization(err)
	}
	if group.Weights == nil {
		return nil
	}
	s := *group.Weights
	if s.Format = format; group.Format != "" {
		s.Format = group.Format
	}
	packing, ok := compressedFormats[s.Format]
	if !ok {
		return refuseCompressed(fmt.Sprintf("config.json has the format %q",
			modelfile.Excerpt(s.Format)))
	}
	var why string
	if s.pack, why = packing(s); why != "" {
		return refuseCompressed(why)
	}
	c.targets.add(group.Targets, len(c.schemes))
	c.schemes = append(c.schemes, s)
	return nil
}

// refuseCompressed returns the Problem of weights of compressed-tensors that are not supported.
func refuseCompressed(why string) error {
	return problem.New(problem.UnknownArchitecture, "Headroom cannot run this variant of "+
		"compressed-tensors", why, otherWeights)
}

// damagedQuantization returns the Problem of a quantization_config with values of a wrong kind.
func damagedQuantization(err error) error {
	return problem.Wrap(problem.ModelBroken, err, "The quantization in config.json is damaged",
		"Download the model again.")
}
