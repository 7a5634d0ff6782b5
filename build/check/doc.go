// Package check tests the repository itself: the import order of packages, package comments and
// their lists of files, line and file lengths, forbidden imports and texts, the trail in
// engine/doc.go, and the claims of Makefile and README. It also tests that every operator has a
// kernel for each device, and cases.
//
// A rule is a function that checks a tree (an fs.FS). It returns one line for each breach: where it
// is, what is wrong and what to do. Tests run every rule over the repository, where it must find
// nothing, and over small trees that break it, where it must find exactly that breach. The data of
// the rules, such as the import order and the forbidden imports with their reasons, is in the
// tests.
//
// Rules read files with package os and run no other program. So go test notices a changed file and
// does not return a cached result.
package check
