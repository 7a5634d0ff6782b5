// Package settings keeps what Headroom remembers between two starts, in one small JSON file.
//
// The file is written as a whole (temporary file, fsync, rename) and readable by its owner alone.
// It carries a version: older ones are brought up to date when read (migrations), and one from a
// later Headroom is used as far as it is understood but never overwritten. A damaged file is set
// aside under another name, and the defaults apply, so that settings never keep the app from
// starting.
package settings

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"headroom/app/disk"
)

// Settings are what is remembered. Default has the values of a first start.
type Settings struct {
	Version int `json:"version"`
	// the one that ran last, by ID or folder; "": none yet
	Model string `json:"model"`
	// models that ran, by ID, the last one first
	Recent []string `json:"recent,omitempty"`
	// the engine ran when Headroom ended, so the next start runs it again
	EngineOn bool `json:"engineOn"`
	Port     int  `json:"port"` // of the endpoint, [1, 65535]
	// to look through, besides those that the library knows
	ModelFolders []string `json:"modelFolders"`
	Launch       Launch   `json:"launch,omitempty"` // whether the agent starts the engine
	// that the agent starts, by ID; "": the one that ran last
	DefaultModel string `json:"defaultModel,omitempty"`
	// that requests to the endpoint must carry; "": none
	APIKey string `json:"apiKey,omitempty"`
	// more names under which the endpoint may be reached
	AllowHosts []string `json:"allowHosts,omitempty"`
	LogLevel   string   `json:"logLevel,omitempty"` // debug, info, warn or error; "": info
	// after which a model that nobody uses is unloaded; 0: never
	RestMinutes int `json:"restMinutes,omitempty"`
	// Notifications are the system's, for what ends while nobody looks. The menu-bar app shows
	// them.
	Notifications bool `json:"notifications"`
	// SaveOnBattery unloads an unused model sooner on battery and writes less; EaseWhenHot has the
	// engine rest when the computer is hot.
	SaveOnBattery bool `json:"saveOnBattery"`
	EaseWhenHot   bool `json:"easeWhenHot"`
	// Welcomed is whether the welcome was seen, which a first start shows.
	Welcomed bool `json:"welcomed,omitempty"`
	// ImportFolder is where imported models come to, and is looked through too; "": Headroom's own.
	ImportFolder string `json:"importFolder,omitempty"`
	// HubEndpoint is the address of the hub that models are downloaded from; "": that of
	// HF_ENDPOINT, or Hugging Face's.
	HubEndpoint string `json:"hubEndpoint,omitempty"`
	// PauseWatching keeps the list of models from following those folders by itself.
	PauseWatching bool `json:"pauseWatching,omitempty"`

	Cache  Cache            `json:"cache"`            // what is kept of conversations
	Models map[string]Model `json:"models,omitempty"` // how single models are run, by ID
}

// Launch says whether the agent starts the engine when it is started itself.
type Launch string

// The values of Launch.
const (
	LaunchAsLeft Launch = "" // if it ran when Headroom ended
	LaunchOn     Launch = "on"
	LaunchOff    Launch = "off"
)

// StartsEngine tells whether the agent starts the engine.
func (s Settings) StartsEngine() bool {
	return s.Launch == LaunchOn || s.Launch == LaunchAsLeft && s.EngineOn
}

// Default is what holds before anything was set: a first start shows a running engine, on the port
// that the documentation names.
func Default() Settings {
	return Settings{Version: version, EngineOn: true, Port: 11811, ModelFolders: []string{},
		Notifications: true, SaveOnBattery: true, EaseWhenHot: true}
}

const (
	version  = 1
	fileName = "settings.json"
	maxBytes = 1 << 20
)

// File is the settings on disk. Its methods may be called from any goroutine.
type File struct {
	path string

	mu       sync.Mutex
	now      Settings
	readOnly bool // written by a later Headroom, which knows things that this one would drop
}

// Open reads the settings in the folder, which need not exist. The File can be used whatever the
// error: with a file that cannot be read or understood the defaults apply, and the error says so.
func Open(dir string) (*File, error) {
	f := &File{path: filepath.Join(dir, fileName), now: Default()}
	data, err := read(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if err != nil {
		return f, fmt.Errorf("reading the settings, so the defaults apply: %w", err)
	}
	s, err := parse(data)
	if err != nil {
		aside := f.path + ".damaged"
		return f, errors.Join(fmt.Errorf(
			"the settings are damaged, so the defaults apply; the old file is now %s: %w", aside,
			err),
			os.Rename(f.path, aside))
	}
	f.now, f.readOnly = s, s.Version > version
	return f, nil
}

// Path is where the file lies, or would.
func (f *File) Path() string { return f.path }

// Get returns the settings, a copy.
func (f *File) Get() Settings {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now.clone()
}

// Change applies change and writes the outcome if it differs. The new settings hold even if they
// could not be written.
func (f *File) Change(change func(*Settings)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	next := f.now.clone()
	change(&next)
	next.Version = f.now.Version
	before, after := encode(f.now), encode(next)
	f.now = next
	if string(before) == string(after) || f.readOnly {
		return nil
	}
	if err := write(f.path, after); err != nil {
		return fmt.Errorf("keeping the settings: %w", err)
	}
	return nil
}

func (s Settings) clone() Settings {
	s.ModelFolders = append([]string{}, s.ModelFolders...)
	s.AllowHosts, s.Recent = slices.Clone(s.AllowHosts), slices.Clone(s.Recent)
	s.Models = cloneModels(s.Models)
	return s
}

func read(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxBytes+1))
	if err == nil && len(data) > maxBytes {
		err = fmt.Errorf("%s is longer than %d bytes", path, maxBytes)
	}
	return data, err
}

// migrations[v] brings the document of version v to version v+1. The document of version 0 is one
// without a version.
var migrations = []func(map[string]json.RawMessage){
	0: func(map[string]json.RawMessage) {},
}

// parse reads a file of any version. Fields that are missing or out of range get their default.
func parse(data []byte) (Settings, error) {
	var document map[string]json.RawMessage
	if err := json.Unmarshal(data, &document); err != nil {
		return Settings{}, err
	}
	if document == nil {
		return Settings{}, errors.New("not a JSON object")
	}
	var written struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(data, &written); err != nil {
		return Settings{}, err
	}
	if written.Version < 0 {
		return Settings{}, fmt.Errorf("version %d", written.Version)
	}
	for v := written.Version; v < version; v++ {
		migrations[v](document)
	}
	current, err := json.Marshal(document)
	if err != nil {
		return Settings{}, err
	}
	s := Default()
	if err := json.Unmarshal(current, &s); err != nil {
		return Settings{}, err
	}
	s.Version = max(written.Version, version)
	if s.Port < 1 || s.Port > 65535 {
		s.Port = Default().Port
	}
	s.RestMinutes = max(s.RestMinutes, 0)
	s.Cache.repair()
	return s.clone(), nil
}

func encode(s Settings) []byte {
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		panic("settings: encode: " + err.Error()) // our own types
	}
	return append(data, '\n')
}

// write replaces the file atomically; only its owner can read it.
func write(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return disk.WriteFile(path, data, 0o600)
}
