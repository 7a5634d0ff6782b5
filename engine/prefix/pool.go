// Package prefix remembers what has been computed: which pages hold the keys and values of which
// tokens, and at which positions the recurrent state was kept. Sequences that begin with the same
// tokens share pages through it; nothing is copied but the one page in which two of them part.
//
// It is bookkeeping over page and slot numbers, without a device: the pages themselves lie in
// engine/cache. Invariants:
//
//   - A page's position is written once, by the sequence that the page was allocated for, before anybody else can see it. So a
//     page may be shared while its sequence still fills the positions behind.
//   - A page is free when nobody refers to it: neither a sequence's page table nor a node of the tree.
//   - A node's page holds its tokens at the page's first positions. Only a node of a full page has children.
//   - What was used longest ago goes first, leaves before their parents, so that what is left is always a prefix of something.
//   - Where the beginning of a sequence is kept in another format (Start), its pages are of a kind of their own. A page's number tells its
//     kind, and so does its place in a page table or in the tree.
package prefix

import "fmt"

// Start says which pages are for the beginning of sequences: the first Entries of every page table
// are pages [0, Pages), all others pages from there on. The zero value has no such pages.
type Start struct{ Entries, Pages int }

// Amount is a number of pages of each kind.
type Amount struct{ Start, Rest int }

// Sizes are the bytes of a page of each kind.
type Sizes struct{ Start, Rest int64 }

// Total is the pages of both kinds.
func (a Amount) Total() int { return a.Start + a.Rest }

// Plus is the sum.
func (a Amount) Plus(b Amount) Amount { return Amount{a.Start + b.Start, a.Rest + b.Rest} }

// Minus is the difference.
func (a Amount) Minus(b Amount) Amount { return Amount{a.Start - b.Start, a.Rest - b.Rest} }

// Covers reports whether there are at least b's pages of each kind.
func (a Amount) Covers(b Amount) bool { return a.Start >= b.Start && a.Rest >= b.Rest }

// Bytes is the memory of the pages.
func (a Amount) Bytes(s Sizes) int64 { return int64(a.Start)*s.Start + int64(a.Rest)*s.Rest }

// Pool hands out page numbers and counts who refers to each.
type Pool struct {
	start       Start
	first, rest []int32 // free ones of the start, and others
	refs        []int32
	peak        Amount
}

// NewPool makes a pool of free pages, start's among them.
func NewPool(pages int, start Start) *Pool {
	p := &Pool{start: start, refs: make([]int32, pages)}
	for i := pages - 1; i >= 0; i-- {
		list := p.list(int32(i))
		*list = append(*list, int32(i))
	}
	return p
}

// list is where a page belongs when it is free.
func (p *Pool) list(page int32) *[]int32 {
	if p.atStart(page) {
		return &p.first
	}
	return &p.rest
}

func (p *Pool) atStart(page int32) bool { return int(page) < p.start.Pages }

// Need is the pages that entries [from, to) of a page table are.
func (p *Pool) Need(from, to int) Amount {
	first := max(0, min(to, p.start.Entries)-from)
	return Amount{first, max(0, to-from) - first}
}

// Free is the pages nobody refers to.
func (p *Pool) Free() Amount { return Amount{len(p.first), len(p.rest)} }

// Used is the pages somebody refers to.
func (p *Pool) Used() Amount {
	return Amount{p.start.Pages, len(p.refs) - p.start.Pages}.Minus(p.Free())
}

// Peak is the most pages of each kind that were in use at once. Freed pages are given out again
// first, so no others were ever touched.
func (p *Pool) Peak() Amount { return p.peak }

// Refs is the number of references to a page; 0: it is free.
func (p *Pool) Refs(page int32) int32 { return p.refs[page] }

// Alloc takes a free page for that entry of a page table, with one reference. It panics when there
// is none: look at Free first.
func (p *Pool) Alloc(entry int) int32 {
	list := &p.rest
	if entry < p.start.Entries {
		list = &p.first
	}
	if len(*list) == 0 {
		panic(fmt.Sprintf("prefix: Pool.Alloc(%d) without a free page: look at Free first", entry))
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
