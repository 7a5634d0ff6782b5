// Package settings stores Headroom's settings in one small JSON file.
//
// The file is replaced atomically, and only the user can read it. It has a version. An older file
// is migrated when it is read. In a file of a later Headroom, the known settings apply, and it is
// never overwritten. A damaged file is renamed, and the defaults apply, so that the app always
// starts.
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
	"strings"
	"sync"

	"headroom/app/disk"
)

// Settings is the content of the file. Default returns the values of a first start.
type Settings struct {
	Version int `json:"version"`
	// Model is the model that ran last, by ID or folder; "": none yet.
	Model  string   `json:"model"`
	Recent []string `json:"recent,omitempty"` // IDs of models that ran, the latest first
	// EngineOn reports whether the engine ran when Headroom quit.
	EngineOn bool `json:"engineOn"`
	Port     int  `json:"port"` // of the endpoint, [1, 65535]
	// ModelFolders are scanned in addition to library.Roots.
	ModelFolders []string `json:"modelFolders"`
	Launch       Launch   `json:"launch,omitempty"` // whether the agent starts the engine
	// DefaultModel is the ID of the model that the agent starts; "": the one that ran last.
	DefaultModel string `json:"defaultModel,omitempty"`
	// APIKey is the key that requests to the endpoint must have; "": none.
	APIKey string `json:"apiKey,omitempty"`
	// AllowHosts are additional host names that requests to the endpoint may use.
	AllowHosts []string `json:"allowHosts,omitempty"`
	LogLevel   string   `json:"logLevel,omitempty"` // debug, info, warn or error; "": info
	// IdleUnloadMinutes is the idle time after which a model is unloaded; 0: never.
	IdleUnloadMinutes int `json:"idleUnloadMinutes,omitempty"`
	// Notifications lets the menu-bar app post notifications.
	Notifications bool `json:"notifications"`
	// SaveOnBattery unloads an idle model sooner on battery, and writes less to disk.
	SaveOnBattery bool `json:"saveOnBattery"`
	// ThrottleWhenHot throttles the engine when the computer is hot.
	ThrottleWhenHot bool `json:"throttleWhenHot"`
	// Welcomed reports whether the user has seen the welcome of the first start.
	Welcomed bool `json:"welcomed,omitempty"`
	// ImportFolder receives imported models and is scanned, too; "": library.Own.
	ImportFolder string `json:"importFolder,omitempty"`
	// HubEndpoint is the address of the hub for downloads; "": $HF_ENDPOINT, or Hugging Face.
	HubEndpoint string `json:"hubEndpoint,omitempty"`
	// PauseWatching stops watching the folders for changes.
	PauseWatching bool `json:"pauseWatching,omitempty"`

	Cache  Cache            `json:"cache"`
	Models map[string]Model `json:"models,omitempty"` // by ID
}

// Launch says whether the agent loads a model when it starts.
type Launch string

// The values of Launch.
const (
	LaunchAsLeft Launch = "" // if it ran when Headroom quit
	LaunchOn     Launch = "on"
	LaunchOff    Launch = "off"
)

// StartsEngine reports whether the agent loads a model when it starts.
func (s Settings) StartsEngine() bool {
	return s.Launch == LaunchOn || s.Launch == LaunchAsLeft && s.EngineOn
}

// Default returns the settings of a first start.
func Default() Settings {
	return Settings{Version: version, EngineOn: true, Port: 11811, ModelFolders: []string{},
		Notifications: true, SaveOnBattery: true, ThrottleWhenHot: true}
}

const (
	version  = 2
	fileName = "settings.json"
	maxBytes = 1 << 20
)

// File is the settings file. Its methods are safe for concurrent use.
type File struct {
	path string

	mu       sync.Mutex
	now      Settings
	readOnly bool // a later Headroom wrote it; writing would lose its settings
}

// Open reads the settings in dir, which need not exist. The File is usable even if Open returns an
// error: if the file cannot be read or parsed, the defaults apply, and the error says so.
func Open(dir string) (*File, error) {
	f := &File{path: filepath.Join(dir, fileName), now: Default()}
	data, err := read(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if err != nil {
		return f, fmt.Errorf("reading the settings (the defaults apply): %w", err)
	}
	s, err := parse(data)
	if err != nil {
		renamed := f.path + ".damaged"
		err = fmt.Errorf("the settings file is damaged; it was renamed to %s, and the defaults "+
			"apply: %w", renamed, err)
		return f, errors.Join(err, os.Rename(f.path, renamed))
	}
	f.now, f.readOnly = s, s.Version > version
	return f, nil
}

// Path returns the path of the file, which need not exist.
func (f *File) Path() string { return f.path }

// Get returns a copy of the settings.
func (f *File) Get() Settings {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now.clone()
}

// Change applies change and writes the settings if they differ. They take effect even if they
// cannot be written.
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
		return fmt.Errorf("writing the settings: %w", err)
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

// migrations[v] converts a document from version v to v+1. A document without a version has
// version 0.
var migrations = []func(map[string]json.RawMessage){
	0: func(map[string]json.RawMessage) {},
	1: renameKeys,
}

// renamedKeys maps the top-level keys of version 1 to the keys of version 2. renamedCacheKeys does
// the same for the keys of "cache".
var (
	renamedKeys = map[string]string{"restMinutes": "idleUnloadMinutes",
		"easeWhenHot": "throttleWhenHot"}
	renamedCacheKeys = map[string]string{"hotSize": "memoryCacheSize",
		"maxStallMs": "maxPrefillStallMs"}
)

// renameKeys converts a document from version 1 to 2.
func renameKeys(document map[string]json.RawMessage) {
	rename(document, renamedKeys)
	key, _ := keyOf(document, "cache")
	var cache map[string]json.RawMessage
	if json.Unmarshal(document[key], &cache) != nil || cache == nil {
		return // missing, or not an object, which parse reports
	}
	rename(cache, renamedCacheKeys)
	document[key], _ = json.Marshal(cache) // cannot fail: the values were just parsed
}

// rename moves the values of old keys to their new keys. A new key that exists keeps its value.
func rename(object map[string]json.RawMessage, names map[string]string) {
	for old, name := range names {
		key, ok := keyOf(object, old)
		if !ok {
			continue
		}
		if _, exists := keyOf(object, name); !exists {
			object[name] = object[key]
		}
		delete(object, key)
	}
}

// keyOf returns the key of object that is equal to name. Like encoding/json, it ignores case.
func keyOf(object map[string]json.RawMessage, name string) (key string, ok bool) {
	if _, ok := object[name]; ok {
		return name, true
	}
	for key := range object {
		if strings.EqualFold(key, name) {
			return key, true
		}
	}
	return "", false
}

// parse reads a file of any version. Missing and invalid values are replaced by the defaults.
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
	s.IdleUnloadMinutes = max(s.IdleUnloadMinutes, 0)
	s.Cache.repair()
	return s.clone(), nil
}

func encode(s Settings) []byte {
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		panic("settings: encode: " + err.Error()) // cannot happen for these types
	}
	return append(data, '\n')
}

// write replaces the file atomically. Only the user can read it.
func write(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return disk.WriteFile(path, data, 0o600)
}
