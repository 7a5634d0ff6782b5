package memory

import "testing"

func TestBandwidth(t *testing.T) {
	for name, want := range map[string]float64{"Apple M1": 68.25e9, "Apple M3 Max": 300e9,
		"Apple M99 Pro": 0, "M1": 0, "": 0, "Intel(R) Xeon(R)": 0} {
		if got := chipBandwidth(name); got != want {
			t.Errorf("%q: %v, want %v", name, got, want)
		}
	}
	got := measuredBandwidth()
	// Between a tenth of a memory module and a thousand modules.
	if got < 1e9 || got > 20e12 {
		t.Errorf("measured %.1f GB/s", got/1e9)
	}
	t.Logf("measured %.1f GB/s", got/1e9)
	if again := BandwidthBytes(); again != BandwidthBytes() {
		t.Error("it is measured twice")
	}
}

func TestSum(t *testing.T) {
	words := make([]uint64, 1024)
	want := uint64(0)
	for i := range words {
		words[i] = uint64(i) * 977
		want += words[i]
	}
	if got := sum(words); got != want {
		t.Errorf("%d, want %d", got, want)
	}
}
