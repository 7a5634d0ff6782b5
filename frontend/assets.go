// Package frontend embeds the built web UI in the programs.
//
// `npm run build` writes the pages to dist. A fresh clone has only dist/.gitkeep, so that every
// package compiles before the web UI is built. Built reports whether there are pages to serve.
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
