package wired

// The limit from before Headroom's first change, which Reset restores: somebody may have set one by
// hand or by a launch daemon of their own. It is kept in a small file, because Headroom may be
// restarted in between.

import (
	"encoding/json"
	"os"
	"path/filepath"

	"headroom/app/disk"
)

// earlier is the content of the file.
type earlier struct {
	LimitMB int64 `json:"limitMB"` // before Headroom's first change; 0: the system's default
	SetMB   int64 `json:"setMB"`   // by Headroom's last change
}

// loadEarlier reads the file. A missing or damaged one means that Headroom has changed nothing.
func loadEarlier(path string) earlier {
	const maxBytes = 4 << 10
	data, _, err := disk.Read(path, maxBytes)
	if err != nil {
		return earlier{}
	}
	var e earlier
	if err := json.Unmarshal(data, &e); err != nil || e.LimitMB < 0 || e.SetMB < 0 {
		return earlier{}
	}
	return e
}

// store writes the file; "" means that nothing is kept for the next start.
func (e earlier) store(path string) error {
	if path == "" {
		return nil
	}
	data, err := json.Marshal(e)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return disk.WriteFile(path, append(data, '\n'), 0o600)
}

// restores returns the limit in MiB that Reset sets on a machine with the limit nowMB. If somebody
// else has changed the limit since, or it was lost at a restart, that is the system's default.
func (e earlier) restores(nowMB int64) int64 {
	if e.SetMB > 0 && e.SetMB == nowMB {
		return e.LimitMB
	}
	return 0
}

// after returns what to keep when an action changes the limit from nowMB to setMB.
func (e earlier) after(action Action, nowMB, setMB int64) earlier {
	switch {
	case action == Reset:
		return earlier{}
	case e.SetMB > 0 && e.SetMB == nowMB: // Headroom's own limit
		return earlier{e.LimitMB, setMB}
	}
	return earlier{nowMB, setMB}
}
