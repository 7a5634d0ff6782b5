package blockstore

// This file groups entries into conversations. Chains share prefixes, so the entries form trees,
// and a conversation is the path from a root to a leaf. A state, or a tail that is a prefix of a
// longer block or tail, is not a node of a path. It is attached to the entries that continue its
// tokens and belongs to the same conversations as they do. The forest is built from the index for
// each listing. Listings are rare, so this may take tens of milliseconds.

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
	secrets     // codes are nil if they need not be compared; tokens are not read

	above    *node   // the parent; nil if it has none or the parent is gone
	children []*node // blocks and tails that follow it, except attached tails
	attached []*node // states and shorter tails whose tokens it continues
	hosts    []*node // the entries that it is attached to
	leaves   int     // number of conversations it belongs to
	leaf     *node   // the deepest entry of its only conversation; nil if it belongs to several
}

// forest holds all entries that are ready.
type forest struct {
	nodes []*node // the deepest first, so children come before their parents
	byKey map[Key]*node
}

func readForest(q querier) (*forest, error) {
	f := &forest{byKey: map[Key]*node{}}
	err := scanRows(q, `SELECT key, parent, model, kind, position, n, bytes, pin, pinned,
			created, hit, hits, saved, slot, title,
			CASE WHEN parent IN (SELECT parent FROM entries WHERE kind <> 1) THEN codes END
		FROM entries WHERE status = 1
		ORDER BY position DESC, kind DESC, key`, func(rows *sql.Rows) error {
		e := &node{}
		if err := rows.Scan(keyColumn{&e.key}, keyColumn{&e.parent}, &e.model, &e.kind, &e.position,
			&e.n, &e.bytes, &e.pin, &e.pinned, &e.created, &e.hit, &e.hits, &e.saved, &e.slot,
			&e.title, &e.codes); err != nil {
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

// connect links the nodes to their parents, children and hosts.
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
			return cmp.Or(bytes.Compare(a.codes, b.codes), bytes.Compare(a.key[:], b.key[:]))
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
			e.above.children = append(e.above.children, e)
		}
	}
}

// longer returns the entries of the sorted group that begin with the tokens of e, except for e and
// for entries that a longer entry of the group continues.
func longer(group []*node, e *node) []*node {
	var hosts []*node
	from, _ := slices.BinarySearchFunc(group, e.codes,
		func(s *node, codes []byte) int { return bytes.Compare(s.codes, codes) })
	for i := from; i < len(group) && bytes.HasPrefix(group[i].codes, e.codes); i++ {
		// In a sorted group, the entries that continue group[i] come directly after it.
		continued := i+1 < len(group) && len(group[i].codes) < len(group[i+1].codes) &&
			bytes.HasPrefix(group[i+1].codes, group[i].codes)
		if group[i] != e && !continued {
			hosts = append(hosts, group[i])
		}
	}
	return hosts
}

// countLeaves computes how many conversations each entry belongs to: first for blocks and tails,
// from the deepest up, then for the entries attached to them.
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
		case len(e.children) == 0:
			e.leaves, e.leaf = 1, e
		default:
			sum(e, e.children)
		}
	}
	for _, e := range f.nodes {
		if len(e.hosts) > 0 {
			sum(e, e.hosts)
		}
	}
}

// ends returns the deepest entry of each conversation.
func (f *forest) ends() []*node {
	return slices.DeleteFunc(slices.Clone(f.nodes), func(e *node) bool { return e.leaf != e })
}

// conversation returns all entries of the conversation whose last node is end, including shared
// ones, the deepest first.
func (f *forest) conversation(end *node) []*node {
	var all []*node
	for e := end; e != nil; e = e.above {
		all = append(all, e)
		all = append(all, e.attached...) // no duplicates: a path has at most one host of an entry
	}
	return all
}
