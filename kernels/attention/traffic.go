package attention

import "headroom/kernels"

// TrafficBytes implements kernels.TrafficCounter: the keys and values of every position that a
// span's rows see, once.
func (o *Attention) TrafficBytes() int64 {
	n := int64(0)
	for _, s := range o.Spans {
		end := s.Pos + s.Rows
		n += o.Cache.bytesOf(min(o.SinkTokens, end) + max(0, end-o.seenFrom(s.Pos)))
	}
	return n
}

// Operations implements kernels.OperationCounter: each query times the keys that it sees, and as
// many weights times values. A start in float16 counts as what follows it.
func (o *Attention) Operations() (n kernels.Operations) {
	seen := int64(0)
	for _, s := range o.Spans {
		seen += o.seenBy(s.Pos, s.Pos+s.Rows)
	}
	product := 2 * seen * int64(o.Q.Cols)
	for _, f := range []Format{o.Cache.KFormat, o.Cache.VFormat} {
		if f.quantized() {
			n.Int8 += product
		} else {
			n.Float32 += product
		}
	}
	return n
}

// seenBy is how many positions the rows of [from, to) see together, without going through all of
// them: plans are made for millions of rows.
func (o *Attention) seenBy(from, to int) (n int64) {
	if o.Window == 0 {
		return int64(to-from) * int64(from+1+to) / 2
	}
	// from here on every row sees sinks and a whole window
	full := min(to, max(from, o.SinkTokens+o.Window-1))
	for pos := from; pos < full; pos++ {
		n += int64(o.seen(pos))
	}
	return n + int64(to-full)*int64(o.SinkTokens+o.Window)
}
