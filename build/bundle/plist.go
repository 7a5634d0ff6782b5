package main

// The rules for property lists. Every allowed key has a rule; a key without a rule is treated as a
// misspelling.

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"

	"howett.net/plist"
)

// A rule returns what is wrong with a value, or "" if it is valid.
type rule func(value any) string

// is returns a rule that requires the value want.
func is(want any) rule {
	return func(value any) string {
		if value != want {
			return fmt.Sprintf("is %v (%T), want %v (%T)", value, value, want, want)
		}
		return ""
	}
}

// only returns a rule that requires a list with the single string want.
func only(want string) rule {
	return func(value any) string {
		if list, ok := value.([]any); !ok || len(list) != 1 || list[0] != want {
			return fmt.Sprintf("is %v, want a list with only %s", value, want)
		}
		return ""
	}
}

// matches returns a rule that requires a string that matches pattern form.
func matches(form, example string) rule {
	pattern := regexp.MustCompile("^(?:" + form + ")$")
	return func(value any) string {
		if s, ok := value.(string); !ok || !pattern.MatchString(s) {
			return fmt.Sprintf("is %#v, want a string such as %s", value, example)
		}
		return ""
	}
}

// sentence requires a sentence, which macOS shows in a permission dialog.
var sentence = matches(`[A-Z][^{}]{20,}\.`, `"Headroom looks for models."`)

// common are the keys of both applications. Versions have the form that macOS can compare:
// https://developer.apple.com/documentation/bundleresources/information-property-list/cfbundleversion
var common = map[string]rule{
	"CFBundleInfoDictionaryVersion": is("6.0"),
	"CFBundlePackageType":           is("APPL"),
	"CFBundleDevelopmentRegion":     is("en"),
	"CFBundleSupportedPlatforms":    only("MacOSX"),
	"CFBundleName":                  matches(`\S.{0,14}`, `"Headroom", of at most 15 letters`),
	"CFBundleDisplayName":           is("Headroom"),
	"CFBundleIconFile":              matches(`\w+`, `"Headroom"`),
	"CFBundleShortVersionString":    matches(`\d+\.\d+\.\d+`, `"0.1.0"`),
	"CFBundleVersion":               matches(`[1-9]\d{0,8}`, `"335"`),
	"LSApplicationCategoryType":     is("public.app-category.developer-tools"),
	"LSMinimumSystemVersion":        is(minimumSystem),
	"LSArchitecturePriority":        only("arm64"),
	"NSHighResolutionCapable":       is(true),
}

var agentRules = with(map[string]rule{
	"CFBundleExecutable":                 is("headroom-agent"),
	"CFBundleIdentifier":                 is("app.headroom.agent"),
	"LSUIElement":                        is(true),
	"NSDesktopFolderUsageDescription":    sentence,
	"NSDocumentsFolderUsageDescription":  sentence,
	"NSDownloadsFolderUsageDescription":  sentence,
	"NSRemovableVolumesUsageDescription": sentence,
	"NSNetworkVolumesUsageDescription":   sentence,
	"NSLocalNetworkUsageDescription":     sentence,
	"NSBonjourServices":                  only("_headroom._tcp"),
})

var windowRules = with(map[string]rule{
	"CFBundleExecutable": is("headroom-window"),
	"CFBundleIdentifier": is("app.headroom.window"),
	"NSPrincipalClass":   is("NSApplication"),
})

// with returns the common rules together with more.
func with(more map[string]rule) map[string]rule {
	all := maps.Clone(common)
	maps.Copy(all, more)
	return all
}

// checkPropertyList reads a property list and checks that it has every key of rules once, with a
// valid value, and no other key.
func checkPropertyList(data []byte, rules map[string]rule) (list map[string]any,
	problems []string) {
	if err := wellFormed(data); err != nil {
		return nil, []string{err.Error()}
	}
	if _, err := plist.Unmarshal(data, &list); err != nil {
		return nil, []string{"not a property list: " + err.Error()}
	}
	for _, key := range slices.Sorted(maps.Keys(rules)) {
		value, ok := list[key]
		if !ok {
			problems = append(problems, key+" is missing")
		} else if wrong := rules[key](value); wrong != "" {
			problems = append(problems, key+" "+wrong)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(list)) {
		if rules[key] == nil {
			problems = append(problems, key+" is not an allowed key (build/bundle/plist.go)")
		}
	}
	return list, problems
}

// wellFormed returns an error unless data is well-formed XML without duplicate keys. Readers of
// property lists differ in what they tolerate.
func wellFormed(data []byte) error {
	decoder := xml.NewDecoder(bytes.NewReader(data))
	keys := map[string]bool{}
	inKey := false
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("not well-formed XML: %w", err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			inKey = token.Name.Local == "key"
		case xml.CharData:
			if key := string(token); inKey && keys[key] {
				return fmt.Errorf("%s occurs twice", key)
			} else if inKey {
				keys[key] = true
			}
		case xml.EndElement:
			inKey = false
		}
	}
}
