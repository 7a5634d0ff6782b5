package recurrent

import "headroom/kernels"

// TrafficBytes implements kernels.TrafficCounter. The state of each span is read and written.
func (o *GatedDelta) TrafficBytes() int64 {
	return 2 * int64(len(o.Spans)*o.State.Cols*o.State.DType.Size())
}

// Operations implements kernels.OperationCounter. For each token, an element of the state takes
// seven operations: a multiplication by g, and a multiply-add each for S k, the update and S q.
func (o *GatedDelta) Operations() (n kernels.Operations) {
	for _, s := range o.Spans {
		n.Float32 += 7 * int64(s.Rows) * int64(o.Hv*o.Dv*o.Dk)
	}
	return n
}

// TrafficBytes implements kernels.TrafficCounter. The state of each span is read and written.
func (o *SSM) TrafficBytes() int64 {
	return 2 * int64(len(o.Spans)*o.State.Cols*o.State.DType.Size())
}

// Operations implements kernels.OperationCounter. For each token, an element of the state takes
// five operations: a multiplication by the decay, and a multiply-add each for the update and S C.
func (o *SSM) Operations() (n kernels.Operations) {
	for _, s := range o.Spans {
		n.Float32 += 5 * int64(s.Rows) * int64(o.Heads*o.Dim*o.N)
	}
	return n
}

// TrafficBytes implements kernels.TrafficCounter.
func (o *ConvGatedDelta) TrafficBytes() int64 {
	_, delta := o.parts()
	return delta.TrafficBytes()
}

// Operations implements kernels.OperationCounter.
func (o *ConvGatedDelta) Operations() kernels.Operations {
	_, delta := o.parts()
	return delta.Operations()
}
