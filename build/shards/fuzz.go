package main

import (
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// target is a fuzz target.
type target struct{ folder, name string }

var fuzzFunction = regexp.MustCompile(`(?m)^func (Fuzz[A-Za-z0-9_]*)\(`)

// fuzzTargets returns all fuzz targets of a tree.
func fuzzTargets(tree fs.FS) (all []target, err error) {
	err = fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := path.Base(name)
		if entry.IsDir() && (base == "node_modules" || base == "testdata" ||
			strings.HasPrefix(base, ".") && base != ".") {
			return fs.SkipDir
		}
		if !strings.HasSuffix(name, "_test.go") {
			return nil
		}
		text, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		for _, m := range fuzzFunction.FindAllSubmatch(text, -1) {
			all = append(all, target{path.Dir(name), string(m[1])})
		}
		return nil
	})
	return all, err
}

// maxTargets bounds the fuzz targets of one commit: at 20 seconds and the compilation of each, they
// take about six minutes.
const maxTargets = 12

// dueTargets returns the fuzz targets whose turn it is, every turns-th, and those of packages that
// the commit changes. If they are more than maxTargets, those whose turn is later wait for it.
func dueTargets(all []target, c commit) (due []target) {
	turn := func(i int) int { return (i - c.number%turns + turns) % turns }
	order := make([]int, len(all))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return turn(a) - turn(b) })
	for _, i := range order {
		changed := slices.ContainsFunc(c.changed, func(file string) bool {
			return path.Dir(file) == all[i].folder
		})
		if (turn(i) == 0 || changed || c.all) && len(due) < maxTargets {
			due = append(due, all[i])
		}
	}
	return due
}
