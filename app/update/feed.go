package update

// The feed: which version there is, and its archive for each system.

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path"
	"strconv"
	"strings"
)

// Feed is the document at the address in the settings.
type Feed struct {
	Version string `json:"version"` // "0.2.0"
	Notes   string `json:"notes"`   // what is new, as plain text
	Files   []File `json:"files"`
}

// File is the archive of a version for one system: a .tar.gz.
type File struct {
	OS     string `json:"os"`     // as runtime.GOOS
	Arch   string `json:"arch"`   // as runtime.GOARCH
	URL    string `json:"url"`    // absolute, or relative to the feed
	Bytes  int64  `json:"bytes"`  // of the archive
	SHA256 string `json:"sha256"` // of the archive, in hex
	// Folder is the folder in the archive that replaces the installed one: "Headroom.app".
	Folder string `json:"folder"`
}

const (
	maxFeedBytes    = 256 << 10
	maxArchiveBytes = 2 << 30
)

// parseFeed reads a feed and returns the file for a system.
func parseFeed(data []byte, goos, goarch string) (feed Feed, f File, err error) {
	if err := json.Unmarshal(data, &feed); err != nil {
		return Feed{}, File{}, fmt.Errorf("it is not a feed: %w", err)
	}
	if _, ok := parseVersion(feed.Version); !ok {
		return Feed{}, File{}, fmt.Errorf("its version is %q, expected one such as 0.2.0",
			feed.Version)
	}
	for _, f := range feed.Files {
		if f.OS == goos && f.Arch == goarch {
			return feed, f, f.check()
		}
	}
	return feed, File{}, fmt.Errorf("it has no file for %s on %s", goos, goarch)
}

func (f File) check() error {
	sum, err := hex.DecodeString(f.SHA256)
	switch {
	case f.Bytes <= 0 || f.Bytes > maxArchiveBytes:
		return fmt.Errorf("its archive has %d bytes, expected 1 to %d", f.Bytes, maxArchiveBytes)
	case err != nil || len(sum) != 32:
		return fmt.Errorf("the SHA-256 of its archive is %q, expected 64 hex digits", f.SHA256)
	case f.Folder == "" || path.Clean(f.Folder) != f.Folder || path.IsAbs(f.Folder) ||
		strings.HasPrefix(f.Folder, ".."):
		return fmt.Errorf("its folder is %q, expected a path within the archive", f.Folder)
	}
	return nil
}

// CheckAddress returns an error unless a feed may be at this address: HTTPS, or this computer.
func CheckAddress(address string) error {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return errors.New("it is not an address, expected one such as " +
			"https://example.org/feed.json")
	}
	if !secure(u) {
		return errors.New("it does not begin with https://")
	}
	return nil
}

// secure reports whether nobody between can change what comes from an address, or see who asks.
func secure(u *url.URL) bool {
	ip := net.ParseIP(u.Hostname())
	return u.Scheme == "https" || u.Scheme == "http" && ip != nil && ip.IsLoopback()
}

// version is a version number. pre is what follows its three numbers after a hyphen.
type version struct {
	numbers [3]int
	pre     string
}

// parseVersion reads "0.2.0", "v0.2.0" or "0.2.0-rc.1". A build from git after a tag, such as
// v0.2.0-12-gab12, counts as the version of the tag.
func parseVersion(text string) (v version, ok bool) {
	text, v.pre, _ = strings.Cut(strings.TrimPrefix(text, "v"), "-")
	parts := strings.Split(text, ".")
	if len(parts) != 3 {
		return version{}, false
	}
	for i, part := range parts {
		n, err := strconv.ParseUint(part, 10, 31)
		if err != nil {
			return version{}, false
		}
		v.numbers[i] = int(n)
	}
	if commits, rest, found := strings.Cut(v.pre, "-g"); found && rest != "" {
		if _, err := strconv.ParseUint(commits, 10, 31); err == nil {
			v.pre = ""
		}
	} else if v.pre == "dirty" {
		v.pre = ""
	}
	return v, true
}

// newer reports whether a is newer than b. A version that cannot be read is older than any other.
func newer(a, b string) bool {
	x, ok := parseVersion(a)
	y, known := parseVersion(b)
	if !ok || !known {
		return ok && !known
	}
	for i := range x.numbers {
		if x.numbers[i] != y.numbers[i] {
			return x.numbers[i] > y.numbers[i]
		}
	}
	if x.pre == "" || y.pre == "" {
		return x.pre == "" && y.pre != ""
	}
	return x.pre > y.pre
}
