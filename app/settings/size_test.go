package settings

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestParseSize(t *testing.T) {
	cases := []struct {
		text    string
		want    Size
		wantErr string
	}{
		{"20GB", 20e9, ""},
		{"512MB", 512e6, ""},
		{"1.5 GB", 1.5e9, ""},
		{" 1tb ", 1e12, ""},
		{"20G", 20e9, ""},
		{"64 kb", 64e3, ""},
		{"2GiB", 2 << 30, ""},
		{"0", 0, ""},
		{"123", 123e9, ""}, // in GB
		{"50", 50e9, ""},
		{"0.5", 5e8, ""},
		{"1000000", 1e6, ""},
		{"123 B", 123, ""},
		{".5MB", 5e5, ""},
		{"none", Unlimited, ""},
		{"9223372036854775807", 1<<63 - 1, ""},
		{"9223372036854775808", 0, "too large"},
		{"10000000TB", 0, "too large"},
		{"", 0, "does not begin with a number"},
		{"GB", 0, "does not begin with a number"},
		{"-1GB", 0, "does not begin with a number"},
		{"1.2.3GB", 0, `"1.2.3" is not a number`},
		{".GB", 0, `"." is not a number`},
		{"20XB", 0, `no unit "XB"`},
		{"1e9", 0, `no unit "E9"`},
		{"NaN", 0, "does not begin with a number"},
	}
	for _, c := range cases {
		got, err := ParseSize(c.text)
		switch {
		case c.wantErr == "" && (err != nil || got != c.want):
			t.Errorf("ParseSize(%q) = %d, %v; want %d", c.text, got, err, c.want)
		case c.wantErr != "" && (err == nil || !strings.Contains(err.Error(), c.wantErr) ||
			!strings.Contains(err.Error(), `expected a number with B, KB, MB, GB or TB`)):
			t.Errorf("ParseSize(%q): error %v, want %q and the valid forms", c.text, err, c.wantErr)
		}
	}
}

func TestSizeString(t *testing.T) {
	for size, want := range map[Size]string{0: "0B", 1: "1B", 20e9: "20GB", 1.5e9: "1500MB",
		1 << 30: "1073741824B", Unlimited: "none", 3e12: "3TB"} {
		if got := size.String(); got != want {
			t.Errorf("%d bytes are formatted as %q, want %q", int64(size), got, want)
		}
	}
}

func TestSizeJSON(t *testing.T) {
	for text, want := range map[string]Size{`"2GB"`: 2e9, `2000000`: 2e6, `20`: 20e9,
		`"none"`: Unlimited} {
		var got Size
		if err := json.Unmarshal([]byte(text), &got); err != nil || got != want {
			t.Errorf("%s gave %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{`-5`, `true`, `"x"`, `[1]`, `null2`} {
		var got Size
		if err := json.Unmarshal([]byte(text), &got); err == nil {
			t.Errorf("%s gave %d", text, got)
		}
	}
}

// FuzzParseSize: only "none" is negative, and parsing a formatted size returns the same size.
func FuzzParseSize(f *testing.F) {
	for _, seed := range []string{"20GB", "1.5 GB", "none", "9223372036854775807", "0.0000001TB",
		"..", "１GB"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		size, err := ParseSize(text)
		if err != nil {
			return
		}
		if again, err := ParseSize(size.String()); err != nil || again != size || size < Unlimited {
			t.Errorf("%q is parsed as %d and formatted as %q, which is parsed as %d, %v", text,
				int64(size), size, int64(again), err)
		}
	})
}
