package control

// How single models are run, over HTTP: app/settings.Model word for word. What the command line
// says about every model beats it, so that is told beside it. Settings are tried on the model's
// headers before they are kept, and hold when it is next started; those that are about requests
// hold from the next one on.

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"

	"headroom/app/settings"
	"headroom/engine/generate"
	"headroom/engine/problem"
)

// ModelSettings is the document of /api/models/{id}/settings.
type ModelSettings struct {
	Settings settings.Model `json:"settings"`
	Fixed    []string       `json:"fixed"` // names of settings that the command line says
}

func (a *API) modelSettingsRoutes() []Route {
	return []Route{
		route("GET /api/models/{id}/settings",
			"How a model is run. The \"/\" of an ID is written %2F.", "",
			func(r *http.Request, _ nothing) (ModelSettings,
				error) {
				return a.settingsOf(r.PathValue("id")), nil
			}),
		route("PUT /api/models/{id}/settings",
			"Sets all of them, what is missing to its default. What is about requests holds from "+
				"the next one on, the rest when the model is next started.",
			`{"contextTokens": 32768}`,
			func(r *http.Request, m settings.Model) (ModelSettings, error) {
				id := r.PathValue("id")
				err := a.changeModel(id, m)
				return a.settingsOf(id), err
			}),
	}
}

func (a *API) settingsOf(id string) ModelSettings {
	return ModelSettings{Settings: a.settings.Get().ForModel(id),
		Fixed: slices.Sorted(maps.Keys(keys(a.modelFlags)))}
}

// RequestDefaults are what the settings say about requests that do not say it themselves.
func RequestDefaults(m settings.Model) generate.Defaults {
	return generate.Defaults{MaxTokens: m.MaxTokens, Temperature: m.Temperature, TopP: m.TopP,
		TopK: m.TopK, MinP: m.MinP, RepetitionPenalty: m.RepetitionPenalty,
		PresencePenalty: m.PresencePenalty, FrequencyPenalty: m.FrequencyPenalty, Seed: m.Seed,
		TemplateKwargs: m.TemplateArguments}
}

// keys are the settings that say something, by their names in JSON.
func keys(m settings.Model) map[string]json.RawMessage {
	said := map[string]json.RawMessage{}
	_ = json.Unmarshal(encoded(m), &said)
	return said
}

// changeModel tries the settings and keeps them. The error is a Problem.
func (a *API) changeModel(id string, m settings.Model) error {
	if m.ContextTokens < 0 || m.MaxSequences < 0 || m.MaxSequences > mostStreams {
		return problem.New(problem.BadRequest, "These settings cannot be",
			"lengths are not below 0, and at most 256 requests run at once",
			"Leave out what is to be as usual.")
	}
	set := func(s *settings.Settings) {
		if s.Models == nil {
			s.Models = map[string]settings.Model{}
		}
		s.ForgetModel(id)
		if len(keys(m)) > 0 {
			s.Models[id] = m
		}
	}
	if err := RequestDefaults(m).Check(); err != nil {
		return problem.Wrap(problem.BadRequest, err, "These settings cannot be",
			"Leave out what is to be as usual.")
	}
	if a.modelOptions != nil {
		tried := a.settings.Get()
		set(&tried)
		if err := a.host.CheckModel(id, a.modelOptions(tried, id)); err != nil {
			return err
		}
	}
	if err := a.settings.Change(set); err != nil {
		return problem.Wrap(problem.Internal, err,
			"The settings could not be kept, and hold until Headroom ends", "")
	}
	a.host.RenewModel(id)
	return nil
}
