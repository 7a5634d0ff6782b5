// Package check holds the tests of the repository itself: the import order, one doc comment per
// package, file lengths, imports and texts that do not belong, that every operator has a kernel for
// each device and cases for it, and that Makefile and README tell the truth.
//
// A rule is a function over a tree (an fs.FS), returning one line per breach: what is wrong, where,
// and what to do. The tests run every rule twice: over the repository, where it must find nothing,
// and over a small tree that breaks it, where it must find exactly that. The rules' data (which
// package stands above which, which import is forbidden where, each with its reason) is in the
// tests. Files are read through the os package, so that go test notices when one changes and does
// not return a cached "ok"; for the same reason no rule asks another program.
package check
