package main

// Dock shows on the icon in the Dock how far downloads are. Pages call it as window.go.main.Dock
// (frontend/src/lib/host.ts). Other systems than macOS have no such badge.
type Dock struct{}

// SetBadge shows text on the icon; "" removes it.
func (*Dock) SetBadge(text string) { setBadge(text) }
