//go:build !darwin

package library

func trashed(path string) error { return freedesktopTrash(path) }
