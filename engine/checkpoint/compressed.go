package checkpoint

// The quantization_config that compressed-tensors writes: groups of modules, each with a scheme and
// a format. A format is a packing of its own, and has a row in compressedFormats.

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"headroom/engine/modelfile"
	"headroom/engine/problem"
)

// compressedFormats maps each supported format of compressed-tensors to a function that returns the
// packing of a scheme, or a sentence without a period that says why it is not supported.
var compressedFormats = map[string]func(scheme) (p pack, why string){
	"float-quantized":      floatQuantized,
	"naive-quantized":      floatQuantized,
	"nvfp4-pack-quantized": nvfp4PackQuantized,
	"pack-quantized":       packQuantized,
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
	if err := modelfile.Decode(q.key, data, &given); err != nil {
		return q.damaged(err)
	}
	switch {
	case len(given.Transforms.Groups) > 0:
		return refuseCompressed("its activations are rotated (transform_config)")
	case given.Sparsity.Format != "" && given.Sparsity.Format != "dense":
		return refuseCompressed(fmt.Sprintf("its weights are sparse (%q)",
			modelfile.Excerpt(given.Sparsity.Format)))
	}
	c := &schemes{}
	for _, name := range slices.Sorted(maps.Keys(given.Groups)) {
		group := given.Groups[name]
		if err := c.addGroup(q, name, group, given.Format); err != nil {
			return err
		}
	}
	if len(c.all) == 0 {
		return refuseCompressed("config.json names no group of quantized weights")
	}
	if why := c.ignored.add(given.Ignore, 0); why != "" {
		return refuseCompressed(why)
	}
	q.schemes, q.pack = c, c.all[max(c.targets.class-1, 0)].pack
	return nil
}

// addGroup adds the entry of config_groups called name. format is that of groups that do not state
// one.
func (c *schemes) addGroup(q *Quantization, name string, data json.RawMessage,
	format string) error {
	var group struct {
		Format  string   `json:"format"`
		Targets []string `json:"targets"`
		Weights *scheme  `json:"weights"` // nil: only activations
	}
	key := "config_groups." + modelfile.Excerpt(name)
	if err := modelfile.Decode(key, data, &group); err != nil {
		return q.damaged(err)
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
	if why := c.targets.add(group.Targets, len(c.all)); why != "" {
		return refuseCompressed(why)
	}
	c.all = append(c.all, s)
	return nil
}

// refuseCompressed returns the Problem of weights of compressed-tensors that are not supported.
func refuseCompressed(why string) error {
	return problem.New(problem.UnknownArchitecture, "Headroom cannot run this variant of "+
		"compressed-tensors", why, otherWeights)
}

// damaged returns the Problem of a quantization with values of a wrong kind.
func (q *Quantization) damaged(err error) error {
	return problem.Wrap(problem.ModelBroken, err,
		"The quantization in "+cmp.Or(q.file, "config.json")+" is damaged",
		"Download or convert the model again.")
}
