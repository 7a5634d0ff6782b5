package recurrent

// TrafficBytes implements kernels.Traffic: each span's state, read and written.
func (o *GatedDelta) TrafficBytes() int64 {
	return 2 * int64(len(o.Spans)*o.State.Cols*o.State.DType.Size())
}
