//go:build linux && amd64

package sim

// Conflicts between dispatches. Of two dispatches that no barrier separates, neither may write a
// byte that the other reads or writes, whatever order they ran in. Only the bytes accessed count,
// not the ranges bound.

import (
	"errors"
	"fmt"
)

const (
	wasRead    = 1
	wasWritten = 2
)

// conflicts compares every pair of dispatches. touched[i] belongs to interval[i].
func conflicts(interval []dispatch, touched [][]touchedRegion) error {
	var errs []error
	for j := range interval {
		for i := range j {
			for _, a := range touched[i] {
				for _, b := range touched[j] {
					if err := conflict(&interval[i], &interval[j], a, b); err != nil {
						errs = append(errs, err)
					}
				}
			}
			if len(errs) >= 8 {
				return errors.Join(errs...)
			}
		}
	}
	return errors.Join(errs...)
}

func conflict(first, second *dispatch, a, b touchedRegion) error {
	from, to := max(a.from, b.from), min(a.to, b.to)
	if from >= to || !a.writable && !b.writable {
		return nil
	}
	for at := from; at < to; at++ {
		x, y := a.bytes[at-a.from], b.bytes[at-b.from]
		if x == 0 || y == 0 || (x|y)&wasWritten == 0 {
			continue
		}
		end := at
		for end < to && a.bytes[end-a.from] == x && b.bytes[end-b.from] == y {
			end++
		}
		return fmt.Errorf(
			"no barrier between dispatch %q, which %s %s, and dispatch %q, which %s them: call "+
				"Barrier between the two",
			first.Label, verb(x), first.where(at, end), second.Label, verb(y))
	}
	return nil
}

func verb(touched byte) string {
	if touched&wasWritten != 0 {
		return "writes"
	}
	return "reads"
}

// where describes addresses [from, to) by the buffer that holds them.
func (x *dispatch) where(from, to uint64) string {
	for i := range x.Pipeline.Kernel().Arguments {
		a := &x.Pipeline.Kernel().Arguments[i]
		b := x.bindings[max(a.Index, 0)]
		if k := x.Pipeline.Kernel().Buffer(a.Index); k != a || b.Buffer == nil {
			continue
		}
		if s := addressesOf(b); from >= s.from && from < s.to {
			start := b.Buffer.(*buffer).address()
			return fmt.Sprintf("bytes [%d, %d) of %q (buffer %d, %s)", from-start, to-start,
				b.Buffer.Label(), a.Index, a.Name)
		}
	}
	return fmt.Sprintf("bytes [%#x, %#x)", from, to)
}
