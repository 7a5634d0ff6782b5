package checkpoint

// The order of inputs. GPTQ may quantize the inputs of a matrix in the order of their activations
// (desc_act, actorder), so that those of a group do not follow each other. Kernels have one scale
// for columns that follow each other. So loading sorts the columns by group, and the matrix says
// which input each column multiplies (kernels.Weight.Order).

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"headroom/engine/safetensors"
	"headroom/kernels"
)

// order sets the order of x from the tensor called name, which has the group of each input, or -1
// for all of them. It sets none if the groups are in order, or if there is no such tensor. A dry
// run of GPTQ reads the tensor only if config.json says that there may be another order: there are
// many, and each is in another place of the file.
func (s Scope) order(name string, x *integers) error {
	if !s.Has(name) {
		return nil
	}
	t, err := s.packedTensor(name, 1, x.k, safetensors.I32, safetensors.I64)
	if err != nil {
		return err
	}
	q := &s.w.Config.Quantization
	if _, dry := s.w.Device.(*kernels.DryRun); dry && q.method.name == "GPTQ" && !q.reordered {
		return nil
	}
	size := t.DType.Bytes()
	group := func(i int) int {
		if t.DType == safetensors.I64 {
			return int(binary.LittleEndian.Uint64(t.Data[i*size:]))
		}
		return int(int32(binary.LittleEndian.Uint32(t.Data[i*size:])))
	}
	if x.order, err = inputOrder(x.k, x.group, group); err != nil {
		return s.mismatch("tensor %s: %v", t.Name, err)
	}
	if x.order != nil {
		x.orderTensor = s.orderTensor(x.order)
	}
	return nil
}

// inputOrder returns the order that sorts k inputs by their group, each of size inputs, and nil if
// they are in order.
func inputOrder(k, size int, group func(i int) int) ([]int32, error) {
	groups := (k + size - 1) / size
	next := make([]int, groups) // the column of the next input of a group
	for g := range next {
		next[g] = g * size
	}
	order, sorted, unset := make([]int32, k), true, 0
	for i := range k {
		g := group(i)
		if g == -1 {
			unset++
			continue
		}
		if g < 0 || g >= groups {
			return nil, fmt.Errorf("input %d is in group %d, expected 0 to %d", i, g, groups-1)
		}
		if next[g] >= min((g+1)*size, k) {
			return nil, fmt.Errorf("group %d has more inputs than %d", g, size)
		}
		order[next[g]] = int32(i)
		sorted = sorted && next[g] == i
		next[g]++
	}
	switch {
	case unset == k, sorted && unset == 0:
		return nil, nil
	case unset > 0:
		return nil, fmt.Errorf("%d of %d inputs have no group", unset, k)
	}
	return order, nil
}

// orderTensor returns an order in the memory of the device. Matrices with the same inputs usually
// have the same order. They share it, so that inputs are gathered once for all of them.
func (s Scope) orderTensor(order []int32) kernels.Tensor {
	bytes := make([]byte, 0, 4*len(order))
	for _, i := range order {
		bytes = binary.LittleEndian.AppendUint32(bytes, uint32(i))
	}
	key := sha256.Sum256(bytes)
	t, ok := s.w.orders[key]
	if !ok {
		if s.w.orders == nil {
			s.w.orders = map[[sha256.Size]byte]kernels.Tensor{}
		}
		t = kernels.NewTensor(s.w.Device, kernels.I32, 1, len(order))
		if t.Buffer.Bytes != nil {
			copy(t.Int32s(), order)
		}
		s.w.orders[key] = t
	}
	return t
}

// sortCodes brings the codes of the rows of t into the order of x.
func (x *integers) sortCodes(t kernels.Tensor) {
	if x.order == nil {
		return
	}
	w := kernels.Weight{K: x.k, Bits: x.bits, Data: t}
	parallel(t.Rows, scaleRows, func(from, to int) {
		codes := make([]uint8, x.k)
		for row := from; row < to; row++ {
			w.DecodeCodes(codes, row)
			encodeCodes(t.RowRange(row, row+1).Bytes(), codes, x.order, x.bits)
		}
	})
}

// encodeCodes writes codes in the given order to a row, a stream of bits.
func encodeCodes(row []byte, codes []uint8, order []int32, bits int) {
	window, have := uint64(0), 0 // have is the number of bits in window
	for _, i := range order {
		window |= uint64(codes[i]) << have
		for have += bits; have >= 32; have -= 32 {
			binary.LittleEndian.PutUint32(row, uint32(window))
			row, window = row[4:], window>>32
		}
	}
}
