package blockstore

// What people see of the entries: conversations. Chains share their beginnings, so the entries form
// trees, and a conversation is the way from a root to a leaf. Tails that a longer block or tail
// took over, and states, hang on the entries that go on with their tokens; they belong to whatever
// those belong to. Built from the index for each question: a listing is rare, and may take tens of
// milliseconds.

import (
	"bytes"
	"cmp"
	"database/sql"
	"slices"
)

// node is one entry.
type node struct {
	key, parent Key
	model       int64
	kind        kind
	position, n int
	bytes       int64
	pin, pinned bool
	created     int64
	hit         int64
	hits        int
	saved       float64
	title       string
	tokens      []byte // ordered; nil where nothing has to be compared

	above    *node   // the parent, nil if there is none or it is gone
	kids     []*node // blocks and tails behind it, without those taken over
	attached []*node // states, and tails taken over, that it goes on with
	hosts    []*node // the inverse of attached
	leaves   int     // the conversations it belongs to
	leaf     *node   // if it belongs to one alone: that one's deepest entry
}

// forest is all entries that are ready.
type forest struct {
	nodes []*node // the deepest first, parents behind their children
	byKey map[Key]*node
}

func readForest(q querier) (*forest, error) {
	f := &forest{byKey: map[Key]*node{}}
	err := scanRows(q, `SELECT key, parent, model, kind, position, n, bytes, pin, pinned, created, hit, hits, saved, title,
			CASE WHEN parent IN (SELECT parent FROM entries WHERE kind <> 1) THEN tokens END
		FROM entries WHERE status = 1 ORDER BY position DESC, kind DESC, key`, func(rows *sql.Rows) error {
		e := &node{}
		if err := rows.Scan(keyColumn{&e.key}, keyColumn{&e.parent}, &e.model, &e.kind, &e.position,
			&e.n, &e.bytes, &e.pin, &e.pinned, &e.created,
			&e.hit, &e.hits, &e.saved, &e.title, &e.tokens); err != nil {
			return err
		}
		f.nodes = append(f.nodes, e)
		f.byKey[e.key] = e
		return nil
	})
	if err != nil {
		return nil, err
	}
	f.connect()
	f.countLeaves()
	return f, nil
}

// connect finds parents, kids and hosts.
func (f *forest) connect() {
	siblings := map[Key][]*node{} // by parent: blocks and tails
	for _, e := range f.nodes {
		e.above = f.byKey[e.parent]
		if e.kind != kindState {
			siblings[e.parent] = append(siblings[e.parent], e)
		}
	}
	for _, group := range siblings {
		slices.SortFunc(group, func(a, b *node) int {
			return cmp.Or(bytes.Compare(a.tokens, b.tokens), bytes.Compare(a.key[:], b.key[:]))
		})
	}
	for _, e := range f.nodes {
		if e.kind != kindBlock && e.n > 0 {
			e.hosts = longer(siblings[e.parent], e)
		}
		if e.kind == kindState && len(e.hosts) == 0 && e.above != nil {
			e.hosts = []*node{e.above}
		}
		for _, h := range e.hosts {
			h.attached = append(h.attached, e)
		}
		if e.kind != kindState && len(e.hosts) == 0 && e.above != nil {
			e.above.kids = append(e.above.kids, e)
		}
	}
}

// longer is those of the sorted group that begin with e's tokens and are not taken over by others
// in turn; never e itself.
func longer(group []*node, e *node) []*node {
	var hosts []*node
	from, _ := slices.BinarySearchFunc(group, e.tokens,
		func(s *node, tokens []byte) int { return bytes.Compare(s.tokens, tokens) })
	for i := from; i < len(group) && bytes.HasPrefix(group[i].tokens, e.tokens); i++ {
		// In the order of tokens, what takes an entry over stands right behind it.
		over := i+1 < len(group) && len(group[i].tokens) < len(group[i+1].tokens) &&
			bytes.HasPrefix(group[i+1].tokens, group[i].tokens)
		if group[i] != e && !over {
			hosts = append(hosts, group[i])
		}
	}
	return hosts
}

// countLeaves says for each entry how many conversations it belongs to. Blocks and tails are
// counted from the deepest up, then what hangs on them.
func (f *forest) countLeaves() {
	sum := func(e *node, over []*node) {
		for _, o := range over {
			e.leaves += o.leaves
			e.leaf = o.leaf
		}
		if e.leaves != 1 {
			e.leaf = nil
		}
	}
	for _, e := range f.nodes {
		switch {
		case e.kind == kindState || len(e.hosts) > 0:
		case len(e.kids) == 0:
			e.leaves, e.leaf = 1, e
		default:
			sum(e, e.kids)
		}
	}
	for _, e := range f.nodes {
		if len(e.hosts) > 0 {
			sum(e, e.hosts)
		}
	}
}

// ends is the conversations' deepest entries.
func (f *forest) ends() []*node {
	return slices.DeleteFunc(slices.Clone(f.nodes), func(e *node) bool { return e.leaf != e })
}

// conversation is all entries of the conversation that ends at end, the deepest first: its own and
// those it shares.
func (f *forest) conversation(end *node) []*node {
	var all []*node
	for e := end; e != nil; e = e.above {
		all = append(all, e)
		for _, a := range e.attached {
			// One that hangs on two forks stands before it; it is met on one of them only.
			if !slices.Contains(all, a) {
				all = append(all, a)
			}
		}
	}
	return all
}
