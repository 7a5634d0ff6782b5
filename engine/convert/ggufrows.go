package convert

// Reading rows of a GGUF file in the order of the original: package original says which row and
// column of the file each one is.

import "headroom/kernels/quantize"

// readBlocks returns rows [from, to) of t as the file has them, in the order of the original.
func (r *reader) readBlocks(t *tensor, from, to int, s *scratch) ([]byte, error) {
	per, first := t.perValue(), r.blocks[t.values[0]]
	size := first.From.RowBytes()
	in := grow(&s.in, (to-from)*size)
	for i := from; i < to; {
		source := r.blocks[t.values[i/per]]
		row, n := source.Row(t.pick.row(i%per)), 1
		for i+n < to && (i+n)/per == i/per && source.Row(t.pick.row((i+n)%per)) == row+n {
			n++
		}
		at := in[(i-from)*size:]
		if err := r.gguf.ReadRow(source.From, row, at[:n*size]); err != nil {
			return nil, err
		}
		i += n
	}
	return in, nil
}

// blockFloats returns rows [from, to) of t as float32, in the memory of s.
func (r *reader) blockFloats(t *tensor, from, to int, s *scratch) ([]float32, error) {
	source := r.blocks[t.values[0]]
	out := grow(&s.floats, (to-from)*t.cols)
	if err := r.decodeRows(t, from, to, out, s); err != nil {
		return nil, err
	}
	source.Change(out)
	for _, v := range out {
		if v-v != 0 {
			return nil, notFinite(t)
		}
	}
	for i := from; i < to; i++ {
		row := out[(i-from)*t.cols:][:t.cols]
		t.change(row, i)
		t.fuse(row, i)
	}
	return out, nil
}

// decodeRows writes the elements of rows [from, to) of t as the file has them, in the order of the
// original.
func (r *reader) decodeRows(t *tensor, from, to int, out []float32, s *scratch) error {
	source := r.blocks[t.values[0]]
	switch {
	case len(source.From.Shape) == 1 && source.Permuted():
		values, err := r.gguf.Floats(source.From)
		if err != nil {
			return err
		}
		for i := range out {
			out[i] = values[source.Row(i)]
		}
		return nil
	case t.transposed:
		return r.decodeColumns(t, from, to, out, s)
	}
	in, err := r.readBlocks(t, from, to, s)
	if err != nil {
		return err
	}
	source.Type().Decode(out, in)
	if source.Run() == 0 {
		return nil
	}
	row := grow(&s.row, t.cols)
	for at := 0; at < len(out); at += t.cols {
		copy(row, out[at:])
		for k := range t.cols {
			out[at+k] = row[source.Column(k)]
		}
	}
	return nil
}

// decodeColumns is decodeRows for rows that are columns of a matrix. [from, to) is within it.
func (r *reader) decodeColumns(t *tensor, from, to int, out []float32, s *scratch) error {
	source, p := r.blocks[t.values[0]], t.pick
	width, size := source.From.Cols(), source.From.RowBytes()
	in, row := grow(&s.in, size), grow(&s.row, width)
	for k := range t.cols {
		if err := r.gguf.ReadRow(source.From, source.Row(from/p.take*p.skip+k), in); err != nil {
			return err
		}
		source.Type().Decode(row, in)
		for i := from; i < to; i++ {
			out[(i-from)*t.cols+k] = row[p.first+i%p.take*p.step]
		}
	}
	return nil
}

// blockRows returns rows [from, to) of t in its type.
func (r *reader) blockRows(t *tensor, from, to int, s *scratch) ([]byte, error) {
	floats, err := r.blockFloats(t, from, to, s)
	if err != nil {
		return nil, err
	}
	out := grow(&s.cast, len(floats)*t.dtype.Size())
	for i, v := range floats {
		quantize.PutFloat(out, i, v, t.dtype)
	}
	return out, t.checkRange(out)
}
