// Package report makes the text of a bug report: the machine, the settings, the state, the result
// of the GPU's self-test, and the log. A person reads it before it is saved. Nothing is sent.
//
// Secrets are left out twice. Of the settings, only the keys in a table are shown, so that a new
// one is hidden until somebody has decided. And no part has a text that is known to be secret.
package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"runtime"
	"slices"
	"strings"

	"github.com/shirou/gopsutil/v3/cpu"
	"github.com/shirou/gopsutil/v3/host"

	"headroom/app/disk"
	"headroom/app/logs"
	"headroom/app/memory"
	"headroom/app/settings"
)

// Part is one part of a report.
type Part struct {
	Name string `json:"name"` // "machine", "settings", "state", "selftest" or "log"
	Text string `json:"text"`
}

// Sources are what a report is made of. Zero fields give parts that say so.
type Sources struct {
	Version  string
	Memory   memory.Reading
	Settings settings.Settings
	State    any    // as the window sees it, without what people wrote; nil: none
	SelfTest string // path of the file with the result
	Log      []logs.Line
	Home     string   // replaced by ~ in every part
	Secrets  []string // left out of every part
}

// parts has the parts in their order.
var parts = []struct {
	name string
	text func(Sources) string
}{
	{"machine", machine},
	{"settings", settingsText},
	{"state", state},
	{"selftest", selfTest},
	{"log", logText},
}

// New returns the parts of a report.
func New(s Sources) []Part {
	s.Secrets = append(slices.Clone(s.Secrets), s.Settings.APIKey)
	list := make([]Part, len(parts))
	for i, p := range parts {
		list[i] = Part{p.name, s.clean(p.text(s))}
	}
	return list
}

const (
	hidden = "(hidden)"
	// minSecretBytes is the length of the shortest text that is replaced everywhere.
	minSecretBytes = 4
)

// clean removes secrets and the path of the home folder.
func (s Sources) clean(text string) string {
	for _, secret := range s.Secrets {
		if len(secret) >= minSecretBytes {
			text = strings.ReplaceAll(text, secret, hidden)
		}
	}
	if len(s.Home) > 1 {
		text = strings.ReplaceAll(text, s.Home, "~")
	}
	return text
}

func machine(s Sources) string {
	m := s.Memory
	lines := []string{"Headroom " + s.Version + ", " + runtime.Version(),
		"System: " + runtime.GOOS + "/" + runtime.GOARCH}
	if i, err := host.Info(); err == nil {
		lines[1] += ", " + i.Platform + " " + i.PlatformVersion + ", kernel " + i.KernelVersion
	}
	if infos, err := cpu.Info(); err == nil && len(infos) > 0 {
		lines = append(lines, fmt.Sprintf("Processor: %s, %d cores", infos[0].ModelName,
			runtime.NumCPU()))
	}
	lines = append(lines,
		fmt.Sprintf("Memory: %s, %s available", memory.Text(m.TotalBytes),
			memory.Text(m.AvailableBytes)),
		"Memory pressure: "+cmp.Or(string(m.Pressure.Level), "not reported"))
	if m.Pressure.SwapTotalBytes > 0 {
		lines = append(lines, fmt.Sprintf("Swap: %s of %s used",
			memory.Text(m.Pressure.SwapUsedBytes), memory.Text(m.Pressure.SwapTotalBytes)))
	}
	if m.WiredLimitBytes > 0 {
		lines = append(lines, "Wired limit: "+memory.Text(m.WiredLimitBytes))
	}
	return strings.Join(lines, "\n") + "\n"
}

// shown has the keys of the settings whose values are shown. Addresses are shown without names,
// passwords and parameters. Of the others, a report only says that they are set.
var shown = map[string]func(json.RawMessage) json.RawMessage{
	"version": asIs, "model": asIs, "recent": asIs, "engineOn": asIs, "port": asIs,
	"ollamaPort": asIs, "ollamaDelete": asIs, "modelFolders": asIs, "launch": asIs,
	"shareWithMachines": asIs, "machinesPort": asIs, "findMachines": asIs,
	"defaultModel": asIs, "noApiKey": asIs, "logLevel": asIs, "idleUnloadMinutes": asIs,
	"loadOnRequest": asIs, "requestWaitMinutes": asIs, "notifications": asIs,
	"saveOnBattery": asIs, "throttleWhenHot": asIs, "freeUnderPressure": asIs, "welcomed": asIs,
	"menuBarFigure": asIs,
	"importFolder":  asIs, "hubEndpoint": asAddress, "updateFeed": asAddress, "updateKey": asIs,
	"pauseWatching": asIs, "cache": asIs, "models": asModels,
}

func asIs(value json.RawMessage) json.RawMessage { return value }

// asAddress leaves only scheme, host and path of an address.
func asAddress(value json.RawMessage) json.RawMessage {
	var text string
	if json.Unmarshal(value, &text) != nil {
		return quoted(hidden)
	}
	u, err := url.Parse(text)
	if err != nil {
		return quoted(hidden)
	}
	return quoted((&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String())
}

// asModels leaves out what people wrote for a model's template.
func asModels(value json.RawMessage) json.RawMessage {
	var models map[string]map[string]json.RawMessage
	if json.Unmarshal(value, &models) != nil {
		return quoted(hidden)
	}
	for _, m := range models {
		if m["templateArguments"] != nil {
			m["templateArguments"] = quoted(hidden)
		}
	}
	text, _ := json.Marshal(models) // was just decoded
	return text
}

func quoted(text string) json.RawMessage {
	data, _ := json.Marshal(text)
	return data
}

func settingsText(s Sources) string {
	var all map[string]json.RawMessage
	text, err := json.Marshal(s.Settings)
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil {
		return err.Error() + "\n"
	}
	for _, key := range slices.Collect(maps.Keys(all)) {
		if show := shown[key]; show != nil {
			all[key] = show(all[key])
		} else {
			all[key] = quoted(hidden)
		}
	}
	return indented(all)
}

func state(s Sources) string {
	if s.State == nil {
		return "Not known.\n"
	}
	return indented(s.State)
}

func indented(v any) string {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err.Error() + "\n"
	}
	return string(text) + "\n"
}

const maxSelfTestBytes = 64 << 10

func selfTest(s Sources) string {
	data, _, err := disk.Read(s.SelfTest, maxSelfTestBytes)
	if err != nil {
		return "The GPU was not tested on this computer. `headroom selftest` does that.\n"
	}
	return strings.TrimSpace(string(data)) + "\n"
}

func logText(s Sources) string {
	if len(s.Log) == 0 {
		return "The log is empty.\n"
	}
	var b strings.Builder
	for _, line := range s.Log {
		b.WriteString(line.String())
		b.WriteByte('\n')
	}
	return b.String()
}
