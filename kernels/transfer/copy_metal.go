package transfer

import (
	_ "embed"

	"headroom/kernels/gpu"
)

//go:embed copy.metal
var copyText string

var (
	copySource = &gpu.Source{Name: "transfer/copy.metal", Text: copyText}
	copy1      = gpu.NewKernel[copyParams](copySource, "copy_1")
	copy16     = gpu.NewKernel[copyParams](copySource, "copy_16")
)

// copyParams is CopyParams of copy.metal.
type copyParams struct{ Units, From, To uint32 }

const (
	copyThreads   = 256
	copyPerThread = 4       // PER_THREAD of copy.metal
	copyMost      = 1 << 31 // most units of a dispatch, because the kernel counts in 32 bits
)

// Metal implements gpu.Op. It copies units of 16 bytes if the ranges are aligned, as those of pages
// and states are, and single bytes otherwise.
func (o *Copy) Metal(c *gpu.Context) {
	k, unit := copy1, 1
	if (o.From|o.To|o.Bytes)%16 == 0 {
		k, unit = copy16, 16
	}
	for done := 0; done < o.Bytes; done += copyMost * unit {
		from, to, bytes := o.From+done, o.To+done, min(o.Bytes-done, copyMost*unit)
		p := copyParams{Units: uint32(bytes / unit), From: uint32(from % 4 / unit),
			To: uint32(to % 4 / unit)}
		const perGroup = copyThreads * copyPerThread
		k.Dispatch(c, p, gpu.Rows((bytes/unit+perGroup-1)/perGroup, copyThreads),
			gpu.ReadBytes(o.Buffer, from-from%4, from+bytes),
			gpu.WriteBytes(o.Buffer, to-to%4, to+bytes))
	}
}
