package grammar

// Earley's rows. A row is what the matcher knows at a place between two terminals: which rules have
// begun, where they began, and how far they have come. Rows with equal contents are one row, so
// that a place in the second element of a list is the same as in the first.

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
)

// item is a production that has come as far as node at, or, if it is repeated, has been repeated at
// times.
type item struct {
	production, at int32
	origin         *row // where it began; nil: in the row that has the item
}

// row is immutable.
type row struct {
	id        uint32
	items     []item // those that wait for a node; first those that began in other rows
	began     int    // items[began:] have begun here
	terminals []int32
	complete  bool // the whole text may end here
	// waiting lists the items that wait for a rule, as pairs of rule and index, sorted.
	waiting []waiting
}

type waiting struct{ rule, item int32 }

// expects returns the node for which an item waits, and whether the item may also be complete.
func (g *Grammar) expects(it item) (next Node, waits, complete bool) {
	p := &g.productions[it.production]
	if p.repeated {
		return p.nodes[0], isUnlimited(int(p.max)) || it.at < p.max, it.at >= p.min
	}
	if int(it.at) < len(p.nodes) {
		return p.nodes[it.at], true, false
	}
	return 0, false, true
}

// advanced returns the item after the node for which it waits. in is the row that has it, or nil
// for the one that is being built.
func (g *Grammar) advanced(it item, in *row) item {
	p := &g.productions[it.production]
	if it.at++; p.repeated && isUnlimited(int(p.max)) {
		it.at = min(it.at, p.min)
	}
	if it.origin == nil {
		it.origin = in
	}
	return it
}

// rowBuilder builds a row: it adds what follows from the items that have just advanced.
type rowBuilder struct {
	g         *Grammar
	seen      map[item]bool
	work      int // a measure of time: see add
	todo      []item
	predicted map[int32]bool
	items     []item
	terminals []int32
	complete  bool
}

// newItem is about how often an item could be looked for in the time that a new one takes.
const newItem = 4

func (b *rowBuilder) add(it item) {
	b.work++
	if !b.seen[it] {
		b.work += newItem
		b.seen[it] = true
		b.todo = append(b.todo, it)
	}
}

// close processes all items, but ends with more work than most. An ambiguous grammar adds the same
// item again and again, from each place where its rule may have begun.
func (b *rowBuilder) close(most int) {
	for len(b.todo) > 0 && b.work <= most {
		it := b.todo[len(b.todo)-1]
		b.todo = b.todo[:len(b.todo)-1]
		next, waits, complete := b.g.expects(it)
		if complete {
			b.completed(it)
		}
		if !waits {
			continue
		}
		b.items = append(b.items, it)
		if next.isTerminal() {
			b.terminals = append(b.terminals, int32(next.terminal()))
		} else if r := int32(next.rule()); !b.predicted[r] {
			b.predicted[r] = true
			for _, p := range b.g.ofRule[r] {
				b.add(item{production: p})
			}
		}
		// Rules that began here and are already complete are skipped in this way. A repetition
		// whose node may be empty has no minimum, so it need not count empty ones.
		if b.g.isNullable(next) && !b.g.productions[it.production].repeated {
			b.add(b.g.advanced(it, nil))
		}
	}
}

// completed advances the items that wait for the rule of a complete item.
func (b *rowBuilder) completed(it item) {
	if it.production == b.g.start {
		b.complete = true
	}
	if it.origin == nil {
		return // see close
	}
	rule := b.g.productions[it.production].rule
	from, _ := slices.BinarySearchFunc(it.origin.waiting, rule,
		func(w waiting, rule int32) int { return cmp.Compare(w.rule, rule) })
	for _, w := range it.origin.waiting[from:] {
		if w.rule != rule {
			break
		}
		b.add(b.g.advanced(it.origin.items[w.item], it.origin))
	}
}

func compareItems(a, b item) int {
	id := func(r *row) uint32 {
		if r == nil {
			return 1<<32 - 1
		}
		return r.id
	}
	return cmp.Or(cmp.Compare(id(a.origin), id(b.origin)),
		cmp.Compare(a.production, b.production), cmp.Compare(a.at, b.at))
}

// finish returns the row, which may be an older one with the same contents.
func (b *rowBuilder) finish(c *graph) *row {
	b.close(math.MaxInt)
	slices.SortFunc(b.items, compareItems)
	r := &row{items: b.items, complete: b.complete, began: len(b.items)}
	key := append(c.key[:0], 0)
	if r.complete {
		key[0] = 1
	}
	if len(r.items) > 0 && r.items[0].origin == nil {
		key[0] |= 2 // the first row
	}
	for i, it := range r.items {
		if it.origin == nil {
			r.began = i
			break // the others follow from these
		}
		key = binary.LittleEndian.AppendUint32(key, it.origin.id)
		key = binary.LittleEndian.AppendUint32(key, uint32(it.production))
		key = binary.LittleEndian.AppendUint32(key, uint32(it.at))
	}
	c.key = key
	if old, ok := c.rows[string(key)]; ok {
		return old
	}
	slices.Sort(b.terminals)
	r.terminals = slices.Compact(b.terminals)
	for i, it := range r.items {
		if next, _, _ := b.g.expects(it); !next.isTerminal() {
			r.waiting = append(r.waiting, waiting{int32(next.rule()), int32(i)})
		}
	}
	slices.SortFunc(r.waiting, func(a, b waiting) int {
		return cmp.Or(cmp.Compare(a.rule, b.rule), cmp.Compare(a.item, b.item))
	})
	r.id = uint32(len(c.rows))
	c.rows[string(key)] = r
	c.bytes += 200 + 2*len(key) + 40*len(r.items) // about
	return r
}

func (g *Grammar) newRow() *rowBuilder {
	return &rowBuilder{g: g, seen: map[item]bool{}, predicted: map[int32]bool{}}
}
