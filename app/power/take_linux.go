package power

// An inhibitor lock of logind (https://systemd.io/INHIBITOR_LOCKS/) prevents idle sleep while its
// file is open. It does not prevent sleep that the user requests, for example by closing the lid.

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/godbus/dbus/v5"
)

const callTimeout = 5 * time.Second

// take takes the lock.
func take() (release func() error, err error) {
	conn, err := dbus.ConnectSystemBus()
	if err != nil {
		return nil, fmt.Errorf("connecting to the system bus: %w", err)
	}
	defer conn.Close() // the lock is the file, not the connection
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	var file dbus.UnixFD
	err = conn.Object("org.freedesktop.login1", "/org/freedesktop/login1").CallWithContext(ctx,
		"org.freedesktop.login1.Manager.Inhibit", 0,
		"idle", "Headroom", "A request is being answered", "block").Store(&file)
	if err != nil {
		return nil, fmt.Errorf("asking logind for an inhibitor lock: %w", err)
	}
	syscall.CloseOnExec(int(file)) // a child process must not keep the lock
	return func() error { return syscall.Close(int(file)) }, nil
}
