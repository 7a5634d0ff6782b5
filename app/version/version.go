// Package version says which Headroom this is.
package version

// Version is set by the linker (see the Makefile); "dev" in a plain `go build`.
var Version = "dev"
