package main

/*
#cgo pkg-config: gtk+-3.0
#include <gtk/gtk.h>
#include <stdlib.h>

static gboolean own_clipboard(gpointer text) {
	gtk_clipboard_set_text(gtk_clipboard_get(GDK_SELECTION_CLIPBOARD), text, -1);
	g_free(text);
	return G_SOURCE_REMOVE;
}

// copy_text may be called on any thread. GTK's own thread sets the clipboard.
static void copy_text(const char *text) { g_idle_add(own_clipboard, g_strdup(text)); }
*/
import "C"

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"unsafe"
)

// On X11 the agent owns the clipboard, through GTK, which systray links anyway. On Wayland only a
// program with a focused window may set the clipboard. The agent has none, so it runs wl-copy.

func onWayland() bool {
	return os.Getenv("WAYLAND_DISPLAY") != "" && os.Getenv("GDK_BACKEND") != "x11"
}

func canCopy() bool {
	if !onWayland() {
		return true
	}
	_, err := exec.LookPath("wl-copy")
	return err == nil
}

func copyText(text string) error {
	if onWayland() {
		command := exec.Command("wl-copy")
		command.Stdin = strings.NewReader(text)
		if err := command.Run(); err != nil {
			return fmt.Errorf("copying with wl-copy: %w", err)
		}
		return nil
	}
	s := C.CString(text)
	defer C.free(unsafe.Pointer(s))
	C.copy_text(s)
	return nil
}
