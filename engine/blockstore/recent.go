package blockstore

// This file answers which conversations are read before the first request of a process (see
// engine/loop's preload). Order matters more than completeness, since the caller stops when its
// memory is full. The index has the time of every entry's last use, so nothing else is recorded.

import (
	"cmp"
	"slices"
)

// Recent returns the tokens of at most n conversations of this model: the pinned ones, then the
// others, in each case the most recently used first. These are the conversations that are most
// likely to continue. It waits until the index has all files.
func (v *View) Recent(n int) ([][]int32, error) {
	var list [][]int32
	err := v.store.browse(func(x *index) error {
		f, models, err := readAll(x.db)
		if err != nil {
			return err
		}
		type end struct {
			node *node
			Conversation
		}
		var ends []end
		for _, e := range f.ends() {
			c, err := f.describe(v.store.safe(), e, models)
			if err != nil {
				return err
			}
			if c.Fingerprint == v.model.Fingerprint && c.Format == v.model.Format {
				ends = append(ends, end{e, c})
			}
		}
		slices.SortFunc(ends, func(a, b end) int {
			if a.Pinned != b.Pinned {
				return map[bool]int{true: -1, false: 1}[a.Pinned]
			}
			return cmp.Or(later(b.LastHit, b.Created).Compare(later(a.LastHit, a.Created)),
				cmp.Compare(a.Key.String(), b.Key.String()))
		})
		list = list[:0]
		for _, e := range ends {
			tokens, err := pathTokens(v.store.safe(), x.db, e.node)
			if err != nil {
				return err
			}
			if tokens == nil { // its beginning is no longer stored
				continue
			}
			if list = append(list, tokens); len(list) == n {
				break
			}
		}
		return nil
	})
	return list, err
}
