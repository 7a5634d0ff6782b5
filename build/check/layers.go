package check

import "fmt"

// row is one step of the import order.
type row struct {
	why      string   // what the row is, and why it is at this place
	packages []string // folders or patterns; see matches
}

// checkLayers compares every import between the tree's own packages with the table. A package may
// import packages of earlier rows, but not of its own row.
//
// Tests may also import their own row (to compare two codecs) and helper packages. An external test
// (package models_test) may import any row but the last, since it may need later rows to drive its
// package. A helper is in no row. It may import any package; only tests and helpers import it.
func checkLayers(files []goFile, table []row) []string {
	var breaches []string
	missing := map[string]bool{}
	for _, f := range files {
		from, known := rowOf(table, f.pkg)
		if !known && !helper(f.pkg) && !missing[f.pkg] {
			missing[f.pkg] = true
			breaches = append(breaches,
				fmt.Sprintf("%s: the package is in no row of layers (build/check/layers_test.go). "+
					"Add it to the first row after everything that it imports, or insert a row "+
					"with a sentence that says why.", f.pkg))
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

// judge returns the breach of one import, "" if it is allowed. from is the importer's row.
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
			"Declare a small interface in %s and pass in an implementation, or move the code; "+
			"change the table only if the design changed.",
		f.path, from, to, target, target, table[target].why, f.pkg)
}

// rowOf returns the index of a package's row. A row that names the package wins over one with a
// pattern that matches it.
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

// checkTable finds packages that two rows name: the second would have no effect.
func checkTable(table []row) []string {
	var breaches []string
	seen := map[string]int{}
	for i, r := range table {
		if r.why == "" {
			breaches = append(breaches, fmt.Sprintf("row %d has no sentence that says why", i))
		}
		for _, pattern := range r.packages {
			if first, twice := seen[pattern]; twice {
				breaches = append(breaches,
					fmt.Sprintf("%s is in row %d and in row %d. Keep one.", pattern, first, i))
			}
			seen[pattern] = i
		}
	}
	return breaches
}
