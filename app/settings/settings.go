// Package settings stores Headroom's settings in one small JSON file.
//
// The file is replaced atomically, and only the user can read it. It has a version. An older file
// is migrated when it is read. In a file of a later Headroom, the known settings apply, and it is
// never overwritten.
//
// Several programs may use one file. A change reads the file again under a lock, and Get notices
// what others have written.
//
// Fields that this version does not know stay in the file: another version may have written them.
//
// A value that makes no sense is replaced by its default, and the others apply. A damaged file must
// not remove the need for an API key: if the key cannot be read, a random one applies. A running
// Headroom drops its key only if a Headroom has removed it.
package settings

import "slices"

// Settings is the content of the file. Default returns the values of a first start.
type Settings struct {
	Version int `json:"version"`
	// Model is the model that ran last, by ID or folder; "": none yet.
	Model  string   `json:"model"`
	Recent []string `json:"recent,omitempty"` // IDs of models that ran, the latest first
	// EngineOn reports whether the engine ran when Headroom quit.
	EngineOn bool `json:"engineOn"`
	Port     int  `json:"port"` // of the endpoint, [1, 65535]
	// OllamaPort makes the endpoint listen on Ollama's port, too, if that is free.
	OllamaPort bool `json:"ollamaPort,omitempty"`
	// OllamaDelete lets clients move models to the Trash with Ollama's API.
	OllamaDelete bool `json:"ollamaDelete,omitempty"`
	// ShareWithMachines opens the port for other machines that were paired with this one.
	ShareWithMachines bool `json:"shareWithMachines,omitempty"`
	MachinesPort      int  `json:"machinesPort,omitempty"` // that port; 0: pairing.Port
	// FindMachines announces this machine on the local network while it is shared, and lists others
	// that do the same.
	FindMachines bool `json:"findMachines,omitempty"`
	// ModelFolders are scanned in addition to library.Roots.
	ModelFolders []string `json:"modelFolders"`
	Launch       Launch   `json:"launch,omitempty"` // whether the agent starts the engine
	// DefaultModel is the ID of the model that the agent starts; "": the one that ran last.
	// Requests that name no model get it, too, while nobody has started one.
	DefaultModel string `json:"defaultModel,omitempty"`
	// APIKey is the key that requests to the endpoint must have; "": none.
	APIKey string `json:"apiKey,omitempty"`
	// NoAPIKey reports whether a change by Headroom has removed the key; see Change. A file that
	// lacks both makes no running Headroom drop its key.
	NoAPIKey bool `json:"noApiKey,omitempty"`
	// AllowHosts are additional host names that requests to the endpoint may use.
	AllowHosts []string `json:"allowHosts,omitempty"`
	// AllowOrigins are web pages, by their origin, that may use the endpoint; see guard.Guard.
	AllowOrigins []string `json:"allowOrigins,omitempty"`
	LogLevel     string   `json:"logLevel,omitempty"` // debug, info, warn or error; "": info
	// IdleUnloadMinutes is the idle time after which a model is unloaded; 0: never.
	IdleUnloadMinutes int `json:"idleUnloadMinutes,omitempty"`
	// LoadOnRequest lets a request load the model that it names.
	LoadOnRequest bool `json:"loadOnRequest"`
	// RequestWaitMinutes is how long a request waits for its model; 0: 10 minutes.
	RequestWaitMinutes int `json:"requestWaitMinutes,omitempty"`
	// Notifications lets the menu-bar app post notifications.
	Notifications bool          `json:"notifications"`
	MenuBarFigure MenuBarFigure `json:"menuBarFigure,omitempty"`
	// SaveOnBattery unloads an idle model sooner on battery, and writes less to disk.
	SaveOnBattery bool `json:"saveOnBattery"`
	// ThrottleWhenHot throttles the engine when the computer is hot.
	ThrottleWhenHot bool `json:"throttleWhenHot"`
	// FreeUnderPressure returns caches to the system while memory is short.
	FreeUnderPressure bool `json:"freeUnderPressure"`
	// Welcomed reports whether the user has seen the welcome of the first start.
	Welcomed bool `json:"welcomed,omitempty"`
	// ImportFolder receives imported models and is scanned, too; "": library.Own.
	ImportFolder string `json:"importFolder,omitempty"`
	// HubEndpoint is the address of the hub for downloads; "": $HF_ENDPOINT, or Hugging Face.
	HubEndpoint string `json:"hubEndpoint,omitempty"`
	// UpdateFeed is the address of the feed of new versions of Headroom; "": none. UpdateKey is the
	// key that it is signed with.
	UpdateFeed string `json:"updateFeed,omitempty"`
	UpdateKey  string `json:"updateKey,omitempty"`
	// PauseWatching stops watching the folders for changes.
	PauseWatching bool `json:"pauseWatching,omitempty"`

	Cache  Cache            `json:"cache"`
	Models map[string]Model `json:"models,omitempty"` // by ID

	unknown unknown // never changed
}

// Launch says whether the agent loads a model when it starts.
type Launch string

// The values of Launch.
const (
	LaunchAsLeft Launch = "" // if it ran when Headroom quit
	LaunchOn     Launch = "on"
	LaunchOff    Launch = "off"
)

// MenuBarFigure is what the menu-bar app shows beside its icon.
type MenuBarFigure string

// The values of MenuBarFigure.
const (
	FigureNone   MenuBarFigure = ""
	FigureSpeed  MenuBarFigure = "speed"  // of decoding, while a model answers
	FigureMemory MenuBarFigure = "memory" // available for a model
)

// StartsEngine reports whether the agent loads a model when it starts.
func (s Settings) StartsEngine() bool {
	return s.Launch == LaunchOn || s.Launch == LaunchAsLeft && s.EngineOn
}

// Default returns the settings of a first start.
func Default() Settings {
	return Settings{Version: version, EngineOn: true, Port: 11811, ModelFolders: []string{},
		Notifications: true, SaveOnBattery: true, ThrottleWhenHot: true, LoadOnRequest: true,
		FreeUnderPressure: true}
}

func (s Settings) clone() Settings {
	s.ModelFolders = append([]string{}, s.ModelFolders...)
	s.AllowHosts, s.Recent = slices.Clone(s.AllowHosts), slices.Clone(s.Recent)
	s.AllowOrigins = slices.Clone(s.AllowOrigins)
	s.Models = cloneModels(s.Models)
	return s
}
