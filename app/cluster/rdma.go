package cluster

// RDMA over Thunderbolt, which the backend JACCL needs. Not verified on a Mac: see UNVERIFIED.md.

import (
	"context"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// RDMA is the state of RDMA over Thunderbolt on a host.
type RDMA struct {
	Devices []string `json:"devices,omitempty"` // as ibv_devices lists them
	Why     string   `json:"why,omitempty"`     // there are none
	Fix     string   `json:"fix,omitempty"`
}

func system() string { return runtime.GOOS + "/" + runtime.GOARCH }

// readRDMA asks ibv_devices, and rdma_ctl if there is no device.
func readRDMA(ctx context.Context) RDMA {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	listed, err := exec.CommandContext(ctx, "ibv_devices").Output()
	status, _ := exec.CommandContext(ctx, "rdma_ctl", "status").Output()
	return rdmaOf(runtime.GOOS, string(listed), err, string(status))
}

// rdmaOf reads the output of ibv_devices and of rdma_ctl status.
func rdmaOf(goos, listed string, err error, status string) RDMA {
	if goos != "darwin" {
		return RDMA{Why: "MLX has JACCL only on macOS", Fix: "Use the backend ring."}
	}
	if err != nil {
		return RDMA{Why: "this macOS has no ibv_devices", Fix: "RDMA over Thunderbolt needs " +
			"macOS 26.2 or later and Thunderbolt 5. Until then, use the backend ring."}
	}
	var devices []string
	for _, line := range strings.Split(listed, "\n") {
		// The table has a head, a line of dashes, and a line for each device: name and GUID.
		if words := strings.Fields(line); len(words) == 2 && strings.HasPrefix(words[0], "rdma") {
			devices = append(devices, words[0])
		}
	}
	switch {
	case len(devices) > 0:
		return RDMA{Devices: devices}
	case strings.Contains(strings.ToLower(status), "disabled"):
		return RDMA{Why: "RDMA is disabled", Fix: "Start the Mac in Recovery (hold the power " +
			"button), open Utilities > Terminal, run: rdma_ctl enable, and restart."}
	}
	return RDMA{Why: "ibv_devices lists no device", Fix: "Connect the Macs with Thunderbolt 5 " +
		"cables, each with every other one. If that does not help, start each Mac in Recovery, " +
		"open Utilities > Terminal, run: rdma_ctl enable, and restart."}
}
