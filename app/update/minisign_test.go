package update

import "testing"

// TestMinisign: a signature that minisign has made (with -l, of the text "test") is valid.
func TestMinisign(t *testing.T) {
	key, err := ParseKey("RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3")
	if err != nil {
		t.Fatal(err)
	}
	signature := "untrusted comment: signature from minisign secret key\n" +
		"RWQf6LRCGA9i59SLOFxz6NxvASXDJeRtuZykwQepbDEGt87ig1BNpWaVWuNrm73YiIiJbq71Wi+dP9eKL8OC351v" +
		"wIasSSbXxwA=\n" +
		"trusted comment: timestamp:1555779966\tfile:test\n" +
		"QtKMXWyYcwdpZAlPF7tE2ENJkRd1ujvKjlj1m9RtHTBnZPa5WKU5uWRs5GoP5M/VqE81QFuMKI5k/SfNQUaOAA==\n"
	if err := key.Verify([]byte("test"), []byte(signature)); err != nil {
		t.Error(err)
	}
	if key.Verify([]byte("Test"), []byte(signature)) == nil {
		t.Error("it is valid for another text")
	}
}
