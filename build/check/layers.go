package check

import "fmt"

// row is one step of the import order.
type row struct {
	why      string   // what its packages do, and why the row is at this place
	packages []string // folders or patterns; see matches
}

// checkLayers compares every import between packages of the tree with the table. A package may
// import packages of earlier rows only.
//
// A test may also import packages of the same row, for example to compare two codecs, and helper
// packages. An external test (package models_test) may import every row but the last, because it
// may need later rows to run its package. A helper is in no row. It may import any package, and
// only tests and helpers may import it.
func checkLayers(files []goFile, table []row) []string {
	var breaches []string
	missing := map[string]bool{}
	for _, f := range files {
		from, known := rowOf(table, f.pkg)
		if !known && !helper(f.pkg) && !missing[f.pkg] {
			missing[f.pkg] = true
			breaches = append(breaches,
				fmt.Sprintf("%s: the package is in no row of layers (build/check/layers_test.go). "+
					"Add it to the first row after all packages that it imports, or insert a row "+
					"with a description.", f.pkg))
		}
		for _, imported := range f.imports {
			to, inModule := within(imported)
			if !inModule || to == f.pkg {
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
		return fmt.Sprintf("%s imports %s, a test helper, which only tests may import. Move the "+
			"code that it needs to another package.", f.path, to)
	case !targetKnown || !known:
		return "" // a package without a row, reported once; or an import of a helper
	case target < from, f.test && target == from, f.outside && target < len(table)-1:
		return ""
	}
	return fmt.Sprintf("%s (row %d) imports %s (row %d). A package imports only earlier rows. "+
		"Row %d: %s Declare a small interface in %s and pass in an implementation, or move the "+
		"code. Change the table only if the design has changed.",
		f.path, from, to, target, target, table[target].why, f.pkg)
}

// rowOf returns the index of a package's row. A row that names the package takes precedence over a
// row with a pattern that matches it.
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

// checkTable finds rows without a description, and packages that two rows name.
func checkTable(table []row) []string {
	var breaches []string
	seen := map[string]int{}
	for i, r := range table {
		if r.why == "" {
			breaches = append(breaches, fmt.Sprintf("row %d has no description", i))
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
