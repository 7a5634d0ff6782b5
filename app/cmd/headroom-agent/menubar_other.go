//go:build !darwin

package main

// Elsewhere a second start opens the window (instance.go), and panels know the icon by its own
// means.

func onReopen(func() error) {}
func nameIcon()             {}
