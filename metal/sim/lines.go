//go:build linux && amd64

package sim

import (
	"debug/dwarf"
	"debug/elf"
	"fmt"
	"io"
	"strings"
	"sync"
)

// lineTable finds the source line of an address in a compiled library. Everything is inlined into
// the kernel, including the shim's functions, so it looks for the innermost line or call in the
// kernel's source.
type lineTable struct {
	path string
	load sync.Once
	data *dwarf.Data
}

// find returns "file:line", or "" if the library does not have it. address counts from the
// library's start.
func (t *lineTable) find(address uint64) string {
	t.load.Do(func() {
		if f, err := elf.Open(t.path); err == nil {
			defer f.Close()
			t.data, _ = f.DWARF() // without it find returns ""
		}
	})
	if t.data == nil {
		return ""
	}
	r := t.data.Reader()
	unit, err := r.SeekPC(address)
	if err != nil {
		return ""
	}
	lines, err := t.data.LineReader(unit)
	if err != nil || lines == nil {
		return ""
	}
	var at dwarf.LineEntry
	if lines.SeekPC(address, &at) == nil && at.File != nil {
		if name := strings.TrimPrefix(at.File.Name, sourceRoot+"/"); ours(name) {
			return fmt.Sprintf("%s:%d", name, at.Line)
		}
	}
	return t.call(r, lines.Files(), address)
}

// call returns the innermost inlined call around address that is in the kernel's source.
func (t *lineTable) call(r *dwarf.Reader, files []*dwarf.LineFile, address uint64) string {
	place := ""
	for {
		entry, err := r.Next()
		if err != nil || entry == nil || err == io.EOF {
			return place
		}
		if entry.Tag == dwarf.TagCompileUnit {
			return place
		}
		if entry.Tag != dwarf.TagInlinedSubroutine && entry.Tag != dwarf.TagSubprogram {
			continue
		}
		if !t.covers(entry, address) {
			r.SkipChildren()
			continue
		}
		file, _ := entry.Val(dwarf.AttrCallFile).(int64)
		line, _ := entry.Val(dwarf.AttrCallLine).(int64)
		if file <= 0 || int(file) >= len(files) || files[file] == nil {
			continue
		}
		if name := strings.TrimPrefix(files[file].Name, sourceRoot+"/"); ours(name) {
			place = fmt.Sprintf("%s:%d", name, line)
		}
	}
}

func (t *lineTable) covers(entry *dwarf.Entry, address uint64) bool {
	ranges, err := t.data.Ranges(entry)
	if err != nil {
		return false
	}
	for _, r := range ranges {
		if address >= r[0] && address < r[1] {
			return true
		}
	}
	return false
}
