//go:build !darwin

package main

// On other systems a second start opens the window (instance.go), and panels identify the icon
// themselves.

func onReopen(func() error) {}
func nameIcon()             {}
