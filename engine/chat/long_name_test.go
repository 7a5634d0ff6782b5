package chat

import (
	"strings"
	"testing"
)

// TestNamesAreBounded checks that a name without an end is not a call after maxFunctionName bytes,
// so that it is not read again with each piece.
func TestNamesAreBounded(t *testing.T) {
	for _, f := range []*toolFormat{&glm, &hunyuan, &longcat} {
		for _, end := range []string{"", " ", "<"} {
			name := strings.Repeat("a", maxFunctionName)
			if _, n, v := f.begin(nil).read(name + end); v != undecided || n != 0 {
				t.Errorf("%s: %d bytes and %q: verdict %d, %d bytes", f.name, len(name), end, v, n)
			}
			if _, n, v := f.begin(nil).read(name + "a" + end); v != isText || n != 0 {
				t.Errorf("%s: a byte more and %q: verdict %d, %d bytes", f.name, end, v, n)
			}
		}
	}
}
