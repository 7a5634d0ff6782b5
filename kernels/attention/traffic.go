package attention

// TrafficBytes implements kernels.Traffic: the keys and values of every position that a span's rows see, once.
func (o *Attention) TrafficBytes() int64 {
	n := int64(0)
	for _, s := range o.Spans {
		from := 0
		if o.Window > 0 {
			from = max(0, s.Pos-o.Window+1)
		}
		n += int64(s.Pos + s.Rows - from)
	}
	return n * int64(o.Cache.TokenBytes())
}
