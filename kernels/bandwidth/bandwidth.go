// Package bandwidth reads memory and does next to nothing with it: the yardstick for operators that
// are bound by memory, as every operator of a decode step is.
package bandwidth

import "headroom/kernels"

// Cases are this family's cases.
func Cases() []kernels.Case { return readCases() }
