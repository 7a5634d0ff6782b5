package blockstore

// This file finds the longest stored prefix. Full blocks and states are looked up by key. After the
// last matching block, a block or tail may still begin with the requested tokens. Among the entries
// of one parent, sorted by codes (safe.codes), the one with the longest common prefix is directly
// before or after the requested tokens. So two index lookups find it, regardless of the number of
// entries.

import (
	"database/sql"
	"errors"
	"slices"
)

// Entry describes a stored file according to the index.
type Entry struct {
	Key     Key
	Bytes   int64   // of the file
	Seconds float64 // what computing the entry cost
	Tokens  int     // in the file

	want []int32 // tokens that the file must begin with; nil if Key implies them
}

// Block is a stored block or tail and the positions [From, To) that it provides. From is a multiple
// of BlockTokens.
type Block struct {
	Entry    Entry
	From, To int
}

// Prefix is the result of Find: a prefix at whose end a sequence can resume.
type Prefix struct {
	Tokens int // its length; 0: nothing was found
	// Blocks hold the keys and values to load, in order. There are none for positions that the
	// caller already has.
	Blocks []Block
	State  *Entry // the recurrent state after Tokens tokens; nil for models without one
}

// findQueries are the prepared queries of Find.
type findQueries struct {
	entry, states, before, after *sql.Stmt
}

func (q *findQueries) prepare(db *sql.DB) error {
	for text, stmt := range map[string]**sql.Stmt{
		"SELECT bytes, seconds, n FROM entries WHERE key = ? AND status = 1": &q.entry,
		"SELECT DISTINCT n FROM entries WHERE parent = ? AND kind = 3 AND n <= ? AND status = 1 " +
			"ORDER BY n DESC": &q.states,
		neighbour + "codes <= ? ORDER BY codes DESC LIMIT 1": &q.before,
		neighbour + "codes > ? ORDER BY codes LIMIT 1":       &q.after,
	} {
		var err error
		if *stmt, err = db.Prepare(text); err != nil {
			return err
		}
	}
	return nil
}

const neighbour = "SELECT key, bytes, seconds, n, codes FROM entries " +
	"WHERE parent = ? AND kind <> 3 AND status = 1 AND "

// Find returns the longest prefix of tokens[:limit] at which a sequence can resume. The caller
// already has the keys and values of the first haveTokens tokens in memory; Find returns only
// blocks that end after them. For a recurrent model, a prefix ends where a state is stored and all
// keys and values before it are in memory or stored. Otherwise it may end anywhere, also inside a
// block.
//
// The entries may be gone when Read reads them. An index that cannot be read is a miss.
func (v *View) Find(tokens []int32, limit, haveTokens int, recurrent bool) Prefix {
	tokens = tokens[:max(0, min(limit, len(tokens)))]
	have := max(0, min(haveTokens, len(tokens)))
	var p Prefix
	err := v.store.read(func(x *index) (err error) {
		p, err = v.find(x, tokens, have, recurrent)
		return err
	})
	if err != nil {
		v.store.warnOnce("find", err)
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

// findBlocks returns consecutive stored blocks, starting with the block that holds position have.
// It returns none if nothing is stored from that position on.
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
	e, n, err := v.closest(x, v.indexParent(chain, i), rest)
	if err != nil {
		return nil, err
	}
	if n > 0 && from+n > have {
		e.want = slices.Clone(rest[:n])
		blocks = append(blocks, Block{Entry: e, From: from, To: from + n})
	}
	return blocks, nil
}

// findState returns the deepest state within tokens and its position; nil if there is none.
func (v *View) findState(x *index, tokens []int32, chain []Key) (*Entry, int, error) {
	for i := len(tokens) / BlockTokens; i >= 0; i-- {
		from := i * BlockTokens
		lengths, err := x.find.stateLengths(v.indexParent(chain, i),
			min(len(tokens)-from, BlockTokens-1))
		if err != nil {
			return nil, 0, err
		}
		for _, n := range lengths {
			e, ok, err := x.find.byKey(
				v.keys.key(kindState, parentAt(chain, i), tokens[from:from+n]))
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

// indexParent returns the parent of block i as the index stores it.
func (v *View) indexParent(chain []Key, i int) Key {
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

// stateLengths returns the lengths, in tokens, of the states that follow parent and have at most n
// tokens, the longest first.
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

// closest returns the block or tail after parent that has the longest common prefix with tokens,
// and the length of that prefix.
func (v *View) closest(x *index, parent Key, tokens []int32) (best Entry, common int, err error) {
	return x.find.closest(parent, v.store.safe().codes(parent, tokens))
}

// closest does it for codes.
func (q *findQueries) closest(parent Key, wanted []byte) (best Entry, common int, err error) {
	for _, stmt := range []*sql.Stmt{q.before, q.after} {
		var e Entry
		var key, text []byte
		err := stmt.QueryRow(parent[:], wanted).Scan(&key, &e.Bytes, &e.Seconds, &e.Tokens, &text)
		if errors.Is(err, sql.ErrNoRows) {
			continue
		}
		if err != nil {
			return Entry{}, 0, err
		}
		n := commonPrefix(fromOrdered(text), fromOrdered(wanted))
		if n > common && len(key) == len(e.Key) {
			copy(e.Key[:], key)
			best, common = e, n
		}
	}
	return best, common, nil
}
