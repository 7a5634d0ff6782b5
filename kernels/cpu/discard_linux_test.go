package cpu

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// TestDiscardLocked: the error of the system is returned. Linux keeps pages that a program has
// locked in memory. An unmapped page would not do: another thread may map it, and QEMU discards it
// silently.
func TestDiscardLocked(t *testing.T) {
	b := Map(os.Getpagesize())
	defer Unmap(b)
	if err := unix.Mlock(b); err != nil {
		t.Fatal(err)
	}
	if err := Discard(b); err == nil {
		t.Error("memory that is locked was discarded")
	}
}
