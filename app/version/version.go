// Package version has the version of this build. The Makefile sets it at link time, from git.
package version

// Version is the version that the linker has set; "dev" after a plain `go build`.
var Version = "dev"
