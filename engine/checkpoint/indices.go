package checkpoint

// Tensors of integers, which no kernel reads.

import (
	"encoding/binary"

	"headroom/engine/safetensors"
	"headroom/kernels"
)

// Indices loads a tensor of n integers from 0 to limit-1. In a dry run it returns none. A random
// model has the first n integers.
func (s Scope) Indices(name string, n, limit int) []int32 {
	if s.w.err != nil {
		return nil
	}
	indices := make([]int32, n)
	if s.w.files == nil {
		for i := range indices {
			indices[i] = int32(i % limit)
		}
		return indices
	}
	t, err := s.packedTensor(name, 1, n, safetensors.I64, safetensors.I32)
	if err != nil {
		s.w.refuse(err)
		return nil
	}
	if _, dry := s.w.Device.(*kernels.DryRun); dry {
		return nil
	}
	size := t.DType.Bytes()
	for i := range indices {
		word := t.Data[i*size:][:size]
		index := binary.LittleEndian.Uint32(word)
		if uint64(index) >= uint64(limit) || size == 8 && binary.LittleEndian.Uint32(word[4:]) > 0 {
			s.w.Failf("tensor %s%s has an element that is not from 0 to %d", s.path, name, limit-1)
			return nil
		}
		indices[i] = int32(index)
	}
	return indices
}
