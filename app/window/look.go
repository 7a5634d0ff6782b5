package window

// The window's look: what it had when it was closed, and has again when it is opened. The page
// keeps the rest, such as its own place, in its storage.

import (
	"encoding/json"

	"headroom/app/disk"
)

// Look is the window's size, place and colour. The zero value is the first start's.
type Look struct {
	Width     int  `json:"width"`
	Height    int  `json:"height"`
	X         int  `json:"x"`
	Y         int  `json:"y"`
	Placed    bool `json:"placed"` // X and Y were saved
	Maximized bool `json:"maximized"`
	Dark      bool `json:"dark"` // the page was dark: the colour before its first paint
}

// The size of the window at the first start, and its least size.
const (
	DefaultWidth, DefaultHeight = 1100, 720
	MinWidth, MinHeight         = 760, 560
	maxSize                     = 16384
)

// ReadLook reads a file that Save has written. Without one, or with a size that no window has, it
// returns the look of the first start.
func ReadLook(path string) Look {
	first := Look{Width: DefaultWidth, Height: DefaultHeight}
	if path == "" {
		return first
	}
	data, _, err := disk.Read(path, 1<<12)
	l := first
	if err != nil || json.Unmarshal(data, &l) != nil {
		return first
	}
	if l.Width < MinWidth || l.Height < MinHeight || l.Width > maxSize || l.Height > maxSize {
		first.Dark = l.Dark
		return first
	}
	return l
}

// Save writes the look to a file; "": nowhere.
func (l Look) Save(path string) error {
	if path == "" {
		return nil
	}
	data, err := json.Marshal(l)
	if err != nil {
		return err
	}
	return disk.WriteFile(path, append(data, '\n'), 0o600)
}

// On reports whether the window would be on a screen of this size, so that it can be dragged.
func (l Look) On(width, height int) bool {
	const grip = 100 // of the title bar
	return l.Placed && l.X > grip-l.Width && l.X < width-grip && l.Y >= 0 && l.Y < height-grip
}
