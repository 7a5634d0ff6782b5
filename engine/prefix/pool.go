// Package prefix is the prefix cache. It records which pages hold the keys and values of which
// tokens, and at which positions a recurrent state is kept. Sequences that begin with the same
// tokens share pages. Only the page in which two of them diverge is copied.
//
// The package manages page and slot numbers only; engine/cache has their memory. Invariants:
//
//   - A position of a page is written by the sequence that the page was allocated for, and only
//     before others can see it. So a page may be shared while its sequence still fills later
//     positions.
//   - A page is free if neither a page table nor a node of the tree refers to it.
//   - A node's page holds its tokens at the page's first positions. Only full pages have children.
//   - Eviction is least recently used first, leaves before their parents. So every remaining path
//     is a complete prefix.
//   - If the beginning of sequences has another format (Start), its pages are of another kind. The
//     kind of a page follows from its number, and also from its position in a page table or in the
//     tree.
package prefix

import "fmt"

// Start defines the pages for the beginning of sequences. The first Entries of every page table are
// from the pages [0, Pages), and all other entries are from the rest. The zero value has no start
// pages.
type Start struct{ Entries, Pages int }

// Amount is a number of pages of each kind.
type Amount struct{ Start, Rest int }

// Sizes are the bytes of a page of each kind.
type Sizes struct{ Start, Rest int64 }

// Total returns the number of pages of both kinds.
func (a Amount) Total() int { return a.Start + a.Rest }

// Plus returns the sum.
func (a Amount) Plus(b Amount) Amount { return Amount{a.Start + b.Start, a.Rest + b.Rest} }

// Minus returns the difference.
func (a Amount) Minus(b Amount) Amount { return Amount{a.Start - b.Start, a.Rest - b.Rest} }

// Covers reports whether a has at least as many pages of each kind as b.
func (a Amount) Covers(b Amount) bool { return a.Start >= b.Start && a.Rest >= b.Rest }

// Bytes returns the size of the pages.
func (a Amount) Bytes(s Sizes) int64 { return int64(a.Start)*s.Start + int64(a.Rest)*s.Rest }

// Pool allocates page numbers and counts the references to each.
type Pool struct {
	start       Start
	first, rest []int32 // free start pages, and free other pages
	refs        []int32
	peak        Amount
	limit       Amount // of pages in use; see SetLimit
}

// NewPool returns a pool of the given number of free pages, including the start pages.
func NewPool(pages int, start Start) *Pool {
	p := &Pool{start: start, refs: make([]int32, pages),
		limit: Amount{start.Pages, pages - start.Pages}}
	for i := pages - 1; i >= 0; i-- {
		list := p.list(int32(i))
		*list = append(*list, int32(i))
	}
	return p
}

// list returns the free list of a page's kind.
func (p *Pool) list(page int32) *[]int32 {
	if p.atStart(page) {
		return &p.first
	}
	return &p.rest
}

func (p *Pool) atStart(page int32) bool { return int(page) < p.start.Pages }

// Need returns the number of pages for the entries [from, to) of a page table.
func (p *Pool) Need(from, to int) Amount {
	first := max(0, min(to, p.start.Entries)-from)
	return Amount{first, max(0, to-from) - first}
}

// Pages returns the number of pages of both kinds, free and in use.
func (p *Pool) Pages() int { return len(p.refs) }

// Free returns the number of free pages that may be allocated.
func (p *Pool) Free() Amount {
	used, most := p.Used(), p.Most()
	return Amount{min(len(p.first), most.Start-used.Start), min(len(p.rest), most.Rest-used.Rest)}
}

// Most returns how many pages may be in use at once.
func (p *Pool) Most() Amount {
	return Amount{min(p.start.Pages, max(p.limit.Start, p.peak.Start)),
		min(len(p.refs)-p.start.Pages, max(p.limit.Rest, p.peak.Rest))}
}

// Used returns the number of pages in use.
func (p *Pool) Used() Amount {
	return Amount{p.start.Pages - len(p.first), len(p.refs) - p.start.Pages - len(p.rest)}
}

// SetLimit limits how many pages are in use at once. It costs no page that was ever in use: such a
// page has its memory, so only further ones are withheld. A new pool has no limit.
func (p *Pool) SetLimit(limit Amount) { p.limit = limit }

// Peak returns the peak number of pages of each kind in use, since the last Discard. The pool
// allocates the most recently freed page first, so no more pages than these were ever written.
func (p *Pool) Peak() Amount { return p.peak }

// Discard visits every free page that was written, and counts it as never written from now on. The
// caller returns its memory to the system.
func (p *Pool) Discard(visit func(page int32)) {
	surplus := p.peak.Minus(p.Used())
	for _, page := range p.first[len(p.first)-surplus.Start:] {
		visit(page)
	}
	for _, page := range p.rest[len(p.rest)-surplus.Rest:] {
		visit(page)
	}
	p.peak = p.Used()
}

// Refs returns the number of references to a page. A free page has none.
func (p *Pool) Refs(page int32) int32 { return p.refs[page] }

// Alloc allocates a page, with one reference, for the given entry of a page table. It panics if no
// page of its kind is free: check Free first.
func (p *Pool) Alloc(entry int) int32 {
	list := &p.rest
	if entry < p.start.Entries {
		list = &p.first
	}
	if len(*list) == 0 {
		panic(fmt.Sprintf("prefix: Pool.Alloc(%d) without a free page: check Free first", entry))
	}
	page := (*list)[len(*list)-1]
	*list = (*list)[:len(*list)-1]
	p.refs[page] = 1
	used := p.Used()
	p.peak = Amount{max(p.peak.Start, used.Start), max(p.peak.Rest, used.Rest)}
	return page
}

// Ref adds a reference to a page in use.
func (p *Pool) Ref(page int32) {
	if p.refs[page] < 1 {
		panic(fmt.Sprintf("prefix: Pool.Ref(%d) of a free page", page))
	}
	p.refs[page]++
}

// Unref drops a reference; the last one frees the page.
func (p *Pool) Unref(page int32) {
	if p.refs[page] < 1 {
		panic(fmt.Sprintf("prefix: Pool.Unref(%d) of a free page", page))
	}
	if p.refs[page]--; p.refs[page] == 0 {
		list := p.list(page)
		*list = append(*list, page)
	}
}
