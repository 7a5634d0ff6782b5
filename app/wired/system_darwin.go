package wired

import (
	"context"
	"fmt"
	"os/exec"
	"strings"

	"golang.org/x/sys/unix"

	"headroom/metal/darwin"
)

// Here returns this Mac.
func Here() System { return mac{} }

type mac struct{}

// Read asks the kernel and Metal, and reads Headroom's launch daemon.
func (mac) Read() (Reading, error) {
	limitMB, err := unix.SysctlUint32(variable)
	if err != nil {
		return Reading{UnavailableReason: "This Mac has no unified memory, so it has no wired " +
			"limit"}, nil
	}
	totalBytes, err := unix.SysctlUint64("hw.memsize")
	if err != nil {
		return Reading{}, fmt.Errorf("hw.memsize: %w", err)
	}
	return Reading{TotalBytes: int64(totalBytes), LimitMB: int64(limitMB),
		PersistedMB:      persistedMB(daemonPath),
		RecommendedBytes: recommendedBytes()}, nil
}

// recommendedBytes returns Metal's recommendedMaxWorkingSetSize, or 0 without a GPU.
func recommendedBytes() int64 {
	device, err := darwin.Open()
	if err != nil {
		return 0
	}
	defer device.Close()
	return int64(device.Facts().RecommendedMaxWorkingSetSize)
}

// declinedCode is AppleScript's error code of a cancelled dialog.
const declinedCode = "(-128)"

// Administrator runs the script through osascript, which shows the dialog.
func (mac) Administrator(ctx context.Context, script string) error {
	out, err := exec.CommandContext(ctx, "/usr/bin/osascript", "-e",
		appleScript(script)).CombinedOutput()
	switch {
	case err == nil:
		return nil
	case strings.Contains(string(out), declinedCode):
		return ErrDeclined
	}
	return fmt.Errorf("osascript: %w: %s", err, strings.TrimSpace(string(out)))
}
