// Package prefix remembers what has been computed: which pages hold the keys and values of which tokens, and at which positions
// the recurrent state was kept. Sequences that begin with the same tokens share pages through it; nothing is copied but the one
// page in which two of them part.
//
// It is bookkeeping over page and slot numbers, without a device: the pages themselves lie in engine/cache. Invariants:
//
//   - A page's position is written once, by the sequence that the page was allocated for, before anybody else can see it. So a
//     page may be shared while its sequence still fills the positions behind.
//   - A page is free when nobody refers to it: neither a sequence's page table nor a node of the tree.
//   - A node's page holds its tokens at the page's first positions. Only a node of a full page has children.
//   - What was used longest ago goes first, leaves before their parents, so that what is left is always a prefix of something.
package prefix

import "fmt"

// Pool hands out page numbers and counts who refers to each.
type Pool struct {
	free []int32
	refs []int32
	peak int
}

// NewPool makes a pool of free pages.
func NewPool(pages int) *Pool {
	p := &Pool{refs: make([]int32, pages)}
	for i := pages - 1; i >= 0; i-- {
		p.free = append(p.free, int32(i))
	}
	return p
}

// Free is the number of pages nobody refers to.
func (p *Pool) Free() int { return len(p.free) }

// Used is the number of pages somebody refers to.
func (p *Pool) Used() int { return len(p.refs) - len(p.free) }

// Peak is the most pages that were in use at once. Freed pages are given out again first, so no others were ever touched.
func (p *Pool) Peak() int { return p.peak }

// Refs is the number of references to a page; 0: it is free.
func (p *Pool) Refs(page int32) int32 { return p.refs[page] }

// Alloc takes a free page, with one reference. It panics when there is none: look at Free first.
func (p *Pool) Alloc() int32 {
	if len(p.free) == 0 {
		panic("prefix: Pool.Alloc without a free page: look at Free first")
	}
	page := p.free[len(p.free)-1]
	p.free = p.free[:len(p.free)-1]
	p.refs[page] = 1
	p.peak = max(p.peak, p.Used())
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
		p.free = append(p.free, page)
	}
}
