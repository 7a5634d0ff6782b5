package matmul

import "headroom/kernels"

// TrafficBytes implements kernels.TrafficCounter. It counts every weight once, and nothing if there
// are no rows.
func (o *Linear) TrafficBytes() int64 {
	n := int64(0)
	if o.X.Rows == 0 {
		return n
	}
	for _, p := range o.Parts {
		n += int64(p.W.Bytes())
	}
	return n
}

// TrafficBytes implements kernels.TrafficCounter. It counts as many experts as the rows can choose,
// each once.
func (o *Experts) TrafficBytes() int64 {
	n := int64(0)
	for _, p := range o.Parts {
		n += int64(p.W.Bytes()) / int64(p.W.Experts) *
			int64(min(p.W.Experts, o.IDs.Rows*o.IDs.Cols))
	}
	return n
}

// Operations implements kernels.OperationCounter.
func (o *Linear) Operations() kernels.Operations { return operations(o.Parts, o.X.Rows) }

// Operations implements kernels.OperationCounter. It counts one product for each choice of a row.
func (o *Experts) Operations() kernels.Operations {
	return operations(o.Parts, o.IDs.Rows*o.IDs.Cols)
}

// Operations implements kernels.OperationCounter. It counts the products, but not silu.
func (o *GateUp) Operations() kernels.Operations {
	return o.products().(kernels.OperationCounter).Operations()
}

// operations returns the operations of multiplying a number of rows with a matrix of each part.
func operations(parts []Part, rows int) (n kernels.Operations) {
	for _, p := range parts {
		each := 2 * int64(rows) * int64(p.W.N) * int64(p.W.K)
		if !p.W.Float() {
			n.Int8 += each
		} else {
			n.Float32 += each
		}
	}
	return n
}
