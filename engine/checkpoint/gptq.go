package checkpoint

// GPTQ, as AutoGPTQ and GPTQModel write it. A module [n, k] has
//
//	qweight  words [k*bits/32, n]       codes of a column, a stream of bits from its first word on
//	qzeros   words [groups, n*bits/32]  zero points of a row, the same way
//	scales   [groups, n]
//	g_idx    int32 [k]                  the group of each input; see order.go
//
// The words of a column of qweight are those of a row of MLX, so loading transposes words. In the
// first version of the format, a stored zero point is one too small.

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"headroom/engine/modelfile"
	"headroom/engine/problem"
	"headroom/engine/safetensors"
	"headroom/kernels"
)

// gptqConfig has the keys of a quantization_config of GPTQ that matter for loading.
type gptqConfig struct {
	Bits      int    `json:"bits"`
	Group     int    `json:"group_size"` // -1: a row
	Symmetric *bool  `json:"sym"`
	Order     bool   `json:"desc_act"`          // the columns may be in another order
	Format    string `json:"checkpoint_format"` // or:
	NewFormat string `json:"format"`
	Marlin    bool   `json:"is_marlin_format"`
	// Dynamic has other values for modules whose path matches a regular expression, after "+:" or
	// nothing. The modules of "-:" are plain. The first expression that matches counts.
	Dynamic json.RawMessage `json:"dynamic"`
}

func parseGPTQ(q *Quantization, data json.RawMessage) error {
	c := gptqConfig{Group: 128}
	if err := modelfile.Decode(q.key, data, &c); err != nil {
		return q.damaged(err)
	}
	format := strings.ToLower(c.NewFormat)
	if c.Format != "" {
		format = strings.ToLower(c.Format)
	}
	switch {
	case c.Marlin:
		return refuseMethod("GPTQ", "it is packed for Marlin")
	case format == "gptq_v2":
		q.exactZeros = true
	case format != "" && format != "gptq":
		return refuseMethod("GPTQ", fmt.Sprintf("config.json has the format %q, expected gptq or "+
			"gptq_v2", modelfile.Excerpt(format)))
	}
	q.reordered = c.Order
	if c.Symmetric == nil {
		c.Symmetric = new(false) // every zero point is right then
	}
	base := scheme{Bits: c.Bits, Group: c.Group, Symmetric: c.Symmetric}
	s := &schemes{}
	if err := s.addGPTQ(base, linearClass); err != nil {
		return err
	}
	patterns, rules, err := orderedObject("dynamic", c.Dynamic)
	if err != nil {
		return q.damaged(err)
	}
	for _, pattern := range patterns {
		if plain, ok := strings.CutPrefix(pattern, "-:"); ok {
			if why := s.targets.add([]string{"re:" + plain}, plainScheme); why != "" {
				return refuseMethod("GPTQ", why)
			}
			continue
		}
		other := gptqConfig{Bits: base.Bits, Group: base.Group, Symmetric: base.Symmetric}
		if err := modelfile.Decode("dynamic", rules[pattern], &other); err != nil {
			return q.damaged(err)
		}
		q.reordered = q.reordered || other.Order
		err := s.addGPTQ(scheme{Bits: other.Bits, Group: other.Group, Symmetric: other.Symmetric},
			"re:"+strings.TrimPrefix(pattern, "+:"))
		if err != nil {
			return err
		}
	}
	q.schemes, q.pack = s, s.all[0].pack
	return nil
}

// orderedObject returns the keys of a JSON object in their order, and their values. Of a key that
// is repeated the first place and the last value count, as in Python. Nil data, or null, has none.
func orderedObject(name string, data json.RawMessage) (keys []string,
	values map[string]json.RawMessage, err error) {
	if data == nil {
		return nil, nil, nil
	}
	if err := modelfile.Decode(name, data, &values); err != nil || values == nil {
		return nil, nil, err
	}
	seen := make(map[string]bool, len(values))
	for d := json.NewDecoder(bytes.NewReader(data)); ; {
		token, err := d.Token()
		if err != nil {
			return nil, nil, err
		}
		switch token {
		case json.Delim('{'):
			continue
		case json.Delim('}'):
			return keys, values, nil
		}
		if key := token.(string); !seen[key] {
			seen[key], keys = true, append(keys, key)
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, nil, err
		}
	}
}

// addGPTQ adds the scheme of a target.
func (c *schemes) addGPTQ(s scheme, target string) error {
	if !slices.Contains([]int{2, 3, 4, 8}, s.Bits) {
		return refuseMethod("GPTQ", fmt.Sprintf("it has %s, expected 2, 3, 4 or 8",
			bitsText(s.Bits)))
	}
	if s.pack = (pack{Bits: s.Bits}); s.Group > 0 {
		s.pack.Group = s.Group
	}
	if why := c.targets.add([]string{target}, len(c.all)); why != "" {
		return refuseMethod("GPTQ", why)
	}
	c.all = append(c.all, s)
	return nil
}

// refuseMethod returns the Problem of a variant of a method that is not supported.
func refuseMethod(method, why string) error {
	return problem.New(problem.UnknownArchitecture, "Headroom cannot run this variant of "+method,
		why, otherWeights)
}

func openGPTQ(s Scope, name string, x *integers) error {
	q := &s.w.Config.Quantization
	how, ok := q.schemes.of(s.path + name)
	if !ok {
		how = q.schemes.all[0]
	}
	x.bits, x.group = how.Bits, how.Group
	if x.group <= 0 || x.group > x.k {
		x.group = x.k
	}
	groups := (x.k + x.group - 1) / x.group
	if x.k*x.bits%32 != 0 || x.n*x.bits%32 != 0 {
		return refuseMethod("GPTQ", fmt.Sprintf("%s%s is a matrix of %d x %d, which words of %d "+
			"bits do not divide", s.path, name, x.n, x.k, x.bits))
	}
	words, err := s.packedTensor(name+".qweight", x.k*x.bits/32, x.n, safetensors.I32)
	if err != nil {
		return err
	}
	zeros, err := s.packedTensor(name+".qzeros", groups, x.n*x.bits/32, safetensors.I32)
	if err != nil {
		return err
	}
	scales, err := s.packedTensor(name+".scales", groups, x.n, floats...)
	if err != nil {
		return err
	}
	if err := s.order(name+".g_idx", x); err != nil {
		return err
	}
	// A zero point in the middle times a scale is exact in the type of the scale.
	middle := 0
	if x.dtype = kernels.F32; how.symmetric() {
		x.dtype, middle = dtypes[scales.DType], 1<<(x.bits-1)
	}
	from := s.operand(words, kernels.U32)
	x.writeCodes = func(to kernels.Tensor) { transpose(to, from, 1) }
	x.groups = gptqGroups(x, zeros, scales, q.exactZeros, middle)
	return nil
}

// gptqGroups returns the function that reads scales and zero points. exact says that zero points
// are stored as they are. If middle is not 0, every zero point must have that value.
func gptqGroups(x *integers, zeros, scales safetensors.Tensor, exact bool,
	middle int) func([]float32, []int, int, int) error {
	scale, width := floatAt(scales), x.n*x.bits/8 // of a row of zero points, in bytes
	return func(values []float32, points []int, from, g int) error {
		row := zeros.Data[g*width:][:width]
		for i := range values {
			values[i] = scale(g*x.n + from + i)
			points[i] = gptqZero(row, from+i, x.bits, exact)
			if middle != 0 && points[i] != middle {
				return fmt.Errorf("a zero point is %d, expected %d, because config.json says that "+
					"the codes are symmetric", points[i], middle)
			}
		}
		return nil
	}
}

// gptqZero returns zero point i of a row. Of those that are one too small, GPTQModel subtracts one
// from each in a whole word, so that a borrow reaches the next zero point. Adding to the whole word
// is the reverse. Zero points of 3 bits cross words, and have no borrow.
func gptqZero(row []byte, i, bits int, exact bool) int {
	switch {
	case exact:
		return codeAt(row, i, bits)
	case bits == 3:
		return (codeAt(row, i, bits) + 1) & 7
	}
	perWord := 32 / bits
	ones := ^uint32(0) / (1<<bits - 1) // a 1 for each zero point
	word := binary.LittleEndian.Uint32(row[i/perWord*4:]) + ones
	return int(word >> (i % perWord * bits) & (1<<bits - 1))
}
