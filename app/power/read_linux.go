package power

// The kernel's files: https://docs.kernel.org/power/power_supply_class.html and
// https://docs.kernel.org/driver-api/thermal/sysfs-api.html. One that is absent or makes no sense
// counts as nothing said.

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Read is the state now.
func Read() State { return readFrom("/sys/class") }

func readFrom(root string) State {
	return State{source(filepath.Join(root, "power_supply")), heat(filepath.Join(root, "thermal"))}
}

// source is Battery if one of the computer's own is being emptied and nothing else gives power.
func source(dir string) Source {
	found, discharging := Unknown, false
	for _, supply := range folders(dir, "") {
		if text(supply, "scope") == "Device" { // a mouse's
			continue
		}
		switch text(supply, "type") {
		case "Battery":
			discharging = discharging || text(supply, "status") == "Discharging"
		case "Mains", "USB", "Wireless":
			if text(supply, "online") == "1" {
				return Mains
			}
		}
		found = Mains // a desktop computer has nothing to say, a laptop a battery
	}
	if discharging {
		return Battery
	}
	return found
}

// heat is the worst of all zones, by their trip points: what the kernel slows down at is serious,
// and 5 degrees below the point at which it turns the computer off is critical.
func heat(dir string) Heat {
	const nearMilli = 5000
	worst := 0
	degrees := []Heat{Unmeasured, Nominal, Fair, Serious, Critical}
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
			case kind == "hot" && now >= at, kind == "critical" && now >= at-nearMilli:
				worst = 4
			}
		}
	}
	return degrees[worst]
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
