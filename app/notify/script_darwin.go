package notify

// Notifications of a program outside an app bundle, as developers run it. macOS does not let such a
// program show any. So osascript shows them, in the name of Script Editor, and does not report
// clicks.

import (
	"context"
	"fmt"
	"os/exec"
	"time"
)

type script struct{}

// display gets its texts as arguments, so that no text can run as a script.
const display = `on run argv
	display notification (item 3 of argv) with title (item 1 of argv) subtitle (item 2 of argv)
end run`

const scriptTime = 10 * time.Second

func (script) Show(n Notice, _ func()) error {
	ctx, cancel := context.WithTimeout(context.Background(), scriptTime)
	defer cancel()
	if out, err := exec.CommandContext(ctx, "/usr/bin/osascript", "-e", display, "Headroom",
		n.Title, n.Body).CombinedOutput(); err != nil {
		return fmt.Errorf("notifying with osascript: %w: %s", err, out)
	}
	return nil
}

func (script) Close() {}
