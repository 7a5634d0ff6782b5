package main

// The check of a whole bundle: it contains exactly the files of the layout, each is valid, and the
// property lists agree with each other.

import (
	"bytes"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// check returns the problems of a bundle. The error means that the bundle could not be read.
func check(app fs.FS) ([]string, error) {
	found, problems, err := inventory(app)
	if err != nil {
		return nil, err
	}
	lists := map[string]map[string]any{}
	for _, f := range layout {
		if !slices.Contains(found, f.path) {
			problems = append(problems, f.path+": missing")
			continue
		}
		data, err := fs.ReadFile(app, f.path)
		if err != nil {
			return nil, err
		}
		var wrong []string
		switch f.kind {
		case program:
			wrong = checkProgram(bytes.NewReader(data), minimumSystem)
		case icon:
			wrong = checkIcon(data)
		case text:
			if len(bytes.TrimSpace(data)) == 0 {
				wrong = []string{"empty"}
			}
		case propertyList:
			rules := agentRules
			if strings.HasPrefix(f.path, windowApp) {
				rules = windowRules
			}
			lists[f.path], wrong = checkPropertyList(data, rules)
			wrong = append(wrong, checkNames(lists[f.path], path.Dir(f.path), found)...)
		}
		for _, w := range wrong {
			problems = append(problems, f.path+": "+w)
		}
	}
	return append(problems, checkAgreement(lists["Contents/Info.plist"],
		lists[windowApp+"Contents/Info.plist"])...), nil
}

// inventory returns the files of the layout that the bundle has. Files outside the layout, and
// files with wrong permissions, are problems, because a signature covers whatever is in the bundle.
func inventory(app fs.FS) (found, problems []string, err error) {
	err = fs.WalkDir(app, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		at := slices.IndexFunc(layout, func(f file) bool { return f.path == name })
		switch {
		case !info.Mode().IsRegular():
			problems = append(problems,
				name+": not a regular file, so a signature may not cover it")
		case at < 0 && !slices.Contains(signatures, name):
			problems = append(problems, name+": not part of the layout (build/bundle/layout.go)")
		case at >= 0:
			want := fs.FileMode(0o644)
			if layout[at].kind == program {
				want = 0o755
			}
			if got := info.Mode().Perm(); got != want {
				problems = append(problems,
					fmt.Sprintf("%s: permissions %o, want %o", name, got, want))
			}
			found = append(found, name)
		}
		return nil
	})
	return found, problems, err
}

// checkNames checks that the executable and the icon that a property list names exist. contents is
// the folder of the property list.
func checkNames(list map[string]any, contents string, found []string) (problems []string) {
	for key, where := range map[string]string{"CFBundleExecutable": "MacOS/%s",
		"CFBundleIconFile": "Resources/%s.icns"} {
		name, _ := list[key].(string) // its absence is reported already
		if file := path.Join(contents, fmt.Sprintf(where, name)); name != "" &&
			!slices.Contains(found, file) {
			problems = append(problems,
				fmt.Sprintf("%s is %q, but there is no %s", key, name, file))
		}
	}
	return problems
}

// checkAgreement checks that agent and window have the same version but different identifiers.
func checkAgreement(agent, window map[string]any) (problems []string) {
	if agent == nil || window == nil {
		return nil
	}
	for _, key := range []string{"CFBundleVersion", "CFBundleShortVersionString",
		"LSMinimumSystemVersion", "CFBundleName"} {
		if agent[key] != window[key] {
			problems = append(problems,
				fmt.Sprintf("%s is %v in the agent and %v in the window", key, agent[key],
					window[key]))
		}
	}
	if agent["CFBundleIdentifier"] == window["CFBundleIdentifier"] {
		problems = append(problems,
			"agent and window have the same CFBundleIdentifier, so macOS would confuse them")
	}
	return problems
}
