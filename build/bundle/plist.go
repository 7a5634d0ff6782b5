package main

// What a property list must say. Every key that may stand in one has a rule: a key without one is a
// misspelling until a rule says what it is for.

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

// rule says what is wrong with a value, "" for nothing.
type rule func(value any) string

// is wants that very value.
func is(want any) rule {
	return func(value any) string {
		if value != want {
			return fmt.Sprintf("is %v (%T), want %v (%T)", value, value, want, want)
		}
		return ""
	}
}

// only wants a list of that one word.
func only(want string) rule {
	return func(value any) string {
		if list, ok := value.([]any); !ok || len(list) != 1 || list[0] != want {
			return fmt.Sprintf("is %v, want a list of %s alone", value, want)
		}
		return ""
	}
}

// matches wants a string of a form.
func matches(form, example string) rule {
	pattern := regexp.MustCompile("^(?:" + form + ")$")
	return func(value any) string {
		if s, ok := value.(string); !ok || !pattern.MatchString(s) {
			return fmt.Sprintf("is %#v, want a string such as %s", value, example)
		}
		return ""
	}
}

// sentence wants what the system shows to a person in a question of its own.
var sentence = matches(`[A-Z][^{}]{20,}\.`, `"Headroom looks for models."`)

// common are the keys of both applications. Versions have the form that the system can compare
// (https://developer.apple.com/documentation/bundleresources/information-property-list/cfbundleversion).
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
})

var windowRules = with(map[string]rule{
	"CFBundleExecutable": is("headroom-window"),
	"CFBundleIdentifier": is("app.headroom.window"),
	"NSPrincipalClass":   is("NSApplication"),
})

// with is the common keys and some more.
func with(more map[string]rule) map[string]rule {
	all := maps.Clone(common)
	maps.Copy(all, more)
	return all
}

// checkPropertyList reads a list and holds it against the rules: each key once, with its value, and
// no other.
func checkPropertyList(data []byte, rules map[string]rule) (list map[string]any,
	problems []string) {
	if err := wellFormed(data); err != nil {
		return nil, []string{err.Error()}
	}
	if _, err := plist.Unmarshal(data, &list); err != nil {
		return nil, []string{"no property list: " + err.Error()}
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
			problems = append(problems, key+" is no key that we use (build/bundle/plist.go)")
		}
	}
	return list, problems
}

// wellFormed wants XML as its specification has it, and no key twice. The system's own readers
// forgive more here and less there.
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
			return fmt.Errorf("no well-formed XML: %w", err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			inKey = token.Name.Local == "key"
		case xml.CharData:
			if key := string(token); inKey && keys[key] {
				return fmt.Errorf("%s is there twice", key)
			} else if inKey {
				keys[key] = true
			}
		case xml.EndElement:
			inKey = false
		}
	}
}
