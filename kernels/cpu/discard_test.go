package cpu

import (
	"os"
	"runtime"
	"testing"
)

// TestDiscard: the whole pages within a range lose their content, and bytes beside them stay. The
// memory can be written again.
func TestDiscard(t *testing.T) {
	page := os.Getpagesize()
	b := Map(8 * page)
	defer Unmap(b)
	for i := range b {
		b[i] = 1
	}
	if err := Discard(b[page+1 : 4*page+7]); err != nil {
		t.Fatal(err)
	}
	for i, v := range b {
		discarded := i >= 2*page && i < 4*page
		if !discarded && v != 1 || discarded && runtime.GOOS == "linux" && v != 0 {
			t.Fatalf("byte %d of page %d is %d", i%page, i/page, v)
		}
	}
	for _, none := range [][]byte{b[5*page+1 : 5*page+9], b[:0]} { // no whole page
		if err := Discard(none); err != nil {
			t.Error(err)
		}
	}
	b[2*page] = 2
	if b[5*page+1] != 1 || b[2*page] != 2 {
		t.Errorf("bytes are %d and %d, want 1 and 2", b[5*page+1], b[2*page])
	}
}
