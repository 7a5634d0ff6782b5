//go:build !darwin

package library

// trashed moves path to the trash; a link without its target.
func trashed(path string) error { return freedesktopTrash(path) }
