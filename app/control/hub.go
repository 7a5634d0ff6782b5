package control

// The model hub over HTTP: its settings, a search, the files of a repository, and downloads.

import (
	"net/http"
	"slices"
	"strconv"
	"time"

	"headroom/app/host"
	"headroom/app/hub"
	"headroom/app/memory"
	"headroom/app/settings"
	"headroom/engine/problem"
)

// HubSettings is the response of /control/hub. It never contains the token itself.
type HubSettings struct {
	Endpoint string `json:"endpoint"` // address in use
	// ConfiguredEndpoint is the address in the settings; "": Hugging Face.
	ConfiguredEndpoint string `json:"configuredEndpoint"`
	// Token says where the token was found: "environment", "keychain" or "file"; "": nowhere.
	Token  hub.TokenSource `json:"token"`
	Folder string          `json:"folder"` // folder of downloaded models
}

// HubChange is the body of PUT /control/hub. A missing field does not change.
type HubChange struct {
	Endpoint *string `json:"endpoint"`
	Token    *string `json:"token"` // "" removes the saved token
}

// HubSearch is the response of /control/hub/search.
type HubSearch struct {
	Models []HubModel `json:"models"`
}

// HubModel is one result of a search.
type HubModel struct {
	ID              string   `json:"id"`
	ModelType       string   `json:"modelType"` // model_type of its config.json; "": unknown
	Supported       bool     `json:"supported"` // Headroom runs this type, or it is unknown
	Why             string   `json:"why"`       // more on why it is not supported; may be ""
	MLX             bool     `json:"mlx"`
	Tags            []string `json:"tags"`
	Downloads       int64    `json:"downloads"`
	Likes           int64    `json:"likes"`
	Gated           bool     `json:"gated"`
	Licence         string   `json:"licence"`   // as the hub abbreviates it; "": unknown
	SizeBytes       int64    `json:"sizeBytes"` // of its weights; 0: unknown
	UpdatedAtUnixMs int64    `json:"updatedAt"` // 0: unknown
	// What it would need here. It is unknown if the hub did not give its config.json in time.
	host.Judgement
}

// HubSuggestions is the response of /control/hub/suggestions.
type HubSuggestions struct {
	Suggestions []host.Suggestion `json:"suggestions"`
}

// HubRepository is the response of /control/hub/repository.
type HubRepository struct {
	ID     string    `json:"id"`
	Commit string    `json:"commit"`
	Gated  bool      `json:"gated"`
	Files  []HubFile `json:"files"`
	Error  *Error    `json:"error"` // why Headroom cannot use it; null: it can
}

// HubFile is one file of a repository.
type HubFile struct {
	Path   string `json:"path"`
	Bytes  int64  `json:"bytes"`  // negative: unknown
	Needed bool   `json:"needed"` // downloaded unless the request selects files
}

// DownloadRequest is the body of /control/downloads.
type DownloadRequest struct {
	ID       string   `json:"id"`       // "org/name"
	Revision string   `json:"revision"` // "": main
	Files    []string `json:"files"`    // null: the files that the model needs
}

const maxResults = 50

// firstAnswerTime is how long a download waits for the hub's first answer: whoever clicked is
// looking, and is to hear soon that there is no connection.
const firstAnswerTime = 20 * time.Second

func (a *API) hubRoutes() []Route {
	return []Route{
		route("GET /control/hub",
			"Returns the hub's address, and where its token was found.", "",
			func(*http.Request, nothing) (HubSettings, error) { return a.hubSettings() }),
		route("PUT /control/hub", "Changes the hub's address or its token.",
			`{"endpoint": "https://huggingface.co"}`,
			func(_ *http.Request, q HubChange) (HubSettings, error) { return a.changeHub(q) }),
		route("GET /control/hub/search", "Searches the hub for models.", "",
			func(r *http.Request, _ nothing) (HubSearch, error) { return a.searchHub(r) }).
			withQueries(Query{"words", "Words that the name must contain."},
				Query{"owner", "Whose models are searched. Default: everybody's."},
				Query{"limit", "The maximum number of results, 1 to 50."}),
		route("GET /control/hub/suggestions",
			"Returns three models to begin with: the largest that fit.", "",
			func(*http.Request, nothing) (HubSuggestions, error) {
				return HubSuggestions{a.host.Suggestions()}, nil
			}),
		route("GET /control/hub/repository", "Lists the files of a repository on the hub.", "",
			func(r *http.Request, _ nothing) (HubRepository, error) { return a.hubRepository(r) }).
			withQueries(Query{"id", "The ID of the repository: org/name."},
				Query{"revision", "A branch, tag or commit. Default: main."}),
		route("POST /control/downloads", "Starts the download of a model as a job, or resumes it.",
			`{"id": "org/name"}`,
			func(_ *http.Request, q DownloadRequest) (Job, error) {
				return a.download(q)
			}).withStatus(http.StatusAccepted),
	}
}

func (a *API) hubSettings() (HubSettings, error) {
	c, err := a.transfers.Hub()
	if err != nil {
		return HubSettings{}, err
	}
	_, source := a.transfers.Tokens.Token()
	s := HubSettings{Endpoint: c.Endpoint(), Token: source, Folder: c.Cache()}
	if a.settings != nil {
		s.ConfiguredEndpoint = a.settings.Get().HubEndpoint
	}
	return s, nil
}

func (a *API) changeHub(q HubChange) (HubSettings, error) {
	if q.Endpoint != nil {
		if *q.Endpoint != "" {
			if _, err := hub.ParseEndpoint(*q.Endpoint); err != nil {
				return HubSettings{}, err
			}
		}
		if a.settings == nil {
			return HubSettings{}, problem.New(problem.BadRequest,
				"The hub's address cannot be saved",
				"this program runs without a settings file", "")
		}
		if err := a.settings.Change(
			func(s *settings.Settings) { s.HubEndpoint = *q.Endpoint }); err != nil {
			return HubSettings{}, err
		}
	}
	if q.Token != nil {
		if _, err := a.transfers.Tokens.Save(*q.Token); err != nil {
			return HubSettings{}, err
		}
	}
	return a.hubSettings()
}

func (a *API) searchHub(r *http.Request) (HubSearch, error) {
	limit := maxResults
	if text := r.URL.Query().Get("limit"); text != "" {
		var err error
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > maxResults {
			return HubSearch{}, problem.New(problem.BadRequest,
				strconv.Quote(text)+" is not a valid number of results", "it must be 1 to 50",
				"Send ?limit=20, or leave it out.")
		}
	}
	c, err := a.transfers.Hub()
	if err != nil {
		return HubSearch{}, err
	}
	found, err := c.Search(r.Context(), hub.Query{Words: r.URL.Query().Get("words"),
		Owner: r.URL.Query().Get("owner"), Limit: limit})
	if err != nil {
		return HubSearch{}, err
	}
	s := HubSearch{Models: []HubModel{}}
	for _, f := range found {
		m := HubModel{ID: f.ID, ModelType: f.ModelType, Supported: c.Runs(f.ModelType),
			MLX: slices.Contains(f.Tags, "mlx"), Tags: slices.Concat([]string{}, f.Tags),
			Downloads: f.Downloads, Likes: f.Likes, Gated: f.Gated, Licence: f.Licence,
			SizeBytes: f.SizeBytes, Judgement: host.Judgement{Fits: memory.No}}
		if !f.UpdatedAt.IsZero() {
			m.UpdatedAtUnixMs = f.UpdatedAt.UnixMilli()
		}
		s.Models = append(s.Models, m)
	}
	a.judge(r.Context(), c, s.Models)
	return s, nil
}

func (a *API) hubRepository(r *http.Request) (HubRepository, error) {
	c, err := a.transfers.Hub()
	if err != nil {
		return HubRepository{}, err
	}
	found, err := c.Repository(r.Context(), r.URL.Query().Get("id"), r.URL.Query().Get("revision"))
	if err != nil {
		return HubRepository{}, err
	}
	v := HubRepository{ID: found.ID, Commit: found.Commit, Gated: found.Gated, Files: []HubFile{}}
	needed, err := c.Needed(found)
	if err != nil {
		v.Error = newError(err)
	}
	for _, f := range found.Files {
		v.Files = append(v.Files,
			HubFile{Path: f.Path, Bytes: f.Size, Needed: slices.Contains(needed, f)})
	}
	return v, nil
}

func (a *API) download(q DownloadRequest) (Job, error) {
	if err := hub.CheckID(q.ID); err != nil {
		return Job{}, err
	}
	c, err := a.transfers.Hub()
	if err != nil {
		return Job{}, err
	}
	request := hub.Request{ID: q.ID, Revision: q.Revision, Files: q.Files}
	return a.jobView(a.transfers.Jobs.Start(c.JobWithin(request, firstAnswerTime))), nil
}
