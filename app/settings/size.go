package settings

// Sizes as people write them: "20GB", "1.5 GB", "512MB", as in mlx-lm. Units are decimal, as disks
// are sold and the Finder counts; KiB, MiB, GiB and TiB are there for those who mean 1,024.

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// Size is a number of bytes. 0 means that the default holds, and Unlimited that there is no limit,
// written "none".
type Size int64

// Unlimited is no limit.
const Unlimited Size = -1

// sizeUnits from the largest to the smallest: what MarshalText takes first.
var sizeUnits = []struct {
	name  string
	bytes int64
}{{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"KB", 1e3}, {"TIB", 1 << 40}, {"GIB", 1 << 30},
	{"MIB", 1 << 20}, {"KIB", 1 << 10},
	{"T", 1e12}, {"G", 1e9}, {"M", 1e6}, {"K", 1e3}, {"B", 1}, {"", 1}}

// ParseSize reads a size. Upper and lower case and spaces do not matter; a number without a unit
// counts bytes.
func ParseSize(text string) (Size, error) {
	wrong := func(why string) (Size, error) {
		return 0,
			fmt.Errorf(
				"%q is no size: %s; expected a number with B, KB, MB, GB or TB, as \"20GB\" or "+
					"\"1.5 GB\", or \"none\"", text, why)
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
			return wrong(strconv.Quote(number) + " is no number")
		case n*float64(u.bytes) >= 1<<63:
			return wrong("it is too large")
		}
		return Size(n * float64(u.bytes)), nil
	}
	return wrong("there is no unit " + strconv.Quote(unit))
}

// String writes the size exactly, in the largest decimal unit that needs no fraction.
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

// MarshalText is String.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText is ParseSize.
func (s *Size) UnmarshalText(text []byte) (err error) {
	*s, err = ParseSize(string(text))
	return err
}

// UnmarshalJSON reads a text, or a number of bytes.
func (s *Size) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) != nil {
		text = string(data)
	}
	return s.UnmarshalText([]byte(text))
}
