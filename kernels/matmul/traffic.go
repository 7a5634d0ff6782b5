package matmul

// TrafficBytes implements kernels.Traffic: every weight once.
func (o *Linear) TrafficBytes() int64 {
	n := int64(0)
	for _, p := range o.Parts {
		n += int64(p.W.Bytes())
	}
	return n
}

// TrafficBytes implements kernels.Traffic: the experts that the rows' choices may touch, each once.
func (o *Experts) TrafficBytes() int64 {
	n := int64(0)
	for _, p := range o.Parts {
		n += int64(p.W.Bytes()) / int64(p.W.Experts) * int64(min(p.W.Experts, o.IDs.Rows*o.IDs.Cols))
	}
	return n
}
