package tokenizer

import "testing"

// TestParseScore has scores as tokenizers reads and writes them. The digits of -4.2628668200441036
// round to 42628668200441040, and that divided by 10^16 is not the nearest float64.
func TestParseScore(t *testing.T) {
	for text, want := range map[string]float64{
		"0":                     0,
		"-7":                    -7,
		"0.5":                   0.5,
		"-1.25e2":               -125,
		"5E-1":                  0.5,
		"1e+3":                  1000,
		"-4.2628668200441036":   -4.2628668200441040,
		"-7.255959521187463":    -7.255959521187463,
		"0.1234567890123456789": 0.12345678901234568,
		"123456789012345678901": 1.2345678901234567e+20,
		"1e-300":                1e-300,
	} {
		if got, err := parseScore(text); err != nil || got != want {
			t.Errorf("%s: got %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "-", "1e999", "1.2.3", "+-1"} {
		if got, err := parseScore(text); err == nil {
			t.Errorf("%q: got %v, want an error", text, got)
		}
	}
}
