package sampling

// The largest logit of a row. Greedy decoding waits for it after each token, so it is vectorized.

import (
	"math"

	"headroom/kernels/cpu"
)

const argmaxBlock = 512 // as in argmax.c

var isa = cpu.Best()

// argmax returns the index of the largest logit, the lowest one on ties, or a fault.
func argmax(logits []float32) int32 {
	if isa != cpu.Generic {
		if at := nativeArgmaxBlock(isa, logits); at >= 0 {
			return int32(at) + plainArgmax(logits[at:min(at+argmaxBlock, len(logits))])
		}
	}
	return plainArgmax(logits)
}

// plainArgmax is argmax in plain Go. NaN fails the comparison, so it takes the rare branch and
// needs no second pass.
func plainArgmax(logits []float32) int32 {
	best, peak := NoToken, float32(math.Inf(-1))
	i := 0
	for ; i+8 <= len(logits); i += 8 {
		x := (*[8]float32)(logits[i:])
		if x[0] <= peak && x[1] <= peak && x[2] <= peak && x[3] <= peak &&
			x[4] <= peak && x[5] <= peak && x[6] <= peak && x[7] <= peak {
			continue
		}
		for j, v := range x {
			if v != v || v > math.MaxFloat32 {
				return FaultAt(int32(i + j))
			}
			if v > peak {
				best, peak = int32(i+j), v
			}
		}
	}
	for ; i < len(logits); i++ {
		if v := logits[i]; v != v || v > math.MaxFloat32 {
			return FaultAt(int32(i))
		} else if v > peak {
			best, peak = int32(i), v
		}
	}
	return best
}
