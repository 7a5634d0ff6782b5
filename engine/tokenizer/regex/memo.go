package regex

// memo remembers which instructions have failed at which positions. A search never goes back before
// the start of its current match, so rows before it are freed.
type memo struct {
	rowBytes int // bytes for each position
	pages    [][]byte
	room     [8][]byte // where pages begins, so that most texts allocate nothing
	first    int       // number of pages[0] in the text
	top      int       // highest position with a mark; -1: none
	free     [][]byte  // zeroed
	bytes    int       // of all pages
}

const pageRows = 512

// reset prepares the memo for another text.
func (m *memo) reset(marks int) {
	m.release(len(m.pages))
	m.rowBytes, m.first, m.top = (marks+7)/8, 0, -1
	m.pages = m.room[:0]
	for m.bytes > keptBytes && len(m.free) > 0 {
		m.bytes -= len(m.free[len(m.free)-1])
		m.free = m.free[:len(m.free)-1]
	}
}

// forget frees the rows before at. No row before it is used again.
func (m *memo) forget(at int) {
	if n := min(at/pageRows-m.first, len(m.pages)); n > 0 {
		m.release(n)
		if m.pages = m.pages[n:]; len(m.pages) == 0 {
			m.pages = m.room[:0]
		}
		m.first += n
	}
	if len(m.pages) == 0 {
		m.first = at / pageRows
	}
}

// release zeroes the first n pages for reuse.
func (m *memo) release(n int) {
	for i, page := range m.pages[:n] {
		if page != nil {
			rows := min(max(m.top+1-(m.first+i)*pageRows, 0), pageRows)
			clear(page[:rows*m.rowBytes])
			m.free = append(m.free, page)
			m.pages[i] = nil
		}
	}
}

// has reports whether the instruction with this mark has failed at a position.
func (m *memo) has(mark int32, at int) bool {
	if at > m.top {
		return false
	}
	i := at/pageRows - m.first
	if i < 0 || i >= len(m.pages) || m.pages[i] == nil {
		return false
	}
	return m.pages[i][at%pageRows*m.rowBytes+int(mark>>3)]>>(mark&7)&1 != 0
}

func (m *memo) set(mark int32, at int) {
	i := at/pageRows - m.first
	for i >= len(m.pages) {
		m.pages = append(m.pages, nil)
	}
	page := m.pages[i]
	if page == nil {
		if n := len(m.free); n > 0 {
			page, m.free = m.free[n-1], m.free[:n-1]
		} else {
			page = make([]byte, pageRows*m.rowBytes)
			m.bytes += len(page)
		}
		m.pages[i] = page
	}
	page[at%pageRows*m.rowBytes+int(mark>>3)] |= 1 << (mark & 7)
	m.top = max(m.top, at)
}

// clearRow forgets the failures at one position.
func (m *memo) clearRow(at int) {
	if i := at/pageRows - m.first; at <= m.top && i >= 0 && i < len(m.pages) && m.pages[i] != nil {
		row := at % pageRows * m.rowBytes
		clear(m.pages[i][row : row+m.rowBytes])
	}
}
