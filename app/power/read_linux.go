package power

// The kernel's files: https://docs.kernel.org/power/power_supply_class.html and
// https://docs.kernel.org/driver-api/thermal/sysfs-api.html. A missing or invalid file is
// ignored.

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Read returns the current state.
func Read() State { return readFrom("/sys/class") }

func readFrom(root string) State {
	return State{source(filepath.Join(root, "power_supply")),
		thermalState(filepath.Join(root, "thermal"))}
}

// source returns Battery if a battery of the computer is discharging and no other supply is online.
func source(dir string) Source {
	found, discharging := Unknown, false
	for _, supply := range folders(dir, "") {
		if text(supply, "scope") == "Device" { // the battery of a mouse or keyboard
			continue
		}
		switch text(supply, "type") {
		case "Battery":
			discharging = discharging || text(supply, "status") == "Discharging"
		case "Mains", "USB", "Wireless":
			if text(supply, "online") == "1" {
				return AC
			}
		}
		found = AC // unless a battery is discharging, see below
	}
	if discharging {
		return Battery
	}
	return found
}

// thermalState returns the worst state of all thermal zones. Their trip points decide: a zone is
// serious from the temperature at which the kernel throttles, and critical from 5 degrees below the
// temperature at which it shuts the computer down.
func thermalState(dir string) ThermalState {
	const nearMilliDegrees = 5000
	worst := 0
	states := []ThermalState{Unmeasured, Nominal, Fair, Serious, Critical}
	for _, zone := range folders(dir, "thermal_zone") {
		now, ok := number(zone, "temp")
		if !ok || now <= 0 {
			continue
		}
		worst = max(worst, 1)
		for i := 0; ; i++ {
			trip := "trip_point_" + strconv.Itoa(i)
			at, ok := number(zone, trip+"_temp")
			if !ok {
				break
			}
			if at <= 0 { // not set
				continue
			}
			switch kind := text(zone, trip+"_type"); {
			case kind == "active" && now >= at:
				worst = max(worst, 2)
			case kind == "passive" && now >= at:
				worst = max(worst, 3)
			case kind == "hot" && now >= at, kind == "critical" && now >= at-nearMilliDegrees:
				worst = 4
			}
		}
	}
	return states[worst]
}

func folders(dir, prefix string) (list []string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) {
			list = append(list, filepath.Join(dir, e.Name()))
		}
	}
	return list
}

func text(dir, name string) string {
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

func number(dir, name string) (int64, bool) {
	n, err := strconv.ParseInt(text(dir, name), 10, 64)
	return n, err == nil
}
