package main

// The check of a whole bundle: every file of the layout is there and nothing else, and the parts
// agree with each other.

import (
	"bytes"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// check lists what is wrong with the bundle in a tree; the error means that it could not be read.
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

// inventory lists the files, and what is no part of the layout or has wrong rights: signing seals
// what lies there, whatever it is.
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
				name+": no regular file, which the signature cannot seal everywhere")
		case at < 0 && !slices.Contains(signatures, name):
			problems = append(problems, name+": not part of the layout (build/bundle/layout.go)")
		case at >= 0:
			want := fs.FileMode(0o644)
			if layout[at].kind == program {
				want = 0o755
			}
			if got := info.Mode().Perm(); got != want {
				problems = append(problems, fmt.Sprintf("%s: rights %o, want %o", name, got, want))
			}
			found = append(found, name)
		}
		return nil
	})
	return found, problems, err
}

// checkNames holds what a property list names against what is there. contents is the folder of the
// list.
func checkNames(list map[string]any, contents string, found []string) (problems []string) {
	for key, where := range map[string]string{"CFBundleExecutable": "MacOS/%s",
		"CFBundleIconFile": "Resources/%s.icns"} {
		name, _ := list[key].(string) // its absence is told already
		if file := path.Join(contents, fmt.Sprintf(where, name)); name != "" &&
			!slices.Contains(found, file) {
			problems = append(problems,
				fmt.Sprintf("%s is %q, but there is no %s", key, name, file))
		}
	}
	return problems
}

// checkAgreement: the window is a part of the same version, with an identity of its own.
func checkAgreement(agent, window map[string]any) (problems []string) {
	if agent == nil || window == nil {
		return nil
	}
	for _, key := range []string{"CFBundleVersion", "CFBundleShortVersionString",
		"LSMinimumSystemVersion", "CFBundleName"} {
		if agent[key] != window[key] {
			problems = append(problems,
				fmt.Sprintf("%s is %v in the bundle and %v in its window", key, agent[key],
					window[key]))
		}
	}
	if agent["CFBundleIdentifier"] == window["CFBundleIdentifier"] {
		problems = append(problems,
			"the window has the bundle's own CFBundleIdentifier, so the system would take one for "+
				"the other")
	}
	return problems
}
