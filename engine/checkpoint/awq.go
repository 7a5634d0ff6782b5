package checkpoint

// AWQ, as AutoAWQ writes it for its kernel "gemm". A module [n, k] has
//
//	qweight  words [k, n/8]       codes of 4 bits of eight outputs, in the order awqOrder
//	qzeros   words [groups, n/8]  zero points, the same way
//	scales   [groups, n]
//
// Loading transposes codes.

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"

	"headroom/engine/modelfile"
	"headroom/engine/safetensors"
	"headroom/kernels"
)

// awqOrder has the output of each code of a word, lowest bits first.
var awqOrder = [8]int{0, 2, 4, 6, 1, 3, 5, 7}

// awqShift has the number of the lowest bit of each output in a word.
var awqShift = [8]int{0, 16, 4, 20, 8, 24, 12, 28}

func parseAWQ(q *Quantization, data json.RawMessage) error {
	c := struct {
		Bits    int    `json:"bits"`
		OldBits int    `json:"w_bit"`
		Group   int    `json:"group_size"`
		OldSize int    `json:"q_group_size"`
		Version string `json:"version"` // or:
		Format  string `json:"format"`
	}{}
	if err := modelfile.Decode(q.key, data, &c); err != nil {
		return q.damaged(err)
	}
	if c.Bits == 0 {
		if c.Bits = c.OldBits; c.Bits == 0 {
			c.Bits = 4
		}
	}
	if c.Group == 0 {
		if c.Group = c.OldSize; c.Group == 0 {
			c.Group = 128
		}
	}
	format := strings.ToLower(c.Version)
	if format == "" {
		format = strings.ToLower(c.Format)
	}
	switch {
	case format != "" && format != "gemm":
		return refuseMethod("AWQ", fmt.Sprintf("config.json has the version %q, expected gemm",
			modelfile.Excerpt(format)))
	case c.Bits != 4:
		return refuseMethod("AWQ", fmt.Sprintf("it has %s, expected 4", bitsText(c.Bits)))
	}
	if q.pack = (pack{Bits: c.Bits}); c.Group > 0 {
		q.pack.Group = c.Group
	}
	return nil
}

func openAWQ(s Scope, name string, x *integers) error {
	const perWord = 8
	x.bits, x.group = 4, s.w.Config.Quantization.Group
	if x.group == 0 || x.group > x.k {
		x.group = x.k
	}
	groups := (x.k + x.group - 1) / x.group
	if x.k%perWord != 0 || x.n%perWord != 0 {
		return refuseMethod("AWQ", fmt.Sprintf("%s%s is a matrix of %d x %d, expected multiples "+
			"of 8", s.path, name, x.n, x.k))
	}
	words, err := s.packedTensor(name+".qweight", x.k, x.n/perWord, safetensors.I32)
	if err != nil {
		return err
	}
	zeros, err := s.packedTensor(name+".qzeros", groups, x.n/perWord, safetensors.I32)
	if err != nil {
		return err
	}
	scales, err := s.packedTensor(name+".scales", groups, x.n, floats...)
	if err != nil {
		return err
	}
	x.dtype = kernels.F32 // a zero point times a scale is not exact in 16 bits
	x.writeCodes = func(to kernels.Tensor) { transposeAWQ(to, words.Data) }
	scale := floatAt(scales)
	x.groups = func(values []float32, points []int, from, g int) error {
		row := zeros.Data[g*x.n/2:][:x.n/2]
		for i := range values {
			at := from + i
			word := binary.LittleEndian.Uint32(row[at/perWord*4:])
			values[i] = scale(g*x.n + at)
			points[i] = int(word >> awqShift[at%perWord] & 15)
		}
		return nil
	}
	return nil
}

const (
	awqColumns = 16 // words of a row of qweight that are transposed at a time: a line of the cache
	awqRows    = 16 // words of a row of the result
)

// transposeAWQ writes the codes of qweight, words [k, n/8], to to, words [n, k/8] of codes in
// order. It uses all cores.
func transposeAWQ(to kernels.Tensor, words []byte) {
	wide := to.Rows / 8 // words of a row of qweight
	parallel(wide, awqColumns, func(from, end int) {
		// The transposed tile. Written to directly, rows of a power of two would share the same few
		// lines of the cache.
		var local [awqColumns * 8][awqRows]uint32
		out := to.Bytes()
		for first := 0; first < to.Cols; first += awqRows {
			last := min(first+awqRows, to.Cols)
			for w := first; w < last; w++ {
				for c := from; c < end; c++ {
					var block [8]uint32
					for i := range block {
						block[i] = binary.LittleEndian.Uint32(words[((8*w+i)*wide+c)*4:])
					}
					transposeNibbles(&block)
					for i, codes := range block {
						local[(c-from)*8+awqOrder[i]][w-first] = codes
					}
				}
			}
			for row := range (end - from) * 8 {
				at := out[((from*8+row)*to.Stride+first)*4:]
				for i, codes := range local[row][:last-first] {
					binary.LittleEndian.PutUint32(at[4*i:], codes)
				}
			}
		}
	})
}

// transposeNibbles transposes a matrix of 8 rows of 8 nibbles, lowest bits first: it swaps blocks
// of 4x4, 2x2 and 1x1 nibbles.
func transposeNibbles(rows *[8]uint32) {
	for _, step := range []struct {
		rows, shift int
		mask        uint32
	}{{4, 16, 0x0000ffff}, {2, 8, 0x00ff00ff}, {1, 4, 0x0f0f0f0f}} {
		for i := range rows {
			if i&step.rows != 0 {
				continue
			}
			low, high := &rows[i], &rows[i+step.rows]
			swap := (*low>>step.shift ^ *high) & step.mask
			*high ^= swap
			*low ^= swap << step.shift
		}
	}
}
