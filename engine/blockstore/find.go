package blockstore

// Looking a prefix up. Full blocks and states are looked up by name. Where the chain of blocks
// ends, a block or tail may still begin with the tokens wanted: among the entries behind one
// parent, in the order of their tokens, the one that shares most is next to the wanted tokens,
// before or behind, so two steps in the index find it however many there are.

import (
	"database/sql"
	"errors"
	"slices"
)

// Entry is a stored file, as the index knows it.
type Entry struct {
	Key     Key
	Bytes   int64   // of the file
	Seconds float64 // what computing it cost
	Tokens  int     // in it

	want []int32 // its first tokens, where the name does not vouch for them; nil: it does
}

// Block is a stored block or tail and the positions [From, To) it is needed for; From is a multiple
// of BlockTokens.
type Block struct {
	Entry    Entry
	From, To int
}

// Prefix is what Find found: where a sequence can be resumed.
type Prefix struct {
	Tokens int // its length; 0: nothing was found
	// what has to be loaded of keys and values, in order; none for positions that the caller has
	// already
	Blocks []Block
	State  *Entry // the recurrent state after Tokens tokens; nil for models without one
}

// findQueries are the prepared questions of Find.
type findQueries struct {
	entry, states, before, behind *sql.Stmt
}

func (q *findQueries) prepare(db *sql.DB) error {
	for text, stmt := range map[string]**sql.Stmt{
		"SELECT bytes, seconds, n FROM entries WHERE key = ? AND status = 1": &q.entry,
		"SELECT DISTINCT n FROM entries WHERE parent = ? AND kind = 3 AND n <= ? AND status = 1 " +
			"ORDER BY n DESC": &q.states,
		neighbour +
			"tokens <= ? ORDER BY tokens DESC LIMIT 1": &q.before,
		neighbour +
			"tokens > ? ORDER BY tokens LIMIT 1": &q.behind,
	} {
		var err error
		if *stmt, err = db.Prepare(text); err != nil {
			return err
		}
	}
	return nil
}

const neighbour = "SELECT key, bytes, seconds, n, tokens FROM entries WHERE parent = ? AND kind <> 3 AND status = 1 AND "

// Find is the longest prefix of tokens[:limit] that can be resumed. haveTokens says that keys and
// values of that many first tokens are in memory already; blocks are not needed for them, except
// from the last multiple of BlockTokens on. With recurrent, a prefix ends where a state is stored
// and all keys and values before it are in memory or stored; without, it ends anywhere, also inside
// a block.
//
// What it finds may be gone when Load comes. An index that cannot be read is a miss.
func (v *View) Find(tokens []int32, limit, haveTokens int, recurrent bool) Prefix {
	tokens = tokens[:max(0, min(limit, len(tokens)))]
	have := max(0, min(haveTokens, len(tokens)))
	var p Prefix
	err := v.store.read(func(x *index) (err error) {
		p, err = v.find(x, tokens, have, recurrent)
		return err
	})
	if err != nil {
		v.store.note("find", err)
		p = Prefix{}
		if !recurrent {
			p.Tokens = have
		}
	}
	if len(p.Blocks) == 0 && p.State == nil {
		v.store.count("misses", 1)
	}
	return p
}

func (v *View) find(x *index, tokens []int32, have int, recurrent bool) (Prefix, error) {
	chain := v.keys.chain(tokens)
	blocks, err := v.findBlocks(x, tokens, chain, have)
	if err != nil {
		return Prefix{}, err
	}
	reach := have
	if len(blocks) > 0 {
		reach = blocks[len(blocks)-1].To
	}
	if !recurrent {
		return Prefix{Tokens: reach, Blocks: blocks}, nil
	}
	state, at, err := v.findState(x, tokens[:reach], chain)
	if err != nil || state == nil {
		return Prefix{}, err
	}
	if at <= have {
		return Prefix{Tokens: at, State: state}, nil
	}
	last := slices.IndexFunc(blocks, func(b Block) bool { return at <= b.To })
	blocks = blocks[:last+1]
	blocks[last].To = at
	return Prefix{Tokens: at, Blocks: blocks, State: state}, nil
}

// findBlocks is the stored blocks from the one that holds position have on, as far as they go
// without a gap; none if they add nothing.
func (v *View) findBlocks(x *index, tokens []int32, chain []Key, have int) ([]Block, error) {
	var blocks []Block
	i := have / BlockTokens
	for ; i < len(chain); i++ {
		e, ok, err := x.find.byKey(chain[i])
		if err != nil {
			return nil, err
		}
		if !ok {
			break
		}
		blocks = append(blocks, Block{Entry: e, From: i * BlockTokens, To: (i + 1) * BlockTokens})
	}
	from := i * BlockTokens
	rest := tokens[min(from, len(tokens)):min(from+BlockTokens, len(tokens))]
	if from+len(rest) <= have {
		return blocks, nil
	}
	e, n, err := x.find.closest(v.behind(chain, i), rest)
	if err != nil {
		return nil, err
	}
	if n > 0 && from+n > have {
		e.want = slices.Clone(rest[:n])
		blocks = append(blocks, Block{Entry: e, From: from, To: from + n})
	}
	return blocks, nil
}

// findState is the deepest state after tokens or fewer, nil if there is none, and its position.
func (v *View) findState(x *index, tokens []int32, chain []Key) (*Entry, int, error) {
	for i := len(tokens) / BlockTokens; i >= 0; i-- {
		from := i * BlockTokens
		lengths, err := x.find.stateLengths(v.behind(chain, i),
			min(len(tokens)-from, BlockTokens-1))
		if err != nil {
			return nil, 0, err
		}
		for _, n := range lengths {
			e, ok, err := x.find.byKey(
				v.keys.name(kindState, parentAt(chain, i), tokens[from:from+n]))
			if err != nil {
				return nil, 0, err
			}
			if ok {
				return &e, from + n, nil
			}
		}
	}
	return nil, 0, nil
}

// behind is what the index calls the parent of block i.
func (v *View) behind(chain []Key, i int) Key {
	if i == 0 {
		return v.keys.root
	}
	return chain[i-1]
}

func (q *findQueries) byKey(k Key) (Entry, bool, error) {
	e := Entry{Key: k}
	err := q.entry.QueryRow(k[:]).Scan(&e.Bytes, &e.Seconds, &e.Tokens)
	if errors.Is(err, sql.ErrNoRows) {
		return Entry{}, false, nil
	}
	return e, err == nil, err
}

// stateLengths is how many tokens the states behind parent hold, at most n, the longest first.
func (q *findQueries) stateLengths(parent Key, n int) ([]int, error) {
	rows, err := q.states.Query(parent[:], n)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var lengths []int
	for rows.Next() {
		if err := rows.Scan(&n); err != nil {
			return nil, err
		}
		lengths = append(lengths, n)
	}
	return lengths, rows.Err()
}

// closest is the block or tail behind parent that shares the most first tokens, and how many.
func (q *findQueries) closest(parent Key, tokens []int32) (best Entry, common int, err error) {
	wanted := ordered(tokens)
	for _, stmt := range []*sql.Stmt{q.before, q.behind} {
		var e Entry
		var key, text []byte
		err := stmt.QueryRow(parent[:], wanted).Scan(&key, &e.Bytes, &e.Seconds, &e.Tokens, &text)
		if errors.Is(err, sql.ErrNoRows) {
			continue
		}
		if err != nil {
			return Entry{}, 0, err
		}
		if n := commonPrefix(fromOrdered(text), tokens); n > common && len(key) == len(e.Key) {
			copy(e.Key[:], key)
			best, common = e, n
		}
	}
	return best, common, nil
}
