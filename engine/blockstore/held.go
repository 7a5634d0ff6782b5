package blockstore

// This file finds the longest stored prefix of a prompt of which only hashes are known. The index
// has the tokens of each entry, sealed in an encrypted folder. So it descends from the root, and at
// each step opens the entries after the one that matched and compares their hashes.

import (
	"context"
	"database/sql"
	"errors"
	"slices"

	"headroom/engine/prefix"
	"headroom/engine/seal"
)

// maxOpened is how many entries Held opens at most: some tens of milliseconds of work.
const maxOpened = 2000

// Held returns after how many tokens of a prompt a sequence can resume from disk. chain is the
// prefix.Chain of the prompt's blocks of blockTokens, which must divide BlockTokens; otherwise
// nothing is found. Within a block, it resumes at one of the ends. It does not count as use. The
// entries may be gone when Read reads them. An index that cannot be read has nothing, and neither
// does one that takes longer than ctx.
func (v *View) Held(ctx context.Context, chain []prefix.Hash, blockTokens int, ends []prefix.End,
	recurrent bool) (tokens int) {
	if blockTokens <= 0 || BlockTokens%blockTokens != 0 {
		return 0
	}
	err := v.store.read(func(x *index) error {
		known, err := v.heldTokens(ctx, x, chain, blockTokens, ends)
		if err != nil || len(known) == 0 {
			return err
		}
		p, err := v.find(x, known, 0, recurrent)
		tokens = p.Tokens
		return err
	})
	if err != nil && ctx.Err() == nil {
		v.store.warnOnce("held", err)
	}
	if err != nil {
		return 0
	}
	return tokens
}

// heldTokens returns the tokens of the longest stored beginning of the prompt that ends with a
// block of the chain or at one of the ends.
func (v *View) heldTokens(ctx context.Context, x *index, chain []prefix.Hash, blockTokens int,
	ends []prefix.End) (tokens []int32, err error) {
	parent, opened := v.keys.root, 0
	for matched := 0; matched < len(chain); {
		var next *Key
		best := tokens
		err := scanRows(x.db, "SELECT key, slot, tokens, codes FROM entries "+
			"WHERE parent = ? AND kind <> 3 AND status = 1", func(rows *sql.Rows) error {
			var k Key
			var r secrets
			if err := rows.Scan(keyColumn{&k}, &r.slot, &r.tokens, &r.codes); err != nil {
				return err
			}
			if opened++; opened > maxOpened {
				return nil
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			part, err := v.store.safe().tokens(r, k)
			var stale staleRow
			if errors.Is(err, seal.ErrNoSalt) || errors.As(err, &stale) {
				return nil // it is being removed
			}
			if err != nil {
				return err
			}
			all := append(slices.Clip(tokens), part...)
			got := prefix.ExtendChain(slices.Clip(chain[:matched]), all, blockTokens)
			n := matched
			for n < min(len(got), len(chain)) && got[n] == chain[n] {
				n++
			}
			length := n * blockTokens
			if length == len(tokens)+BlockTokens {
				next = &k
			}
			for _, e := range ends {
				if e.Tokens > length && e.Tokens/blockTokens <= n && e.Is(chain, all, blockTokens) {
					length = e.Tokens
				}
			}
			if length > len(best) {
				best = all[:length]
			}
			return nil
		}, parent[:])
		if err != nil {
			return nil, err
		}
		tokens = best
		if next == nil {
			break
		}
		parent = *next
		matched += BlockTokens / blockTokens
	}
	return tokens, nil
}
