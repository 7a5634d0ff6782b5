package power

// Logind holds off what it would do to an idle computer for as long as a file that it hands out is
// open (https://systemd.io/INHIBITOR_LOCKS/). What a person asks for, such as closing the lid, is
// not held off.

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/godbus/dbus/v5"
)

const callTime = 5 * time.Second

func take() (giveBack func() error, err error) {
	conn, err := dbus.ConnectSystemBus()
	if err != nil {
		return nil, fmt.Errorf("reaching the system's bus: %w", err)
	}
	defer conn.Close() // the file counts, not the connection
	ctx, cancel := context.WithTimeout(context.Background(), callTime)
	defer cancel()
	var file dbus.UnixFD
	err = conn.Object("org.freedesktop.login1", "/org/freedesktop/login1").CallWithContext(ctx,
		"org.freedesktop.login1.Manager.Inhibit", 0,
		"idle", "Headroom", "A request is being answered", "block").Store(&file)
	if err != nil {
		return nil, fmt.Errorf("asking logind not to sleep: %w", err)
	}
	syscall.CloseOnExec(int(file)) // or a window that is opened now would keep it
	return func() error { return syscall.Close(int(file)) }, nil
}
