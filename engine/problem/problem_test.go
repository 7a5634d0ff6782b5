package problem

import (
	"strings"
	"testing"
)

// TestFixIsSaidOnce: a Problem that wraps another with the same fix says it once.
func TestFixIsSaidOnce(t *testing.T) {
	const fix = "Download or convert the model again."
	cause := New(ModelBroken, "The file is cut off", "it has 5 bytes", fix)
	p := Wrap(ModelBroken, cause, "The model cannot be loaded", fix)
	n := strings.Count(p.Error(), fix)
	if n != 1 || p.Why != "The file is cut off: it has 5 bytes" {
		t.Errorf("%d times in %q, why %q", n, p.Error(), p.Why)
	}
	p = Wrap(ModelBroken, cause, "The model cannot be loaded", "Pick another model.")
	if !strings.Contains(p.Why, fix) {
		t.Errorf("another fix is lost: %q", p.Why)
	}
}
