//go:build !darwin

package main

// On other systems a second start opens the window (instance.go), and icons need no name.

func onReopen(func() error) {}
func nameIcon()             {}
