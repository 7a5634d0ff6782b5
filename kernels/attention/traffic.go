package attention

import "headroom/kernels"

// TrafficBytes implements kernels.TrafficCounter. It counts the keys and values of every position
// that the rows of a span see, once per span.
func (o *Attention) TrafficBytes() int64 {
	n := int64(0)
	for _, s := range o.Spans {
		end := s.Pos + s.Rows
		n += o.Cache.bytesOf(min(o.SinkTokens, end) + max(0, end-o.seenFrom(s.Pos)))
	}
	return n
}

// Operations implements kernels.OperationCounter. It counts each query times the keys that it sees,
// and as many weights times values. Positions in a Start count as if they had the cache's format.
func (o *Attention) Operations() (n kernels.Operations) {
	seen := int64(0)
	for _, s := range o.Spans {
		seen += o.seenBy(s.Pos, s.Pos+s.Rows)
		if o.Following > 0 { // at most; a window hides some
			seen += int64(s.Rows) * int64(min(o.Following, s.Rows-1)) / 2
		}
	}
	add := func(f Format, columns int) {
		if f.quantized() {
			n.Int8 += 2 * seen * int64(columns)
		} else {
			n.Float32 += 2 * seen * int64(columns)
		}
	}
	add(o.Cache.KFormat, o.Q.Cols)
	add(o.Cache.VFormat, o.heads()*o.Cache.valueDim())
	return n
}

// seenBy returns the number of positions that the rows at positions [from, to) see in total. It
// does not loop over all rows, because a batch on a kernels.DryRun may have millions of them.
func (o *Attention) seenBy(from, to int) (n int64) {
	if o.Window == 0 {
		return int64(to-from) * int64(from+1+to) / 2
	}
	// From here on every row sees all sink tokens and a whole window.
	full := min(to, max(from, o.SinkTokens+o.Window-1))
	for pos := from; pos < full; pos++ {
		n += int64(o.seen(pos))
	}
	return n + int64(to-full)*int64(o.SinkTokens+o.Window)
}
