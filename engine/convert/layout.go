package convert

// The files of the result: which tensors each has, and where.

import (
	"fmt"
	"strings"

	"headroom/engine/problem"
	"headroom/engine/safetensors"
	"headroom/kernels"
	"headroom/kernels/quantize"
)

// shardBytes is the size from which mlx-lm begins another file.
const shardBytes = 5 << 30

// shard is a file of the result.
type shard struct {
	name    string
	header  []byte
	size    int64 // with the header
	tensors []*tensor
	parts   []*part
}

// layOut sets the parts of all tensors and divides them among files.
func (c *conversion) layOut() error {
	limit := c.o.shardBytes
	if limit == 0 {
		limit = shardBytes
	}
	var last *shard
	size := int64(0)
	for _, t := range c.tensors {
		t.setParts()
		bytes := int64(0)
		for _, p := range t.used() {
			bytes += int64(p.rowBytes) * int64(t.rows)
		}
		if last == nil || size+bytes > limit && len(last.tensors) > 0 {
			last, size = &shard{}, 0
			c.shards = append(c.shards, last)
		}
		last.tensors = append(last.tensors, t)
		size += bytes
		c.bytes += bytes
		if t.isRaw && t.raw == safetensors.U32 {
			c.parameters += int64(t.rows) * int64(t.cols) * 8
		} else if !t.isRaw {
			c.parameters += int64(t.rows) * int64(t.cols)
		}
	}
	if last == nil {
		return problem.New(problem.ModelBroken, "This model has no weights",
			"no tensor is left for mlx-lm's class", "Download the model again.")
	}
	for i, s := range c.shards {
		s.name = "model.safetensors"
		if len(c.shards) > 1 {
			s.name = fmt.Sprintf("model-%05d-of-%05d.safetensors", i+1, len(c.shards))
		}
		if err := s.layOut(); err != nil {
			return problem.Wrap(problem.ModelBroken, err, "This model cannot be converted",
				"Download it again.")
		}
	}
	return nil
}

// layOut sets the header of a file and the places of its tensors.
func (s *shard) layOut() error {
	var all []safetensors.Tensor
	places := map[string]*part{}
	for _, t := range s.tensors {
		for _, p := range t.used() {
			all = append(all, safetensors.Tensor{Name: p.name, DType: p.dtype, Shape: p.shape})
			places[p.name] = p
		}
	}
	header, err := safetensors.Header(all, map[string]string{"format": "mlx"})
	if err != nil {
		return err
	}
	s.header, s.size = header, int64(len(header))
	for _, t := range all {
		places[t.Name].at = t.From
		s.parts = append(s.parts, places[t.Name])
		s.size = max(s.size, int64(t.To))
	}
	return nil
}

// used returns the parts that t has.
func (t *tensor) used() (parts []*part) {
	for i := range t.parts {
		if t.parts[i].name != "" {
			parts = append(parts, &t.parts[i])
		}
	}
	return parts
}

// setParts sets the parts of t but their places.
func (t *tensor) setParts() {
	t.parts = [3]part{{name: t.name, dtype: t.raw, shape: t.shape}}
	if !t.isRaw {
		t.parts[0].dtype = fileTypes[t.dtype]
	}
	t.parts[0].rowBytes = t.cols * t.parts[0].dtype.Bytes()
	if t.format == nil {
		return
	}
	f, module := *t.format, strings.TrimSuffix(t.name, ".weight")
	rowShape := func(cols int) []int {
		return append(append([]int{}, t.shape[:len(t.shape)-1]...), cols)
	}
	t.parts[0] = part{name: t.name, dtype: safetensors.U32, shape: rowShape(t.cols * f.Bits / 32),
		rowBytes: f.CodeBytes(t.cols)}
	scales := part{name: module + ".scales", dtype: safetensors.U8,
		shape: rowShape(t.cols / f.Group), rowBytes: f.ScaleBytes(t.cols, t.dtype)}
	if f.Mode == kernels.Affine {
		scales.dtype = fileTypes[t.dtype]
		t.parts[2] = scales
		t.parts[2].name = module + ".biases"
	}
	t.parts[1] = scales
}

// packedOf returns the memory of the three parts of rows as quantize takes it.
func packedOf(buffers [3][]byte) quantize.Packed {
	return quantize.Packed{Codes: buffers[0], Scales: buffers[1], Biases: buffers[2]}
}
