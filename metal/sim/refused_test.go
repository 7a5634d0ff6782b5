//go:build linux && amd64

package sim

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

var wanted = regexp.MustCompile(`(?m)^// refused: (.*)$`)

// TestRefused compiles the sources in testdata/refused, which Metal's compiler rejects. The last
// line of each source is the message that this device must give.
func TestRefused(t *testing.T) {
	d := open(t, Options{})
	files, err := os.ReadDir("testdata/refused")
	if err != nil || len(files) < 36 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	for _, f := range files {
		text := source(t, "refused/"+f.Name())
		want := wanted.FindStringSubmatch(text)
		if want == nil {
			t.Fatalf("%s: no line `// refused: message`", f.Name())
		}
		_, err := d.NewLibrary(f.Name(), text, nil)
		if err == nil || !strings.Contains(err.Error(), want[1]) ||
			!strings.Contains(err.Error(), f.Name()+":") {
			t.Errorf("%s: got %v, expected %q with file and line", f.Name(), err, want[1])
		}
	}
}
