// Package frontend carries the built web UI inside the Go binaries.
//
// `npm run build` writes the pages to dist/; go:embed takes them from there. A
// fresh clone holds only dist/.gitkeep, so that everything compiles before Node
// has run once: Built tells the two apart, and whoever serves the files decides
// what to say when there are none.
package frontend

import (
	"embed"
	"io/fs"
)

//go:embed all:dist
var dist embed.FS

// FS returns the built files with index.html at its root. It is never nil; before
// the first build it holds nothing but .gitkeep.
func FS() fs.FS {
	sub, err := fs.Sub(dist, "dist")
	if err != nil {
		panic("frontend: FS: dist is not a valid path: " + err.Error())
	}
	return sub
}

// Built reports whether the embedded files contain the UI.
func Built() bool {
	_, err := fs.Stat(dist, "dist/index.html")
	return err == nil
}
