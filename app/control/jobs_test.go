package control

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"headroom/app/host"
	"headroom/app/hub"
	"headroom/app/importer"
	"headroom/app/jobs"
	"headroom/app/memory"
	"headroom/app/settings"
	"headroom/app/train"
	"headroom/engine"
	"headroom/engine/problem"
)

// hubSearchText and hubRepositoryText are responses of a hub with the model o/m.
const (
	hubSearchText = `[{"id":"o/m","tags":["mlx"],"downloads":5,"config":{"model_type":"strange"}},` +
		`{"id":"o/n","lastModified":"2026-01-02T03:04:05Z","tags":["license:mit"],` +
		`"safetensors":{"parameters":{"BF16":4}}},{"id":"o/odd"},{"id":"o/gated","gated":"auto"}]`
	hubRepositoryText = `{"sha":"0123456789abcdef0123456789abcdef01234567","siblings":[` +
		`{"rfilename":"config.json","size":2},` +
		`{"rfilename":"model.safetensors","size":9},{"rfilename":"x.bin"}]}`
)

// newTransfers returns Transfers with new folders and a fake hub, whose address it saves in the
// settings. The hub serves no file contents.
func newTransfers(t *testing.T, file *settings.File) *Transfers {
	t.Helper()
	dir := t.TempDir()
	for name, value := range map[string]string{"HF_TOKEN": "", "HUGGING_FACE_HUB_TOKEN": "",
		"HF_TOKEN_PATH": filepath.Join(dir, "token"), "PATH": dir} {
		t.Setenv(name, value)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/api/models":
			_, _ = w.Write([]byte(hubSearchText))
		case r.URL.Path == "/o/n/resolve/main/config.json",
			r.URL.Path == "/o/odd/resolve/main/config.json":
			_, _ = w.Write([]byte(`{"n":1}`))
		case strings.HasPrefix(r.URL.Path, "/api/models/o/m/"):
			_, _ = w.Write([]byte(hubRepositoryText))
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	if err := file.Change(func(s *settings.Settings) { s.HubEndpoint = server.URL }); err != nil {
		t.Fatal(err)
	}
	list := jobs.NewList()
	t.Cleanup(list.Close)
	describe := func(src engine.Source, _ engine.Options) (engine.Description, error) {
		if src.FS != nil {
			return engine.Description{}, nil
		}
		_, err := os.Stat(filepath.Join(src.Dir, "config.json"))
		return engine.Description{Architecture: "x"}, err
	}
	return &Transfers{
		Jobs:    list,
		Tokens:  new(hub.Tokens),
		Trainer: &train.Trainer{Environment: train.EnvironmentIn(filepath.Join(dir, "python"))},
		Importer: func() (*importer.Importer, error) {
			return importer.New(importer.Options{Root: filepath.Join(dir, "models"),
				Describe: describe}), nil
		},
		Hub: func() (*hub.Client, error) {
			return hub.New(hub.Options{Cache: filepath.Join(dir, "hub"),
				Endpoint: file.Get().HubEndpoint, Architectures: []string{"x"}})
		},
	}
}

// ask sends a request with the token and decodes the response.
func ask[Response any](t *testing.T, method, url, body string) (status int, response Response) {
	t.Helper()
	status, _, text := do(t, method, url, body, TokenHeader, "T")
	if err := json.Unmarshal([]byte(text), &response); err != nil && status < 300 && text != "" {
		t.Fatalf("%s %s: %v in %s", method, url, err, text)
	}
	return status, response
}

// TestImportOverHTTP plans the import of a folder, imports it, follows the job over the events, and
// removes the job.
func TestImportOverHTTP(t *testing.T) {
	w := newGeneral(t)
	from := filepath.Join(t.TempDir(), "a model")
	if err := os.MkdirAll(from, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(from, "config.json"), []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	body, _ := json.Marshal(ImportRequest{Paths: []string{from, "/gone"}, Mode: importer.Copy})
	status, plan := ask[ImportPlan](t, "POST", w.url+"/control/imports/plan", string(body))
	if status != http.StatusOK || len(plan.Items) != 2 || plan.Items[0].Name != "a model" ||
		plan.Items[0].Bytes != 2 || plan.Items[0].Job != "" || plan.Items[1].Error == nil {
		t.Errorf("plan: %d %+v", status, plan)
	}
	status, plan = ask[ImportPlan](t, "POST", w.url+"/control/imports", string(body))
	if status != http.StatusAccepted || plan.Items[0].Job == "" || plan.Items[1].Job != "" {
		t.Fatalf("started: %d %+v", status, plan)
	}
	r, err := http.NewRequestWithContext(t.Context(), "GET", w.url+"/control/events?token=T", nil)
	if err != nil {
		t.Fatal(err)
	}
	events, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer events.Body.Close()
	var done Job
	for lines := bufio.NewScanner(events.Body); done.State != jobs.Done && lines.Scan(); {
		var list JobList
		if data, ok := strings.CutPrefix(lines.Text(), `data: {"jobs":`); ok &&
			json.Unmarshal([]byte(`{"jobs":`+data), &list) == nil && len(list.Jobs) == 1 {
			done = list.Jobs[0]
		}
	}
	if done.ID != plan.Items[0].Job || done.Path != plan.Items[0].Path || done.DoneBytes != 2 ||
		done.Error != nil {
		t.Errorf("job in the events: %+v", done)
	}
	if _, err := os.Stat(filepath.Join(done.Path, "config.json")); err != nil {
		t.Error(err)
	}
	if status, _ := ask[struct{}](t, "DELETE", w.url+"/control/jobs/"+done.ID,
		""); status != http.StatusNoContent {
		t.Errorf("removing the job: %d", status)
	}
	if status, _ := ask[struct{}](t, "POST", w.url+"/control/jobs/"+done.ID+"/stop",
		""); status != http.StatusNotFound {
		t.Errorf("stopping a removed job: %d", status)
	}
	for _, body := range []string{`{"paths":[],"mode":"copy"}`, `{"paths":["/x"],"mode":"burn"}`} {
		if status, _ := ask[ErrorBody](t, "POST", w.url+"/control/imports",
			body); status != http.StatusBadRequest {
			t.Errorf("%s: %d", body, status)
		}
	}
}

func TestHubOverHTTP(t *testing.T) {
	w := newGeneral(t)
	_, s := ask[HubSettings](t, "GET", w.url+"/control/hub", "")
	if s.Endpoint != s.ConfiguredEndpoint || s.Token != hub.NoToken || s.Folder == "" {
		t.Errorf("settings %+v", s)
	}
	_, found := ask[HubSearch](t, "GET", w.url+"/control/hub/search?words=m&limit=4", "")
	if len(found.Models) != 4 || !found.Models[0].MLX || found.Models[0].Supported ||
		!found.Models[1].Supported || found.Models[1].UpdatedAtUnixMs != 1767323045000 {
		t.Errorf("found %+v", found)
	}
	// Each config.json is fetched once; what is gated stays unknown.
	_, again := ask[HubSearch](t, "GET", w.url+"/control/hub/search?words=m&limit=4", "")
	for _, list := range []HubSearch{found, again} {
		n, odd, gated := list.Models[1], list.Models[2], list.Models[3]
		if n.Licence != "mit" || n.SizeBytes != 8 || n.NeedBytes != 9 || n.Fits != memory.Yes ||
			odd.Supported || odd.Why != "it is odd" ||
			!gated.Supported || gated.NeedBytes != 0 || gated.Fits != memory.No || !gated.Gated {
			t.Errorf("judged %+v", list)
		}
	}
	if configs := len(w.api.judged.configs); configs != 2 ||
		!slices.Contains(w.host.models, `judge o/n {"n":1} 8`) {
		t.Errorf("%d configs, calls %q", configs, w.host.models)
	}
	_, first := ask[HubSuggestions](t, "GET", w.url+"/control/hub/suggestions", "")
	if len(first.Suggestions) != 1 || first.Suggestions[0].ID != "o/first" {
		t.Errorf("suggestions %+v", first)
	}
	_, r := ask[HubRepository](t, "GET", w.url+"/control/hub/repository?id=o/m", "")
	if len(r.Files) != 3 || !r.Files[1].Needed || r.Files[1].Bytes != 9 || r.Files[2].Needed ||
		r.Files[2].Bytes != -1 || r.Error != nil {
		t.Errorf("repository %+v", r)
	}
	// The hub serves no file contents, so the download fails.
	status, job := ask[Job](t, "POST", w.url+"/control/downloads", `{"id":"o/m"}`)
	if status != http.StatusAccepted || job.Kind != jobs.Download || job.Title != "o/m" {
		t.Errorf("started: %d %+v", status, job)
	}
	if ended, err := w.api.transfers.Jobs.Wait(t.Context(), job.ID); err != nil ||
		ended.State != jobs.Failed || w.api.jobView(ended).Error.Code != "not_found" {
		t.Errorf("ended: %+v, %v", ended, err)
	}
	if status, s := ask[HubSettings](t, "PUT", w.url+"/control/hub",
		`{"token":"hf_abc"}`); status != http.StatusOK || s.Token != hub.TokenFile {
		t.Errorf("token: %d %+v", status, s)
	}
	if status, s := ask[HubSettings](t, "PUT", w.url+"/control/hub",
		`{"endpoint":"https://mirror.example/hf/"}`); status != http.StatusOK ||
		s.Endpoint != "https://mirror.example/hf" {
		t.Errorf("mirror: %d %+v", status, s)
	}
	for _, c := range []struct{ method, path, body string }{
		{"PUT", "/control/hub", `{"endpoint":"file:///etc"}`},
		{"PUT", "/control/hub", `{"token":"a b"}`},
		{"GET", "/control/hub/search?limit=0", ""},
		{"POST", "/control/downloads", `{"id":"../.."}`},
	} {
		if status, _ := ask[ErrorBody](t, c.method, w.url+c.path,
			c.body); status != http.StatusBadRequest {
			t.Errorf("%s %s %s: %d", c.method, c.path, c.body, status)
		}
	}
}

func (h *fakeHost) Suggestions() []host.Suggestion {
	return []host.Suggestion{{ID: "o/first", Judgement: host.Judgement{NeedBytes: 7}}}
}

// Judge refuses a model named "odd", and says what was asked.
func (h *fakeHost) Judge(id string, config []byte, weightsBytes int64) (host.Judgement, error) {
	h.record(fmt.Sprintf("judge %s %s %d", id, config, weightsBytes))
	if strings.HasSuffix(id, "/odd") {
		return host.Judgement{}, problem.New(problem.UnknownArchitecture, "No", "it is odd", "")
	}
	return host.Judgement{NeedBytes: weightsBytes + 1, Fits: memory.Yes}, nil
}

// TestHubContract: the keys of what the pages know of models that are not here.
func TestHubContract(t *testing.T) {
	contract(t, HubSuggestions{[]host.Suggestion{{}}}, map[string]string{
		"": "suggestions",
		"suggestions": "id note downloadBytes licence quantization parameters contextTokens " +
			"needBytes need fits tokensPerSecond",
	})
	contract(t, HubSearch{[]HubModel{{}}}, map[string]string{
		"": "models",
		"models": "id modelType supported why mlx tags downloads likes gated licence sizeBytes " +
			"updatedAt quantization parameters contextTokens needBytes need fits tokensPerSecond",
	})
}
