package attention

// TrafficBytes implements kernels.Traffic: the keys and values of every position that a span's rows see, once.
func (o *Attention) TrafficBytes() int64 {
	n := int64(0)
	for _, s := range o.Spans {
		end := s.Pos + s.Rows
		n += o.Cache.bytesOf(min(o.SinkTokens, end) + max(0, end-o.seenFrom(s.Pos)))
	}
	return n
}
