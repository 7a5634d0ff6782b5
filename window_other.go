//go:build !darwin

package main

// What only a Mac's window has.

// setZoom does nothing: Wails does not offer the zoom of WebKitGTK's view.
func setZoom(float64) bool { return false }

func placeSettings() {}
