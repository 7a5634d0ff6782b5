package power

import (
	"os"
	"path/filepath"
	"testing"
)

// sysfs creates files like those of the kernel.
func sysfs(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestRead(t *testing.T) {
	battery := func(status string) map[string]string {
		return map[string]string{"power_supply/BAT0/type": "Battery",
			"power_supply/BAT0/status": status}
	}
	zone := func(temp string, tripPoints ...string) map[string]string {
		files := map[string]string{"thermal/thermal_zone0/temp": temp,
			"thermal/cooling_device0/type": "Processor"}
		for i := 0; i+1 < len(tripPoints); i += 2 {
			name := "thermal/thermal_zone0/trip_point_" + string(rune('0'+i/2))
			files[name+"_type"], files[name+"_temp"] = tripPoints[i], tripPoints[i+1]
		}
		return files
	}
	trips := []string{"critical", "105000", "passive", "95000", "active", "70000", "passive", "0"}
	merge := func(maps ...map[string]string) map[string]string {
		all := map[string]string{}
		for _, m := range maps {
			for k, v := range m {
				all[k] = v
			}
		}
		return all
	}
	ac := func(online string) map[string]string {
		return map[string]string{"power_supply/AC/type": "Mains", "power_supply/AC/online": online}
	}
	for _, c := range []struct {
		name  string
		files map[string]string
		want  State
	}{
		{"nothing", nil, State{}},
		{"desktop computer", ac("1"), State{Source: AC}},
		{"on battery", merge(ac("0"), battery("Discharging")), State{Source: Battery}},
		{"charging", merge(ac("1"), battery("Charging")), State{Source: AC}},
		{"plugged in while the battery discharges", merge(ac("1"), battery("Discharging")),
			State{Source: AC}},
		{"full battery only", battery("Full"), State{Source: AC}},
		{"discharging battery only", battery("Discharging"), State{Source: Battery}},
		{"charged by USB", merge(battery("Discharging"),
			map[string]string{"power_supply/ucsi/type": "USB", "power_supply/ucsi/online": "1"}),
			State{Source: AC}},
		{"a mouse's battery", map[string]string{"power_supply/hid/type": "Battery",
			"power_supply/hid/scope": "Device", "power_supply/hid/status": "Discharging"}, State{}},
		{"cool", zone("45000", trips...), State{ThermalState: Nominal}},
		{"active cooling", zone("70000", trips...), State{ThermalState: Fair}},
		{"throttled", zone("95000", trips...), State{ThermalState: Serious}},
		{"near shutdown", zone("100000", trips...), State{ThermalState: Critical}},
		{"no trip points", zone("99000"), State{ThermalState: Nominal}},
		{"disabled zone", zone("-274000", trips...), State{}},
		{"invalid temperature", zone("warm", trips...), State{}},
		{"both", merge(battery("Discharging"), zone("96000", trips...)), State{Battery, Serious}},
	} {
		if got := readFrom(sysfs(t, c.files)); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}
