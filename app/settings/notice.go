package settings

// What the log says of a file whose values all make sense: keys without effect, which may be
// misspelled, and entries that allow nothing. app/host logs aliases without effect: that depends on
// the models.

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// notice is a line of the log about the settings.
type notice struct{ message, about, fix string }

// access has functions that report whether an entry of AllowHosts or AllowOrigins can allow
// anything. nil: all can.
type access struct{ host, origin func(string) bool }

// CheckAccess makes the log name the entries of AllowHosts and AllowOrigins for which a function
// returns false, now and after changes. They are no errors: they allow nothing.
func (f *File) CheckAccess(host, origin func(string) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.access = access{host, origin}
	f.notice()
}

// notices returns what is to be said of the settings.
func (s Settings) notices(a access) (list []notice) {
	if keys := s.unknown.keys(); len(keys) > 0 {
		list = append(list, notice{"keys in the settings file have no effect: this version does " +
			"not know them", some(keys), "check their spelling, or remove them; they stay in " +
			"the file until then"})
	}
	if bad := invalid(s.AllowHosts, a.host); len(bad) > 0 {
		list = append(list, notice{"entries of allowHosts in the settings have no effect: a host " +
			"name has no port, path or wildcard", some(bad), "write names such as my-mac.local"})
	}
	if bad := invalid(s.AllowOrigins, a.origin); len(bad) > 0 {
		list = append(list, notice{"entries of allowOrigins in the settings have no effect: an " +
			"origin has a scheme and a host, and no path; null can be anybody's", some(bad),
			"write origins such as app://obsidian.md, or vscode-webview://*"})
	}
	return list
}

// invalid returns the texts of a list that are not valid, quoted.
func invalid(list []string, valid func(string) bool) (bad []string) {
	for _, text := range list {
		if valid != nil && !valid(text) {
			bad = append(bad, strconv.Quote(text))
		}
	}
	return bad
}

// keys returns the unknown keys in order, with those that lead to them: "cache.maxsise".
func (u unknown) keys() []string {
	list := slices.Collect(maps.Keys(u.top))
	for key := range u.cache {
		list = append(list, "cache."+key)
	}
	for id, fields := range u.models {
		for key := range fields {
			list = append(list, "models."+id+"."+key)
		}
	}
	slices.Sort(list)
	return list
}

// some joins the first texts of a list, and says how many more there are.
func some(list []string) string {
	const most = 8
	if len(list) <= most {
		return strings.Join(list, "; ")
	}
	return fmt.Sprintf("%s; and %d more", strings.Join(list[:most], "; "), len(list)-most)
}

// notice logs what is to be said of the current settings and was not said of the previous ones.
// f.mu is locked, or f is new.
func (f *File) notice() {
	before := f.noticed
	f.noticed = f.now.notices(f.access)
	for _, n := range f.noticed {
		if !slices.Contains(before, n) {
			slog.Warn(n.message, "file", f.path, "which", n.about, "fix", n.fix)
		}
	}
}
