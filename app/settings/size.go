package settings

// Sizes as mlx-lm writes them: "20GB", "1.5 GB", "512MB". Units are decimal, as in the Finder. KiB,
// MiB, GiB and TiB are binary.

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// Size is a number of bytes. 0 means the default. Unlimited, written "none", means no limit.
type Size int64

// Unlimited means no limit.
const Unlimited Size = -1

// sizeUnits are the units of ParseSize. String uses only the first four.
var sizeUnits = []struct {
	name  string
	bytes int64
}{{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"KB", 1e3}, {"TIB", 1 << 40}, {"GIB", 1 << 30},
	{"MIB", 1 << 20}, {"KIB", 1 << 10},
	{"T", 1e12}, {"G", 1e9}, {"M", 1e6}, {"K", 1e3}, {"B", 1}, {"", 1}}

const leastBytes = 1e6 // of a number without a unit that is in bytes

// ParseSize parses a size. It ignores case and spaces. A number without a unit is in GB if it is
// less than a million, as for the flags of mlx-lm's disk cache and of oMLX, else in bytes.
func ParseSize(text string) (Size, error) {
	wrong := func(why string) (Size, error) {
		return 0, fmt.Errorf("%q is not a size: %s; expected a number with B, KB, MB, GB or TB, "+
			"such as \"20GB\" or \"1.5 GB\", or \"none\"", text, why)
	}
	s := strings.ToUpper(strings.TrimSpace(text))
	if s == "NONE" {
		return Unlimited, nil
	}
	end := strings.IndexFunc(s, func(r rune) bool { return r != '.' && (r < '0' || r > '9') })
	if end < 0 {
		end = len(s)
	}
	number, unit := s[:end], strings.TrimSpace(s[end:])
	if number == "" {
		return wrong("it does not begin with a number")
	}
	if n, err := strconv.ParseFloat(number, 64); unit == "" && err == nil && n > 0 &&
		n < leastBytes {
		unit = "GB"
	}
	for _, u := range sizeUnits {
		if u.name != unit {
			continue
		}
		if n, err := strconv.ParseInt(number, 10, 64); err == nil && n <= (1<<63-1)/u.bytes {
			return Size(n * u.bytes), nil
		}
		n, err := strconv.ParseFloat(number, 64)
		switch {
		case err != nil:
			return wrong(strconv.Quote(number) + " is not a number")
		case n*float64(u.bytes) >= 1<<63:
			return wrong("it is too large")
		}
		return Size(n * float64(u.bytes)), nil
	}
	return wrong("there is no unit " + strconv.Quote(unit))
}

// String formats the size exactly, in the largest decimal unit that needs no fraction.
func (s Size) String() string {
	if s < 0 {
		return "none"
	}
	for _, u := range sizeUnits[:4] {
		if s > 0 && int64(s)%u.bytes == 0 {
			return fmt.Sprintf("%d%s", int64(s)/u.bytes, u.name)
		}
	}
	return fmt.Sprintf("%dB", int64(s))
}

// MarshalText implements encoding.TextMarshaler with String.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler with ParseSize.
func (s *Size) UnmarshalText(text []byte) (err error) {
	*s, err = ParseSize(string(text))
	return err
}

// UnmarshalJSON accepts a string for ParseSize, or a number of bytes.
func (s *Size) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) != nil {
		text = string(data)
	}
	return s.UnmarshalText([]byte(text))
}
