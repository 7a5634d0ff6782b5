// Package version holds the version of this build. The Makefile sets it at link time, from git.
package version

// Version is set by the linker (see the Makefile); "dev" in a plain `go build`.
var Version = "dev"
