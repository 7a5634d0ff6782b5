package control

import (
	"net/http"
	"slices"
	"strconv"

	"headroom/app/hub"
	"headroom/app/settings"
	"headroom/engine/problem"
)

// HubSettings is the document of /api/hub. The token itself is never told.
type HubSettings struct {
	Endpoint string `json:"endpoint"` // that is asked
	Own      string `json:"own"`      // of the settings; "": Hugging Face's
	// where there is one: "environment", "keychain" or "file"; "": nowhere
	Token  hub.TokenSource `json:"token"`
	Folder string          `json:"folder"` // that models are downloaded into
}

// HubChange is the body of a PUT: what is missing stays.
type HubChange struct {
	Endpoint *string `json:"endpoint"`
	Token    *string `json:"token"` // "" removes the one that is kept
}

// HubSearch is the document of /api/hub/search.
type HubSearch struct {
	Models []HubModel `json:"models"`
}

// HubModel is one result of a search.
type HubModel struct {
	ID              string   `json:"id"`
	Kind            string   `json:"kind"` // its config.json's model_type; "": not known
	Runs            bool     `json:"runs"` // Headroom knows that kind, or the kind is not known
	MLX             bool     `json:"mlx"`
	Tags            []string `json:"tags"`
	Downloads       int64    `json:"downloads"`
	Likes           int64    `json:"likes"`
	Gated           bool     `json:"gated"`
	UpdatedAtUnixMs int64    `json:"updatedAt"` // 0: not known
}

// HubRepository is the document of /api/hub/repository.
type HubRepository struct {
	ID     string    `json:"id"`
	Commit string    `json:"commit"`
	Gated  bool      `json:"gated"`
	Files  []HubFile `json:"files"`
	Error  *Error    `json:"error"` // why it is of no use here; null: it is
}

// HubFile is one file of a repository.
type HubFile struct {
	Path   string `json:"path"`
	Bytes  int64  `json:"bytes"`  // below 0: not known
	Needed bool   `json:"needed"` // it is downloaded unless files are chosen
}

// DownloadRequest is the body of /api/downloads.
type DownloadRequest struct {
	ID       string   `json:"id"`       // "org/name"
	Revision string   `json:"revision"` // "": main
	Files    []string `json:"files"`    // null: those that the model needs
}

const mostFound = 50

func (a *API) hubRoutes() []Route {
	return []Route{
		route("GET /api/hub",
			"The hub that models are downloaded from, and whether there is a token for it.", "",
			func(*http.Request, nothing) (HubSettings, error) { return a.hubSettings() }),
		route("PUT /api/hub", "Changes the hub's address or its token; what is missing stays.",
			`{"endpoint": "https://huggingface.co"}`,
			func(_ *http.Request, q HubChange) (HubSettings, error) { return a.changeHub(q) }),
		route("GET /api/hub/search", "Looks for models on the hub.", "",
			func(r *http.Request, _ nothing) (HubSearch, error) { return a.searchHub(r) }).
			with(Query{"words", "That are in the name."}, Query{"limit", "Most results, 1 to 50."}),
		route("GET /api/hub/repository", "The files of a repository of the hub.", "",
			func(r *http.Request, _ nothing) (HubRepository, error) { return a.hubRepository(r) }).
			with(Query{"id", "As the hub calls it: org/name."},
				Query{"revision", "A branch, a tag or a commit; none: main."}),
		route("POST /api/downloads", "Downloads a model as a job, or goes on with it.",
			`{"id": "org/name"}`,
			func(_ *http.Request, q DownloadRequest) (Job,
				error) {
				return a.download(q)
			}).answering(http.StatusAccepted),
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
		s.Own = a.settings.Get().HubEndpoint
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
				"The hub's address cannot be kept", "this program has no settings", "")
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
	limit := mostFound
	if text := r.URL.Query().Get("limit"); text != "" {
		var err error
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > mostFound {
			return HubSearch{}, problem.New(problem.BadRequest,
				"There cannot be "+strconv.Quote(text)+" results", "it is a number from 1 to 50",
				"Send ?limit=20, or none.")
		}
	}
	c, err := a.transfers.Hub()
	if err != nil {
		return HubSearch{}, err
	}
	found, err := c.Search(r.Context(), r.URL.Query().Get("words"), limit)
	if err != nil {
		return HubSearch{}, err
	}
	s := HubSearch{Models: []HubModel{}}
	for _, f := range found {
		m := HubModel{ID: f.ID, Kind: f.ModelType, Runs: c.Runs(f.ModelType),
			MLX: slices.Contains(f.Tags, "mlx"), Tags: slices.Concat([]string{}, f.Tags),
			Downloads: f.Downloads, Likes: f.Likes, Gated: f.Gated}
		if !f.UpdatedAt.IsZero() {
			m.UpdatedAtUnixMs = f.UpdatedAt.UnixMilli()
		}
		s.Models = append(s.Models, m)
	}
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
	return jobView(a.transfers.Jobs.Start(
		c.Job(hub.Request{ID: q.ID, Revision: q.Revision, Files: q.Files}))), nil
}
