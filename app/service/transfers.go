package service

// Imports and downloads: the hub that models come from, and the folder that they go to.

import (
	"cmp"
	"os"
	"path/filepath"

	"headroom/app/control"
	"headroom/app/hub"
	"headroom/app/importer"
	"headroom/app/jobs"
	"headroom/app/library"
	"headroom/app/settings"
	"headroom/app/train"
	"headroom/app/version"
	"headroom/engine"
	"headroom/engine/problem"
)

// newTransfers returns the part of the control API for imports, downloads and trainings. A transfer
// uses the folder and the hub that the settings name when it starts. listed returns the models in
// the list; nil: none.
func newTransfers(list *jobs.List, file *settings.File,
	listed func() []library.Model) *control.Transfers {
	tokens := new(hub.Tokens)
	return &control.Transfers{
		Jobs:   list,
		Tokens: tokens,
		Importer: func() (*importer.Importer, error) {
			root, err := ImportFolder("", file.Get())
			if err != nil {
				return nil, err
			}
			return importer.New(importer.Options{Root: root, Describe: engine.Describe,
				Known: listed}), nil
		},
		Hub:     func() (*hub.Client, error) { return NewHub(file.Get().HubEndpoint, tokens) },
		Trainer: &train.Trainer{Environment: train.DefaultEnvironment()},
	}
}

// listed returns the models in the host's list, with their places.
func (s *Service) listed() []library.Model {
	var models []library.Model
	for _, m := range s.Host.Models(0).Models {
		one := library.Model{ID: m.ID}
		for _, p := range m.Places {
			one.Places = append(one.Places, library.Place{ID: p.ID, Dir: p.Path, Origin: p.Origin})
		}
		models = append(models, one)
	}
	return models
}

// ImportFolder returns the folder that imports go to: the given one, or else the folder in the
// settings, or else Headroom's folder. The error is a Problem.
func ImportFolder(given string, s settings.Settings) (string, error) {
	for _, dir := range []string{given, s.ImportFolder, library.Own()} {
		if dir != "" {
			if !filepath.IsAbs(dir) {
				return "", problem.New(problem.BadRequest, "Models cannot be imported into "+dir,
					"the path is not absolute", "Set importFolder to an absolute path.")
			}
			return dir, nil
		}
	}
	return "", problem.New(problem.BadRequest, "There is no folder to import into",
		"this user has no home folder", "Name a folder with --to.")
}

// NewHub returns a client of the hub at that address; "" means $HF_ENDPOINT, or huggingface.co. The
// error is a Problem.
func NewHub(endpoint string, tokens *hub.Tokens) (*hub.Client, error) {
	uploads := ""
	if dir, err := control.SettingsDir(); err == nil {
		uploads = filepath.Join(dir, uploadsFile)
	}
	return hub.New(hub.Options{Cache: library.HubCache(), Uploads: uploads,
		Endpoint: cmp.Or(endpoint, os.Getenv("HF_ENDPOINT")), Architectures: engine.Supported(),
		Token:     func() string { token, _ := tokens.Token(); return token },
		UserAgent: "headroom/" + version.Version})
}
