package check

import "fmt"

// row is one step of the import order.
type row struct {
	why      string   // what the row is, and why it stands here
	packages []string // folders or patterns; see matches
}

// checkLayers holds every import between the tree's own packages against the table: a package
// imports only packages of rows before its own, never of its own row.
//
// Tests may import their own row too (two codecs compared with each other), and helper packages. A
// test from outside (package models_test) may import any row but the last: it may need what stands
// above to drive its package.
// A helper stands in no row: it may import whatever helps, and only tests and helpers import it.
func checkLayers(files []goFile, table []row) []string {
	var breaches []string
	missing := map[string]bool{}
	for _, f := range files {
		from, known := rowOf(table, f.pkg)
		if !known && !helper(f.pkg) && !missing[f.pkg] {
			missing[f.pkg] = true
			breaches = append(breaches,
				fmt.Sprintf("%s: the package is in no row of layers (build/check/layers_test.go). "+
					"Add it to the first row that is after everything it imports, or insert a row "+
					"with a sentence of why.", f.pkg))
		}
		for _, imported := range f.imports {
			to, ours := within(imported)
			if !ours || to == f.pkg {
				continue
			}
			if breach := judge(f, from, known, to, table); breach != "" {
				breaches = append(breaches, breach)
			}
		}
	}
	return sorted(breaches)
}

// judge returns the breach that one import is, or "". from is the importer's row.
func judge(f goFile, from int, known bool, to string, table []row) string {
	target, targetKnown := rowOf(table, to)
	switch {
	case !targetKnown && helper(to):
		if f.test || helper(f.pkg) && !known {
			return ""
		}
		return fmt.Sprintf(
			"%s imports %s, a test helper. Only tests may: move what it needs out of the helper.",
			f.path, to)
	case !targetKnown || !known:
		return "" // reported once for the package, or a helper's own import
	case target < from, f.test && target == from, f.outside && target < len(table)-1:
		return ""
	}
	return fmt.Sprintf(
		"%s (row %d) imports %s (row %d). A package imports only rows before its own. Row %d: %s "+
			"Declare a small interface in %s and receive the thing, or move the code; change the "+
			"table only if the design changed.",
		f.path, from, to, target, target, table[target].why, f.pkg)
}

// rowOf returns the index of the row that a package stands in. A row that names the package wins
// over one whose pattern fits it.
func rowOf(table []row, pkg string) (int, bool) {
	found, ok := 0, false
	for i, r := range table {
		for _, pattern := range r.packages {
			if pattern == pkg {
				return i, true
			}
			if !ok && !helper(pkg) && matches(pattern, pkg) {
				found, ok = i, true
			}
		}
	}
	return found, ok
}

// checkTable finds packages that two rows name: the second would be dead.
func checkTable(table []row) []string {
	var breaches []string
	seen := map[string]int{}
	for i, r := range table {
		if r.why == "" {
			breaches = append(breaches, fmt.Sprintf("row %d has no sentence of why", i))
		}
		for _, pattern := range r.packages {
			if first, twice := seen[pattern]; twice {
				breaches = append(breaches,
					fmt.Sprintf("%s stands in row %d and in row %d. Keep one.", pattern, first, i))
			}
			seen[pattern] = i
		}
	}
	return breaches
}
